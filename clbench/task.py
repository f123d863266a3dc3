"""The interface of a task: new data, what it should teach, and what must not be lost.

A task's author needs this file and `clbench.bench.Tools`.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from clbench.canonical import digest
from clbench.errors import UserError
from clbench.plugin import Config, ConfigT, Plugin

if TYPE_CHECKING:
    from clbench.bench import Tools

Split = Literal["validation", "test"]
SPLITS: tuple[Split, ...] = ("validation", "test")


class Example(pydantic.BaseModel):
    """One piece of training data: a prompt, the response to learn, and what a privileged teacher may see."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    id: str
    prompt: str
    """The user's turn, without any chat template."""
    response: str
    """The assistant's answer, without thoughts and without the template's end of turn."""
    thoughts: str | None = None
    """What stands between the model's thinking marks, for a thinking model; None if the data has no thoughts."""
    demonstration: str | None = None
    """Privileged: a worked answer to this prompt or to one like it."""
    passage: str | None = None
    """Privileged: a text that holds what the response needs."""
    answer: str | None = None
    """Privileged: the final answer alone."""


class Item(pydantic.BaseModel):
    """One question of a benchmark."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    id: str
    prompt: str
    target: str
    form: str = ""
    """A label to break the score down by (question form, difficulty, …)."""


Verifier = Callable[[str, Item], float]
"""(the model's answer without thoughts, the item) → a score in [0, 1]."""


class Benchmark(pydantic.BaseModel):
    """A named list of items with the metric that scores an answer and the budget that it is sampled with."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    name: str
    items: tuple[Item, ...] = pydantic.Field(min_length=1)
    max_new_tokens: int = pydantic.Field(gt=0)
    """Budget of one answer, thoughts included, in tokens. There is no default: a silent one reads as forgetting."""
    metric: str = "exact match"
    verifier: str = "clbench.evaluation.scoring:exact_match"
    """Import path `module:function` of a `Verifier`."""
    headline: bool = True
    """Whether the benchmark counts in its suite's mean; a diagnostic does not."""

    @pydantic.model_validator(mode="after")
    def _ids_are_unique(self) -> Benchmark:
        seen: set[str] = set()
        for item in self.items:
            if item.id in seen:
                raise ValueError(f"benchmark {self.name!r} has two items with the id {item.id!r}")
            seen.add(item.id)
        return self

    @cached_property
    def definition(self) -> str:
        """SHA-256 of everything that decides a score: items, budget, metric, verifier."""
        return digest(self.model_dump(mode="json"))

    def load_verifier(self) -> Verifier:
        """The verifier function. Raises `UserError` if the import path leads nowhere."""
        module, _, attribute = self.verifier.partition(":")
        try:
            function: Verifier = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise UserError(
                f"benchmark {self.name!r}: verifier {self.verifier!r} cannot be imported ({error}); "
                "give it as 'module:function'"
            ) from None
        return function


class Suite(pydantic.BaseModel):
    """Benchmarks to score a model on. The suite's value is the plain mean over its headline benchmarks."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    benchmarks: tuple[Benchmark, ...]

    @pydantic.model_validator(mode="after")
    def _has_one_headline_and_unique_names(self) -> Suite:
        names = [benchmark.name for benchmark in self.benchmarks]
        if len(set(names)) != len(names):
            raise ValueError(f"a suite's benchmark names must differ, got {names}")
        return self


class Task(Plugin[ConfigT], ABC):
    """New data with an acquisition suite and a retention suite.

    Items of the two splits must differ: knobs are chosen on `validation`, figures are reported on `test`.
    """

    Config = Config

    @abstractmethod
    def examples(self, tools: Tools) -> Sequence[Example]:
        """The new data. May sample from `tools.lineage.post`; must be a pure function of config, lineage and seed."""

    @abstractmethod
    def retention_examples(self, tools: Tools) -> Sequence[Example]:
        """Old data, for replay and Fisher information: what θ_post was trained on or answers, never benchmark items."""

    @abstractmethod
    def acquisition(self, tools: Tools, split: Split) -> Suite:
        """What the examples should teach."""

    @abstractmethod
    def retention(self, tools: Tools, split: Split) -> Suite:
        """What θ_post can do already."""

    def ceiling(self, tools: Tools, split: Split) -> Suite | None:
        """Benchmarks that θ_post alone is measured on for reference: the questions with the answer's source in
        context."""
        return None

    def facts(self) -> dict[str, Any]:
        """Small JSON facts for the record (counts, seeds, variants)."""
        return {}
