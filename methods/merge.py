"""Merging: learn an update on the post-trained model, apply a part of it."""

from __future__ import annotations

from collections.abc import Iterator

from clbench import Bench, Candidate, Config, Method, TrainingConfig


class MergeConfig(Config):
    """The λ sweep."""

    scale: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 1.0)
    """λ: evenly spaced; 1 is SFT itself."""
    training: TrainingConfig = TrainingConfig()


class Merge(Method[MergeConfig]):
    """Merging: θ' = θ_post + λ · (θ_post,trained − θ_post).

    The same as weight-space ensembling (WiSE-FT, 2109.01903, at α = λ) and as task arithmetic with one task vector
    (2212.04089), and as grafting (2610.05872) with the post-trained model as its own donor.
    """

    name = "merge"
    Config = MergeConfig

    def candidates(self, bench: Bench) -> Iterator[Candidate]:
        """One candidate for each λ; all share one training run."""
        post = bench.lineage.post
        delta = bench.train(post, bench.examples, training=self.config.training, name="sft") - post
        for scale in self.config.scale:
            yield Candidate(knobs={"scale": scale}, weights=post + scale * delta)
