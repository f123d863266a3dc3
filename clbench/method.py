"""The interface of a method: a way of teaching a post-trained model new data.

A method's author needs this file and `clbench.bench.Bench`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clbench.plugin import Config, ConfigT, Plugin

if TYPE_CHECKING:
    from clbench.bench import Bench
    from clbench.weights.recipe import Recipe

Knob = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One updated model: the knob values that tell it from its siblings, and the recipe of its weights."""

    knobs: Mapping[str, Knob]
    weights: Recipe


class Method(Plugin[ConfigT], ABC):
    """Yields candidates; never evaluates one. Whatever is expensive goes through the bench and is kept by key."""

    Config = Config

    @abstractmethod
    def candidates(self, bench: Bench) -> Iterator[Candidate]:
        """The candidates of the method's sweep, in the order in which they should be measured."""
