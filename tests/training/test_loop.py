"""The training loop against a bare one, and what it does when training goes wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import Qwen3ForCausalLM

from clbench.chat import Encoded
from clbench.errors import RunError
from clbench.training.batches import batch_indices
from clbench.training.config import ResolvedTraining
from clbench.training.loop import StepLog, schedule_factor, train
from clbench.training.objectives import CrossEntropy, load_objective
from tests.toys import toy_config


def resolved(**changes: object) -> ResolvedTraining:
    values = {"learning_rate": 1e-2, "num_steps": 6, "batch_size": 3, "snapshots": ()}
    return ResolvedTraining.model_validate({**values, **changes})


def toy_model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(toy_config(40))


def toy_data(num: int = 7) -> list[Encoded]:
    rng = np.random.default_rng(1)
    return [
        Encoded(tuple(rng.integers(2, 40, 3 + i % 4).tolist()), tuple(rng.integers(2, 40, 2).tolist()))
        for i in range(num)
    ]


def run(model: Qwen3ForCausalLM, config: ResolvedTraining, seed: int = 0) -> list[StepLog]:
    logs: list[StepLog] = []
    train(
        model,
        toy_data(),
        objective=CrossEntropy(),
        config=config,
        seed=seed,
        pad_token_id=0,
        after_step=logs.append,
    )
    return logs


def test_training_equals_a_bare_loop_over_the_same_batches() -> None:
    config = resolved(weight_decay=0.1, max_grad_norm=0.5)
    model = toy_model()
    logs = run(model, config)

    from clbench.seeds import generator

    reference, data = toy_model(), toy_data()
    optimizer = torch.optim.AdamW(reference.parameters(), lr=1.0, betas=(0.9, 0.999), weight_decay=0.1)
    indices = batch_indices(len(data), 3, generator(0, "train", "order"))
    losses = []
    for step in range(1, 7):
        nll = []
        for i in next(indices):
            ids = torch.tensor([data[i].prompt_ids + data[i].completion_ids])
            logits = reference(ids).logits[0]
            for j, target in enumerate(data[i].completion_ids):
                nll.append(-logits[len(data[i].prompt_ids) - 1 + j].log_softmax(0)[target])
        loss = torch.stack(nll).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * schedule_factor(step, config)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    np.testing.assert_allclose([log.loss for log in logs], losses, rtol=1e-4)
    for got, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(got, expected, atol=2e-4, rtol=1e-3)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    models = [toy_model() for _ in range(3)]
    for model, seed in zip(models, (0, 0, 1), strict=True):
        run(model, resolved(), seed)
    a, b, c = (torch.cat([p.detach().flatten() for p in model.parameters()]) for model in models)
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_training_does_not_touch_global_random_state() -> None:
    torch.manual_seed(5)
    before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    model = toy_model()
    torch.manual_seed(5)
    run(model, resolved())
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # type: ignore[index]


def test_every_epoch_is_a_permutation() -> None:
    batches = batch_indices(7, 3, np.random.default_rng(0))
    seen = np.concatenate([next(batches) for _ in range(7)])
    for epoch in range(3):
        assert sorted(seen[7 * epoch : 7 * epoch + 7]) == list(range(7))


def test_a_loss_that_is_not_finite_stops_training_and_names_the_step() -> None:
    class Breaks(CrossEntropy):
        calls = 0

        def loss(self, model, batch):  # type: ignore[no-untyped-def]
            self.calls += 1
            return super().loss(model, batch) * (math.nan if self.calls == 3 else 1.0)

    model = toy_model()
    with pytest.raises(RunError, match="diverged at step 3 of 6"):
        train(
            model,
            toy_data(),
            objective=Breaks(),
            config=resolved(),
            seed=0,
            pad_token_id=0,
            after_step=lambda log: None,
        )
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_the_learning_rate_rises_then_falls_and_never_is_zero(schedule: str) -> None:
    config = resolved(schedule=schedule, num_steps=100, warmup_share=0.1)
    factors = [schedule_factor(step, config) for step in range(1, 101)]
    assert factors[:10] == pytest.approx([step / 10 for step in range(1, 11)])
    assert factors[10] == 1.0
    assert min(factors) > 0
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert factors[-1] == 1.0 if schedule == "constant" else factors[-1] < 0.02


def test_an_objective_is_built_again_from_its_spec() -> None:
    spec = CrossEntropy().spec
    assert type(load_objective(spec)) is CrossEntropy
