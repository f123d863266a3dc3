"""Differences between methods item by item: the same questions were put to both, so that their difficulty cancels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clbench.records import ITEMS_NAME, Estimate, Measurement, Point, Record, estimate, read_items

Axis = Literal["acquisition", "retention"]
Outcomes = Mapping[tuple[str, str], float]
"""(benchmark, item) → outcome."""


@dataclass(frozen=True)
class Choice:
    """What a run stands for in one column: one of its points, or the unedited model where none will do."""

    record: Record
    folder: Path | None
    point: Point | None

    @property
    def test(self) -> Measurement:
        """The test measurement."""
        return self.record.reference.test if self.point is None else self.point.test

    @property
    def model(self) -> str:
        """As `ItemOutcome.model` names it."""
        return "post" if self.point is None else str(self.point.index)


class ItemReader:
    """Test outcomes of chosen models; a run folder is read when it is first asked for, and once."""

    def __init__(self) -> None:
        self._folders: dict[Path, dict[tuple[str, str], dict[tuple[str, str], float]]] = {}

    def outcomes(self, choice: Choice, axis: Axis) -> Outcomes | None:
        """Outcomes on the axis' headline benchmarks; None if the run has no items beside it.

        Raises:
            UserError: if the file of items is damaged.
        """
        if choice.folder is None or not (choice.folder / ITEMS_NAME).is_file():
            return None
        if choice.folder not in self._folders:
            self._folders[choice.folder] = self._read(choice.folder)
        headline = {s.benchmark for s in choice.test.scores if s.suite == axis and s.headline}
        found = self._folders[choice.folder].get((choice.model, axis), {})
        return {key: outcome for key, outcome in found.items() if key[0] in headline}

    @staticmethod
    def _read(folder: Path) -> dict[tuple[str, str], dict[tuple[str, str], float]]:
        table: dict[tuple[str, str], dict[tuple[str, str], float]] = {}
        for item in read_items(folder):
            if item.split == "test":
                table.setdefault((item.model, item.suite), {})[item.benchmark, item.item] = item.outcome
        return table


def paired_difference(
    ones: Sequence[Choice], others: Sequence[Choice], axis: Axis, reader: ItemReader
) -> Estimate | None:
    """Mean of one method less another, with its standard error over items; each averaged over its seeds first.

    The difference is the plain mean over headline benchmarks, as the axis is. None if outcomes are missing, or were
    not of the same items.
    """
    sides = []
    for choices in (ones, others):
        per_seed = [reader.outcomes(choice, axis) for choice in choices]
        known = [outcomes for outcomes in per_seed if outcomes]
        if len(known) < len(per_seed) or any(outcomes.keys() != known[0].keys() for outcomes in known):
            return None
        sides.append({key: math.fsum(outcomes[key] for outcomes in known) / len(known) for key in known[0]})
    one, other = sides
    if one.keys() != other.keys():
        return None
    by_benchmark: dict[str, list[float]] = {}
    for key, outcome in one.items():
        by_benchmark.setdefault(key[0], []).append(outcome - other[key])
    differences = [estimate(values) for values in by_benchmark.values()]
    return Estimate(
        mean=math.fsum(d.mean for d in differences) / len(differences),
        standard_error=math.hypot(*(d.standard_error for d in differences)) / len(differences),
    )
