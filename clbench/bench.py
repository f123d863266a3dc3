"""What methods and tasks are handed: the lineage, a seed, and the engines. Nothing here leads to a benchmark's
items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clbench.lineage import Lineage
from clbench.progress import Progress
from clbench.seeds import generator
from clbench.stages import Stages
from clbench.task import Example
from clbench.training.config import TrainingConfig
from clbench.weights.recipe import Recipe

if TYPE_CHECKING:
    import numpy as np

    from clbench.training.objectives import Objective


class Trained(Recipe):
    """The weights at the end of a training run, and its snapshots on the way there."""

    __slots__ = ("snapshots",)

    snapshots: dict[float, Recipe]
    """Weights by the share of the steps taken; 1.0 is the end."""


class Tools:
    """The lineage, the seed and the engines, for a task that makes its data with them."""

    def __init__(self, stages: Stages, seed: int) -> None:
        self._stages = stages
        self.seed = seed

    @property
    def lineage(self) -> Lineage:
        """The ordered checkpoints; `lineage["base"]` and `lineage.post` are recipes."""
        return self._stages.lineage

    @property
    def progress(self) -> Progress:
        """Where to say what goes on."""
        return self._stages.progress

    def rng(self, *purpose: str) -> np.random.Generator:
        """A stream of random numbers of the run's seed; each purpose has its own."""
        return generator(self.seed, *purpose)

    def train(
        self,
        start: Recipe,
        examples: Sequence[Example],
        objective: Objective | None = None,
        *,
        training: TrainingConfig | None = None,
        name: str | None = None,
    ) -> Trained:
        """Train the weights `start` on examples.

        The result is kept by what it was asked for: the same call, by whatever method or run, trains once.

        Args:
            start: the model to start from.
            examples: what to train on, each encoded by θ_post's chat template.
            objective: what to minimise; None is supervised fine-tuning's cross-entropy.
            training: optimiser, schedule, length and snapshots; None takes the lineage's defaults.
            name: how formulas call the result.

        Raises:
            UserError: for no examples, or an example longer than the model's context.
            RunError: if the loss stops being finite.
        """
        from clbench.training.objectives import CrossEntropy

        weights = self._stages.train(
            start,
            examples,
            objective or CrossEntropy(),
            (training or TrainingConfig()).resolved(self.lineage.manifest.training),
            seed=self.seed,
            name=name or f"trained({start.formula()})",
        )
        trained = Trained(iter(weights[1.0].terms))
        trained.snapshots = weights
        return trained

    def fisher(self, at: Recipe, examples: Sequence[Example]) -> Recipe:
        """Diagonal Fisher information of the model `at` on examples: a checkpoint of non-negative float32 scores."""
        return self._stages.fisher(at, examples, name=f"fisher({at.formula()})")


class Bench(Tools):
    """What a method is handed: the tools, the new data, and old data for replay and Fisher information."""

    def __init__(
        self, stages: Stages, seed: int, *, examples: Sequence[Example], retention_examples: Sequence[Example]
    ) -> None:
        super().__init__(stages, seed)
        self.examples = tuple(examples)
        """The task's new data."""
        self.retention_examples = tuple(retention_examples)
        """Old data that θ_post was trained on; never a benchmark's items."""
