"""Several records side by side: what each method acquires at what loss, and which differences are more than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clbench.canonical import digest
from clbench.errors import UserError
from clbench.frontier import hypervolume
from clbench.records import Point, Record, estimate

LEVELS = (0.99, 0.95)
"""Shares of θ_post's retention at which acquisition is compared."""
NUM_STANDARD_ERRORS = 2.0
"""A difference smaller than this many of its standard errors is not called one."""


def groups_of(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by method and config, each with a label; seeds of one config are together.

    Raises:
        UserError: if records of different tracks are mixed, or one seed of a method is given twice.
    """
    check_comparable(records)
    by_config: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_config.setdefault((record.method.name, digest(record.method.config)), []).append(record)
    groups: dict[str, list[Record]] = {}
    for (method, _), members in by_config.items():
        siblings = [group[0].method.config for (name, _), group in by_config.items() if name == method]
        seeds = [record.seed for record in members]
        if len(set(seeds)) != len(seeds):
            raise UserError(f"two runs of {method} have the same config and seed; give each run once.")
        own = _differences(members[0].method.config, siblings)
        groups[f"{method} ({own})" if own else method] = sorted(members, key=lambda record: record.seed)
    return groups


def check_comparable(records: Sequence[Record]) -> None:
    """Refuse to mix what was not measured alike. Raises `UserError` naming the field and both values."""
    first = records[0]
    for record in records[1:]:
        pairs = {
            "task": (first.task.name, record.task.name),
            "task config": (first.task.config, record.task.config),
            "lineage": (first.lineage.name, record.lineage.name),
            "θ_post": (first.lineage.checkpoints[-1].sha256, record.lineage.checkpoints[-1].sha256),
            "chat template": (first.lineage.template_sha256, record.lineage.template_sha256),
            "sampling": (first.sampling, record.sampling),
            "benchmarks": tuple(
                sorted((b.suite, b.split, b.definition) for b in r.benchmarks) for r in (first, record)
            ),
        }
        for field, (one, other) in pairs.items():
            if one != other:
                shown = "" if field == "benchmarks" else f": {one!r} and {other!r}"
                raise UserError(f"{first.label} and {record.label} cannot be compared: they differ in {field}{shown}.")


def compare_summary(records: Sequence[Record], folders: Sequence[Path] = ()) -> dict[str, Any]:
    """One row a method, averaged over its seeds. Points are chosen on validation, figures are of the test split."""
    groups = groups_of(records)
    rows = [_row(label, members) for label, members in groups.items()]
    for column in ("hypervolume", *(f"acquisition at {level:g}" for level in LEVELS)):
        _mark_best(rows, column)
    first = records[0]
    return {
        "task": first.task.name,
        "lineage": first.lineage.name,
        "post": {
            "acquisition": first.reference.test.acquisition.mean,
            "retention": first.reference.test.retention.mean,
        },
        "folders": [folder.name for folder in folders],
        "rows": rows,
    }


def chosen_point(record: Record, level: float) -> Point | None:
    """The point with the highest acquisition of those that keep this share of θ_post's retention, on validation."""
    enough = level * record.reference.validation.retention.mean
    able = [point for point in record.points if point.validation.retention.mean >= enough]
    return max(able, key=lambda point: (point.validation.acquisition.mean, -point.index), default=None)


def _row(label: str, members: Sequence[Record]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "method": label,
        "seeds": [record.seed for record in members],
        "num_candidates": max(len(record.points) for record in members),
        "hypervolume": _over_seeds([(_hypervolume(record), None) for record in members]),
        "train_seconds": sum(_train_seconds(record) for record in members) / len(members),
    }
    for level in LEVELS:
        chosen = [chosen_point(record, level) for record in members]
        found = [point for point in chosen if point is not None]
        # A seed without any point that keeps enough has the unedited model to fall back on.
        unedited = [record.reference.test for record, point in zip(members, chosen, strict=True) if point is None]
        tests = [point.test for point in found] + unedited
        row[f"acquisition at {level:g}"] = {
            **_over_seeds([(test.acquisition.mean, test.acquisition.standard_error) for test in tests]),
            "retention": sum(test.retention.mean for test in tests) / len(tests),
            "knobs": [dict(point.knobs) if point is not None else None for point in chosen],
        }
    return row


def _hypervolume(record: Record) -> float:
    """Of the frontier's test coordinates, above θ_post's acquisition and no retention."""
    points = [(p.test.acquisition.mean, p.test.retention.mean) for p in record.frontier]
    return hypervolume(points, (record.reference.test.acquisition.mean, 0.0))


def _train_seconds(record: Record) -> float:
    """Seconds of every training and Fisher stage that the method's points rest on, each once."""
    used = {key for point in record.points for key in point.stages}
    return sum(stage.seconds for stage in record.stages if stage.key in used)


def _over_seeds(values: Sequence[tuple[float, float | None]]) -> dict[str, Any]:
    """Mean; its standard error over items (the seeds' average: they share items), and over seeds if there are several.

    The two are different questions: would other items say the same, would another training run.
    """
    means = estimate(value for value, _ in values)
    errors = [error for _, error in values if error is not None]
    return {
        "mean": means.mean,
        "standard_error_items": sum(errors) / len(errors) if errors else None,
        "standard_error_seeds": means.standard_error if len(values) > 1 else None,
    }


def _mark_best(rows: Sequence[dict[str, Any]], column: str) -> None:
    """`rank`: best, like the best (the difference is within noise), lower, or None where nothing says what noise is."""
    best = max(rows, key=lambda row: row[column]["mean"])[column]
    for value in (row[column] for row in rows):
        errors = (_error(best), _error(value))
        if errors[0] is None or errors[1] is None:
            value["rank"] = None
        elif value is best:
            value["rank"] = "best"
        else:
            within = best["mean"] - value["mean"] <= NUM_STANDARD_ERRORS * math.hypot(errors[0], errors[1])
            value["rank"] = "like best" if within else "lower"


def _error(value: dict[str, Any]) -> float | None:
    errors = [value[key] for key in ("standard_error_items", "standard_error_seeds") if value[key] is not None]
    return max(errors) if errors else None


def _differences(config: dict[str, Any], siblings: Sequence[dict[str, Any]]) -> str:
    """`key value` for each key in which configs of one method differ."""
    keys = [key for key in config if len({repr(sibling.get(key)) for sibling in siblings}) > 1]
    return ", ".join(f"{key} {_short(config[key])}" for key in keys)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={inner}" for key, inner in value.items() if inner is not None)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
