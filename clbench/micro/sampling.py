"""Sampling for the builder and the report: batches of similar length, key-value cache, finished sequences dropped.

Runs of the benchmark sample with `clbench.sampling`; the lineage can be built without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clbench.micro.finetune import prompt_text
from clbench.micro.question import THINK_CLOSE

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def sample(
    model: PreTrainedModel,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """One completion of each prompt, its end of turn included unless the budget ran out. Temperature 0 is greedy."""
    import torch
    from transformers import DynamicCache

    length = max(map(len, prompts))
    ids = torch.full((len(prompts), length), tokenizer.pad_token_id)
    mask = torch.zeros((len(prompts), length), dtype=torch.long)
    for i, prompt in enumerate(prompts):
        ids[i, length - len(prompt) :] = torch.tensor(prompt)
        mask[i, length - len(prompt) :] = 1
    completions: list[list[int]] = [[] for _ in prompts]
    alive = torch.arange(len(prompts))
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    model.train(False)
    with torch.inference_mode():
        for _ in range(max_new_tokens):
            logits = model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, logits_to_keep=1
            ).logits[:, -1]
            if temperature > 0:
                chosen = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]
            else:
                chosen = logits.argmax(-1)
            for row, token in zip(alive.tolist(), chosen.tolist(), strict=True):
                completions[row].append(token)
            going = (chosen != tokenizer.eos_token_id).nonzero()[:, 0]
            if len(going) == 0:
                break
            if len(going) < 0.8 * len(chosen):  # dropping rows copies the cache: not for every single one
                cache.batch_select_indices(going)
                alive, chosen, mask, positions = alive[going], chosen[going], mask[going], positions[going]
            ids = chosen[:, None]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
            positions = positions[:, -1:] + 1
    return [_until_end(completion, tokenizer.eos_token_id) for completion in completions]


def answers(
    model: PreTrainedModel, tokenizer: Any, prompts: Sequence[str], *, max_new_tokens: int = 80, batch_size: int = 128
) -> list[str]:
    """Greedy answers, without thoughts; empty where the thoughts or the turn were not ended."""
    encoded = tokenizer([prompt_text(prompt) for prompt in prompts], add_special_tokens=False)["input_ids"]
    order = sorted(range(len(prompts)), key=lambda i: len(encoded[i]))
    found = [""] * len(prompts)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        completions = sample(model, tokenizer, [encoded[i] for i in chosen], max_new_tokens=max_new_tokens)
        for i, completion in zip(chosen, completions, strict=True):
            found[i] = answer_of(tokenizer, completion)
    return found


def answer_of(tokenizer: Any, completion: Sequence[int]) -> str:
    """The text after the thoughts of a completion that has ended; else empty."""
    if not completion or completion[-1] != tokenizer.eos_token_id:
        return ""
    _, mark, answer = tokenizer.decode(completion[:-1], skip_special_tokens=False).rpartition(THINK_CLOSE)
    return str(answer) if mark else ""


def _until_end(completion: list[int], end: int) -> list[int]:
    return completion[: completion.index(end) + 1] if end in completion else completion
