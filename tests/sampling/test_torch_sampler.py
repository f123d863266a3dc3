"""The built-in sampler against `generate`, exact probabilities and a teacher-forced forward pass."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Olmo3Config,
    Olmo3ForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from clbench.errors import UserError
from clbench.sampling import Completion, SamplingConfig, TorchSampler, torch_sampler

VOCABULARY, PAD, STOP = 60, 0, 1
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,  # peaked distributions: no near-ties
    "eos_token_id": STOP,
    "pad_token_id": PAD,
}


def a_model(kind: str = "qwen3", seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    if kind == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**SIZES, tie_word_embeddings=True)).eval()
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**SIZES)).eval()
    without_head_size = {name: value for name, value in SIZES.items() if name != "head_dim"}
    if kind == "olmo2":
        return Olmo2ForCausalLM(Olmo2Config(**without_head_size)).eval()
    if kind == "olmo3":
        layer_types = ["sliding_attention", "full_attention"]
        return Olmo3ForCausalLM(Olmo3Config(**without_head_size, sliding_window=4, layer_types=layer_types)).eval()
    if kind == "bloom":
        # Positions by ALiBi, found from the mask.
        sizes = {name: SIZES[name] for name in ("vocab_size", "hidden_size", "eos_token_id", "pad_token_id")}
        return BloomForCausalLM(BloomConfig(**sizes, n_layer=2, n_head=2, initializer_range=0.5)).eval()
    # Alternating sliding-window and full attention, soft-capped logits.
    return Gemma2ForCausalLM(Gemma2Config(**SIZES, sliding_window=6)).eval()


def a_sampler(model: PreTrainedModel) -> TorchSampler:
    return TorchSampler(model, stop_token_ids=[STOP], pad_token_id=PAD)


def some_prompts(num: int = 23, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(2, VOCABULARY, rng.integers(1, 12)).tolist() for _ in range(num)]


def generate_alone(model: PreTrainedModel, prompt: list[int], budget: int) -> tuple[int, ...]:
    ids = torch.tensor([prompt])
    output = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=budget)  # type: ignore[attr-defined]
    return tuple(output[0, len(prompt) :].tolist())


@pytest.mark.parametrize("kind", ["qwen3", "llama", "olmo2", "olmo3", "gemma2", "bloom"])
@pytest.mark.parametrize("batch_size", [1, 5, 64])
def test_greedy_sampling_is_generate_one_prompt_at_a_time(kind: str, batch_size: int) -> None:
    model, prompts = a_model(kind), some_prompts()
    budgets = [3 + i % 14 for i in range(len(prompts))]
    got = a_sampler(model).sample(prompts, max_new_tokens=budgets, config=SamplingConfig(batch_size=batch_size))
    expected = [generate_alone(model, prompt, budget) for prompt, budget in zip(prompts, budgets, strict=True)]
    assert [completion.token_ids for completion in got] == expected


@pytest.mark.parametrize("kind", ["qwen3", "olmo2"])
def test_eager_attention_gives_the_same_tokens(kind: str) -> None:
    model, prompts = a_model(kind), some_prompts()
    model.set_attn_implementation("eager")  # type: ignore[no-untyped-call]
    got = a_sampler(model).sample(prompts, max_new_tokens=12, config=SamplingConfig())
    assert [completion.token_ids for completion in got] == [generate_alone(model, prompt, 12) for prompt in prompts]


@pytest.mark.parametrize("kind", ["qwen3", "olmo2"])
def test_a_budget_beyond_the_caches_first_room_is_used_up_exactly(kind: str) -> None:
    model = a_model(kind)
    model.config.max_position_embeddings = 400
    prompts = [[5], [6, 7, 8, 9]]
    sampler = TorchSampler(model, stop_token_ids=[], pad_token_id=PAD)
    got = sampler.sample(prompts, max_new_tokens=250, config=SamplingConfig(), with_log_probs=True)
    for prompt, completion in zip(prompts, got, strict=True):
        assert len(completion.token_ids) == 250
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *completion.token_ids]])).logits[0, len(prompt) - 1 : -1]
        assert logits.argmax(-1).tolist() == list(completion.token_ids)


def test_prompts_read_in_many_chunks_give_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, prompts = a_sampler(a_model()), some_prompts()
    whole = sampler.sample(prompts, max_new_tokens=12, config=SamplingConfig())
    monkeypatch.setattr(torch_sampler, "_CHUNK_TOKENS", {"cpu": 15})
    chunked = sampler.sample(prompts, max_new_tokens=12, config=SamplingConfig())
    assert [c.token_ids for c in chunked] == [c.token_ids for c in whole]


def test_the_same_call_gives_the_same_result_to_the_last_bit() -> None:
    sampler, config = a_sampler(a_model()), SamplingConfig(temperature=1.0, top_p=0.9, batch_size=7)
    first, second = (
        sampler.sample(some_prompts(), max_new_tokens=10, config=config, with_log_probs=True) for _ in range(2)
    )
    assert first == second


def test_a_model_whose_weights_became_nan_still_gives_completions() -> None:
    model = a_model()
    with torch.no_grad():
        model.get_parameter("model.norm.weight").fill_(float("nan"))
    completions = a_sampler(model).sample(some_prompts(), max_new_tokens=4, config=SamplingConfig(temperature=1.0))
    assert all(completion.token_ids for completion in completions)


def test_finish_says_whether_a_stop_token_or_the_budget_ended_it() -> None:
    model, prompts = a_model(), some_prompts(60)
    for completion in a_sampler(model).sample(prompts, max_new_tokens=16, config=SamplingConfig()):
        assert (completion.finish == "stop") == (completion.token_ids[-1] == STOP)
        assert STOP not in completion.token_ids[:-1]
        assert completion.finish == "stop" or len(completion.token_ids) == 16


def test_some_sequences_stop_early_in_these_tests() -> None:
    completions = a_sampler(a_model()).sample(some_prompts(60), max_new_tokens=16, config=SamplingConfig())
    assert 0 < sum(completion.finish == "stop" for completion in completions) < 60


def test_a_sample_does_not_depend_on_the_batch_it_ran_in() -> None:
    sampler, prompts = a_sampler(a_model()), some_prompts()

    def sample(batch_size: int, seed: int) -> list[Completion]:
        config = SamplingConfig(temperature=1.0, seed=seed, batch_size=batch_size)
        return sampler.sample(prompts, max_new_tokens=10, config=config)

    small, large, other = sample(3, 0), sample(64, 0), sample(64, 1)
    assert [c.token_ids for c in small] == [c.token_ids for c in large]
    assert [c.token_ids for c in large] != [c.token_ids for c in other]


def sampled_shares(config: SamplingConfig, num: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of each first token, and the model's own probabilities of them."""
    model, prompt = a_model(), [5, 6, 7]
    with torch.no_grad():
        probs = model(torch.tensor([prompt])).logits[0, -1].double().div(config.temperature).softmax(-1).numpy()
    completions = a_sampler(model).sample([prompt] * num, max_new_tokens=1, config=config)
    return np.bincount([c.token_ids[0] for c in completions], minlength=VOCABULARY) / num, probs


@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_tokens_are_drawn_with_the_models_probabilities(temperature: float) -> None:
    num = 20_000
    shares, probs = sampled_shares(SamplingConfig(temperature=temperature, batch_size=num), num)
    # Pearson's statistic over cells that expect at least 5; its mean is the number of free cells.
    cells = probs * num >= 5
    statistic = num * ((shares[cells] - probs[cells]) ** 2 / probs[cells]).sum()
    assert statistic < cells.sum() + 4 * np.sqrt(2 * cells.sum())


def test_top_k_and_top_p_keep_the_most_probable_tokens() -> None:
    shares, probs = sampled_shares(SamplingConfig(temperature=2.0, top_k=3, batch_size=2000), 2000)
    assert set(np.flatnonzero(shares)) == set(np.argsort(-probs)[:3])
    shares, probs = sampled_shares(SamplingConfig(temperature=2.0, top_p=0.5, batch_size=2000), 2000)
    order = np.argsort(-probs)
    num_kept = int(np.searchsorted(np.cumsum(probs[order]), 0.5)) + 1
    assert set(np.flatnonzero(shares)) == set(order[:num_kept])


def test_a_very_low_temperature_is_greedy() -> None:
    sampler, prompts = a_sampler(a_model()), some_prompts()
    cold = sampler.sample(prompts, max_new_tokens=8, config=SamplingConfig(temperature=1e-4))
    greedy = sampler.sample(prompts, max_new_tokens=8, config=SamplingConfig())
    assert [c.token_ids for c in cold] == [c.token_ids for c in greedy]


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_log_probs_are_those_of_a_teacher_forced_forward_at_temperature_one(temperature: float) -> None:
    model, prompts = a_model(), some_prompts()
    config = SamplingConfig(temperature=temperature, batch_size=8)
    completions = a_sampler(model).sample(prompts, max_new_tokens=9, config=config, with_log_probs=True)
    for prompt, completion in zip(prompts, completions, strict=True):
        ids = torch.tensor([[*prompt, *completion.token_ids]])
        with torch.no_grad():
            log_probs = model(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        expected = log_probs.gather(-1, torch.tensor(completion.token_ids)[:, None])[:, 0]
        np.testing.assert_allclose(completion.log_probs, expected.numpy(), atol=2e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["qwen3", "llama", "olmo2"])
def test_weights_that_change_in_place_are_used_at_once(kind: str) -> None:
    model, prompts = a_model(kind, seed=0), some_prompts()
    sampler = a_sampler(model)
    before = sampler.sample(prompts, max_new_tokens=8, config=SamplingConfig())
    with torch.no_grad():
        for parameter, new in zip(model.parameters(), a_model(kind, seed=1).parameters(), strict=True):
            parameter.copy_(new)
    after = sampler.sample(prompts, max_new_tokens=8, config=SamplingConfig())
    fresh = a_sampler(a_model(kind, seed=1)).sample(prompts, max_new_tokens=8, config=SamplingConfig())
    assert after == fresh
    assert after != before


def test_sampling_leaves_random_state_and_training_mode_alone() -> None:
    model = a_model().train()
    model.get_submodule("model.layers.0").eval()
    modes, config = [module.training for module in model.modules()], model.config.to_dict()
    torch.manual_seed(3)
    before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    a_sampler(model).sample(some_prompts(), max_new_tokens=4, config=SamplingConfig(temperature=1.0))
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # type: ignore[index]
    assert [module.training for module in model.modules()] == modes
    assert model.config.to_dict() == config


def test_every_finished_prompt_is_reported_once() -> None:
    finished: list[int] = []
    a_sampler(a_model()).sample(
        some_prompts(), max_new_tokens=5, config=SamplingConfig(batch_size=4), on_finished=finished.append
    )
    assert sum(finished) == 23


def test_the_interface_is_imported_without_torch() -> None:
    code = "import sys, clbench.sampling.interface, clbench.sampling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_prompts_give_no_completions() -> None:
    assert a_sampler(a_model()).sample([], max_new_tokens=5, config=SamplingConfig()) == []


def test_prompts_that_cannot_be_continued_are_refused() -> None:
    sampler = a_sampler(a_model())
    with pytest.raises(UserError, match=r"60 tokens with a budget of 5 does not fit.*64"):
        sampler.sample([[5] * 60], max_new_tokens=5, config=SamplingConfig())
    with pytest.raises(UserError, match="no tokens"):
        sampler.sample([[]], max_new_tokens=5, config=SamplingConfig())
