"""How a model is trained: every dial with its default, in one place."""

from __future__ import annotations

from typing import Literal

import pydantic

from clbench.plugin import Config


class TrainingDefaults(Config):
    """What this lineage is trained with unless a method or the user says otherwise."""

    learning_rate: float = pydantic.Field(gt=0)
    num_steps: int = pydantic.Field(gt=0)
    batch_size: int = pydantic.Field(gt=0)
    snapshots: tuple[float, ...] = ()
    """Shares of the steps at which weights are kept beside the end: each costs the disk one checkpoint."""


class TrainingConfig(Config):
    """Optimiser, schedule and length of a training run. What is None is taken from the lineage's `training`
    defaults."""

    learning_rate: float | None = pydantic.Field(default=None, gt=0)
    """Peak learning rate of AdamW."""
    num_steps: int | None = pydantic.Field(default=None, gt=0)
    """Optimiser steps."""
    batch_size: int | None = pydantic.Field(default=None, gt=0)
    """Examples a step."""
    warmup_share: float = pydantic.Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises (10 %, as in 2601.19897)."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """What follows the warm-up (cosine to zero, as in 2601.19897)."""
    weight_decay: float = pydantic.Field(default=0.0, ge=0)
    """Decoupled decay. 0: a pull towards zero is forgetting of its own."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's decay rates (its usual ones)."""
    max_grad_norm: float = pydantic.Field(default=1.0, gt=0)
    """Clip the gradient's norm (1, as in 2601.19897)."""
    snapshots: tuple[float, ...] | None = None
    """Shares of the steps at which the weights are kept too, beside the end."""

    @pydantic.field_validator("snapshots")
    @classmethod
    def _snapshots_are_shares(cls, values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if values is not None and any(not 0.0 < value <= 1.0 for value in values):
            raise ValueError("shares of the training steps lie in (0, 1]")
        return values

    def resolved(self, defaults: TrainingDefaults) -> ResolvedTraining:
        """With the lineage's defaults filled in."""
        values = self.model_dump()
        for key, value in defaults.model_dump().items():
            if values[key] is None:
                values[key] = value
        return ResolvedTraining(**values)


class ResolvedTraining(TrainingConfig):
    """A training config in which nothing is left open."""

    learning_rate: float = pydantic.Field(gt=0)
    num_steps: int = pydantic.Field(gt=0)
    batch_size: int = pydantic.Field(gt=0)
    snapshots: tuple[float, ...]

    @property
    def snapshot_steps(self) -> dict[float, int]:
        """The step (from 1) of each snapshot by its share; the end is 1.0."""
        return {share: max(1, round(share * self.num_steps)) for share in sorted({*self.snapshots, 1.0})}
