"""Several records side by side: what each method acquires at what loss, and which differences are more than noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from clbench.canonical import digest
from clbench.errors import UserError
from clbench.frontier import hypervolume
from clbench.records import Point, Record, estimate, mean_of_scores
from clbench.report.pairing import Axis, Choice, ItemReader, paired_difference

LEVELS = (0.99, 0.95)
"""Shares of θ_post's retention at which acquisition is compared."""
REACH = 0.9
"""Share of the ceiling (of 1 without one) that a candidate must acquire to be compared by its retention."""
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
        one, other = _track(first), _track(record)
        for field in dict.fromkeys((*one, *other)):
            if one.get(field) != other.get(field):
                shown = f"{_or_absent(one, field)} and {_or_absent(other, field)}"
                raise UserError(
                    f"{first.label} and {record.label} cannot be compared: they differ in {field}: {shown}."
                )


def _track(record: Record) -> dict[str, Any]:
    """What must be equal for figures to mean the same."""
    posts = {checkpoint.name: checkpoint.sha256 for checkpoint in record.lineage.checkpoints}
    track: dict[str, Any] = {
        "task": record.task.name,
        "task config": record.task.config,
        "lineage": record.lineage.name,
        "θ_post": posts.get(record.lineage.post),
        "dtype": record.lineage.dtype,
        "chat template": record.lineage.template_sha256,
        "tokenizer": record.lineage.tokenizer_sha256,
        "sampling": record.sampling,
    }
    for b in sorted(record.benchmarks, key=lambda b: (b.suite, b.split, b.name)):
        track[f"the definition of benchmark {b.name} ({b.suite}, {b.split})"] = b.definition
        track[f"whether benchmark {b.name} ({b.suite}, {b.split}) counts"] = b.headline
    return track


def _or_absent(track: dict[str, Any], field: str) -> str:
    return repr(track[field]) if field in track else "absent"


def compare_summary(records: Sequence[Record], folders: Sequence[Path] = ()) -> dict[str, Any]:
    """One row a method, averaged over its seeds. Points are chosen on validation, figures are of the test split.

    With the records' run folders, one each and in their order, differences are judged item by item.

    Raises:
        UserError: as `groups_of` does, or for a damaged file of items.
    """
    groups = groups_of(records)
    places = dict(zip(map(id, records), folders, strict=True)) if folders else {}
    rows, columns = [], _columns(groups, places)
    for label, members in groups.items():
        row: dict[str, Any] = {
            "method": label,
            "seeds": [record.seed for record in members],
            "num_candidates": max(len(record.points) for record in members),
            "hypervolume": _over_seeds([(_hypervolume(record), None) for record in members]),
            "train_seconds": sum(_train_seconds(record) for record in members) / len(members),
        }
        rows.append(row | {column: _value(choices[label], axis) for column, (axis, choices) in columns.items()})
    _mark_best(rows, "hypervolume", None, {})
    reader = ItemReader()
    for column, (axis, choices) in columns.items():
        _mark_best(rows, column, (axis, reader), choices)
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


Columns = dict[str, tuple[Axis, dict[str, list[Choice]]]]
"""By a column's name: what it shows, and which point of each seed of each method it shows that of."""


def _columns(groups: dict[str, list[Record]], places: dict[int, Path]) -> Columns:
    def choices(choose: Callable[[Record], Point | None]) -> dict[str, list[Choice]]:
        return {label: [Choice(r, places.get(id(r)), choose(r)) for r in ms] for label, ms in groups.items()}

    columns: Columns = {
        f"acquisition at {level:g}": ("acquisition", choices(partial(chosen_point, level=level))) for level in LEVELS
    }
    columns[f"retention at reach {REACH:g}"] = ("retention", choices(far_reaching_point))
    return columns


def chosen_point(record: Record, level: float) -> Point | None:
    """The point with the highest acquisition of those that keep this share of θ_post's retention, on validation."""
    enough = level * record.reference.validation.retention.mean
    able = [point for point in record.points if point.validation.retention.mean >= enough]
    return max(able, key=lambda point: (point.validation.acquisition.mean, -point.index), default=None)


def far_reaching_point(record: Record) -> Point | None:
    """The point with the highest retention of those that acquire `REACH` of the ceiling, on validation."""
    ceiling = [score for score in record.reference.ceiling_validation if score.headline]
    enough = REACH * (mean_of_scores(ceiling).mean if ceiling else 1.0)
    able = [point for point in record.points if point.validation.acquisition.mean >= enough]
    return max(able, key=lambda point: (point.validation.retention.mean, -point.index), default=None)


def _value(choices: Sequence[Choice], axis: Axis) -> dict[str, Any]:
    """The column's figure of one method; `num_unedited` seeds had no point that will do.

    A seed without a point that keeps enough has the unedited model to fall back on. One without a point that acquires
    enough has nothing, and then there is no figure.
    """
    num_unedited = sum(choice.point is None for choice in choices)
    if axis == "retention" and num_unedited:
        figures: dict[str, Any] = {"mean": None, "standard_error_items": None, "standard_error_seeds": None}
    else:
        estimates = [getattr(choice.test, axis) for choice in choices]
        figures = _over_seeds([(estimate.mean, estimate.standard_error) for estimate in estimates])
        other = "retention" if axis == "acquisition" else "acquisition"
        figures[other] = sum(getattr(choice.test, other).mean for choice in choices) / len(choices)
    knobs = [None if choice.point is None else dict(choice.point.knobs) for choice in choices]
    return figures | {"num_unedited": num_unedited, "knobs": knobs}


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


def _mark_best(
    rows: Sequence[dict[str, Any]],
    column: str,
    items: tuple[Axis, ItemReader] | None,
    choices: dict[str, list[Choice]],
) -> None:
    """`rank`: best, like the best (the difference is within noise), lower, or None where nothing says what noise is.

    Below the best, `below_best` holds the difference and its standard error, over items (paired, where `items` has
    both sides' outcomes) and over seeds together. Both hold the variance of item × seed, so that this is rather too
    large than too small; of a method with one seed, the variance over seeds is not known and counts as nothing.
    """
    shown = [row for row in rows if row[column]["mean"] is not None]
    best = max(shown, key=lambda row: row[column]["mean"], default=None)
    for row in rows:
        value = row[column]
        value["rank"] = None
        if best is None or value["mean"] is None or _has_no_error(best[column]) or _has_no_error(value):
            continue
        if row is best:
            value["rank"] = "best"
            continue
        paired = items and paired_difference(choices[best["method"]], choices[row["method"]], *items)
        over_items = paired.standard_error if paired else _hypot(best[column], value, "standard_error_items")
        error = math.hypot(over_items, _hypot(best[column], value, "standard_error_seeds"))
        difference = best[column]["mean"] - value["mean"]
        value["below_best"] = {"mean": difference, "standard_error": error, "paired": paired is not None}
        value["rank"] = "like best" if difference <= NUM_STANDARD_ERRORS * error else "lower"


def _hypot(one: dict[str, Any], other: dict[str, Any], key: str) -> float:
    """Standard error of the difference of two independent figures."""
    return math.hypot(one[key] or 0.0, other[key] or 0.0)


def _has_no_error(value: dict[str, Any]) -> bool:
    return value["standard_error_items"] is None and value["standard_error_seeds"] is None


def _differences(config: dict[str, Any], siblings: Sequence[dict[str, Any]]) -> str:
    """`key value` for each key in which configs of one method differ."""
    keys = [key for key in config if len({repr(sibling.get(key)) for sibling in siblings}) > 1]
    return ", ".join(f"{key} {_short(config[key])}" for key in keys)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={inner}" for key, inner in value.items() if inner is not None)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
