"""Grafting: learn the update on an earlier donor checkpoint, scale it, mask it, apply it to the post-trained model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pydantic

from clbench import Bench, Candidate, Config, Knob, MaskRule, Method, TrainingConfig


class GraftConfig(Config):
    """The sweep over donors, masks and scales."""

    donor: tuple[str, ...] = pydantic.Field(default=("base",), min_length=1)
    """Lineage checkpoints to learn the update on; each trains once. The base model is the one that every lineage has;
    2610.05872 reports that the best donors lie before the end of pretraining."""
    scale: tuple[float, ...] = pydantic.Field(default=(0.2, 0.4, 0.6, 0.8, 1.0), min_length=1)
    """λ: evenly spaced, as for `merge`."""
    protect: tuple[float, ...] = pydantic.Field(default=(0.0, 0.01), min_length=1)
    """ρ: no mask, and the upper end of what 2610.05872 reports (0.1 % to 1 %)."""
    protect_by: tuple[MaskRule, ...] = pydantic.Field(default=("fisher",), min_length=1)
    """What orders the coordinates: retention Fisher, or a control at the same ρ: |θ_post| (`magnitude`), |Δ| (`delta`),
    chance (`random`)."""
    training: TrainingConfig = TrainingConfig()

    @pydantic.field_validator("protect")
    @classmethod
    def _shares(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 <= value <= 1 for value in values):
            raise ValueError("a share of coordinates lies between 0 and 1")
        return values


class Graft(Method[GraftConfig]):
    """Grafting: θ' = θ_post + λ · (M_ρ ⊙ (θ_donor,trained − θ_donor)).

    "Off-Policy Merging Beats On-Policy Self-Distillation for Continual Learning", arXiv 2610.05872. M_ρ drops the share
    ρ of coordinates that matter most to what θ_post can do, by its Fisher information on retention data.
    """

    name = "graft"
    Config = GraftConfig

    def candidates(self, bench: Bench) -> Iterator[Candidate]:
        """For each donor one training run, then every ρ, mask rule and λ on its update."""
        post = bench.lineage.post
        for name in self.config.donor:
            donor = bench.lineage[name]
            trained = bench.train(donor, bench.examples, training=self.config.training, name=f"{name}-trained")
            delta = trained - donor
            for rho, rule in product(self.config.protect, self.config.protect_by):
                if rho == 0 and rule != self.config.protect_by[0]:
                    continue  # No mask is the same under every rule.
                scores = {"fisher": bench.fisher(post, bench.retention_examples), "magnitude": post}.get(rule)
                protected = delta.protect(scores, rho, rule=rule, seed=bench.seed)
                for scale in self.config.scale:
                    knobs: dict[str, Knob] = {
                        "donor": name,
                        "protect": rho,
                        "protect_by": rule if rho else None,
                        "scale": scale,
                    }
                    yield Candidate(knobs=knobs, weights=post + scale * protected)
