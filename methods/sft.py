"""Supervised fine-tuning, the baseline that every other method is measured against."""

from __future__ import annotations

from collections.abc import Iterator

import pydantic

from clbench import Bench, Candidate, Config, Method, TrainingConfig


class SFTConfig(Config):
    """A frontier by learning rate and by how early training stops: learning rate decides forgetting more than most."""

    learning_rate_factor: tuple[float, ...] = pydantic.Field(default=(0.3, 1.0, 3.0), min_length=1)
    """Each trains once, at this multiple of `training.learning_rate`. Half a decade either way of the lineage's
    default."""
    training: TrainingConfig = TrainingConfig()
    """Its snapshots (default: the lineage's) and its end are the candidates of each learning rate."""

    @pydantic.field_validator("learning_rate_factor")
    @classmethod
    def _positive(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if any(value <= 0 for value in values):
            raise ValueError("a learning rate factor is greater than 0")
        return values


class SFT(Method[SFTConfig]):
    """Supervised fine-tuning: θ' = train(θ_post, data)."""

    name = "sft"
    Config = SFTConfig

    def candidates(self, bench: Bench) -> Iterator[Candidate]:
        """Every snapshot of every learning rate's run."""
        base_rate = self.config.training.learning_rate or bench.lineage.manifest.training.learning_rate
        for factor in self.config.learning_rate_factor:
            # Twelve digits: 9e-05, not 8.999999999999999e-05.
            learning_rate = float(f"{base_rate * factor:.12g}")
            training = self.config.training.model_copy(update={"learning_rate": learning_rate})
            trained = bench.train(bench.lineage.post, bench.examples, training=training, name="sft")
            for share, weights in trained.snapshots.items():
                yield Candidate(knobs={"learning_rate": learning_rate, "trained": share}, weights=weights)
