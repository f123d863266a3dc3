"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from clbench.chat import Encoded
from clbench.errors import RunError
from clbench.seeds import generator
from clbench.training.batches import batch_indices, collate
from clbench.training.config import ResolvedTraining
from clbench.training.objectives import Objective

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class StepLog:
    """One optimiser step."""

    step: int
    loss: float
    learning_rate: float
    grad_norm: float
    """Before clipping."""
    num_tokens: int


@dataclass(frozen=True)
class TrainingFacts:
    """What a training run took."""

    num_tokens: int
    num_steps: int
    seconds: float
    flops: float


def train(
    model: PreTrainedModel,
    encoded: Sequence[Encoded],
    *,
    objective: Objective,
    config: ResolvedTraining,
    seed: int,
    pad_token_id: int,
    after_step: Callable[[StepLog], None],
) -> TrainingFacts:
    """Train `model` in place.

    The order of the examples comes from `seed` alone. `after_step` is called when the step's update is in the weights.

    Raises:
        RunError: at the first loss or gradient that is not finite (the weights are then those of the step before).
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    num_parameters = sum(parameter.numel() for parameter in parameters)
    optimizer = torch.optim.AdamW(
        parameters, lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay, fused=True
    )
    indices = batch_indices(len(encoded), config.batch_size, generator(seed, "train", "order"))
    device = parameters[0].device
    num_tokens = 0
    start = time.perf_counter()
    model.train()
    for step in range(1, config.num_steps + 1):
        batch = collate([encoded[i] for i in next(indices)], pad_token_id).to(device)
        loss = objective.loss(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)
        loss_value, norm_value = float(loss.detach()), float(norm)
        if not (math.isfinite(loss_value) and math.isfinite(norm_value)):
            raise RunError(
                f"training diverged at step {step} of {config.num_steps}, loss {loss_value}, gradient {norm_value}. "
                f"Lower the learning rate (now {config.learning_rate:g})."
            )
        learning_rate = config.learning_rate * schedule_factor(step, config)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        num_tokens += batch.num_tokens
        after_step(StepLog(step, loss_value, learning_rate, norm_value, batch.num_tokens))
    seconds = time.perf_counter() - start
    return TrainingFacts(num_tokens, config.num_steps, seconds, 6.0 * num_parameters * num_tokens)


def schedule_factor(step: int, config: ResolvedTraining) -> float:
    """The learning rate's factor at a step (from 1): linear warm-up, then cosine or linear to zero, or constant."""
    warmup = round(config.warmup_share * config.num_steps)
    if step <= warmup:
        return step / warmup
    if config.schedule == "constant":
        return 1.0
    # The last step has a small factor, not zero: a step that does nothing would be wasted.
    progress = (step - warmup - 1) / max(1, config.num_steps - warmup)
    return 1.0 - progress if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))
