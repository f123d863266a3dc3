"""A record as plain JSON values, for tables and for `--json`."""

from __future__ import annotations

from typing import Any

from clbench.records import Measurement, Point, Record, Score


def record_summary(record: Record) -> dict[str, Any]:
    """What a person wants to know of a record; figures are of the test split."""
    return {
        "label": record.label,
        "method": record.method.name,
        "task": record.task.name,
        "lineage": record.lineage.name,
        "seed": record.seed,
        "post": _measurement(record.reference.test),
        "ceiling": {score.benchmark: _score(score) for score in record.reference.ceiling_test},
        "points": [point_summary(point) for point in record.points],
        "warnings": list(record.warnings),
        "fingerprint": record.fingerprint(),
    }


def point_summary(point: Point) -> dict[str, Any]:
    """One point of a record."""
    return {
        "index": point.index,
        "knobs": dict(point.knobs),
        "formula": point.formula,
        "on_frontier": point.on_frontier,
        **_measurement(point.test),
        "forgotten": point.test.forgotten,
        "gained": point.test.gained,
        "relative_delta_norm": point.delta.relative_norm,
        "train_seconds": point.cost.train_seconds,
    }


def knob_text(knobs: dict[str, Any], names: list[str] | None = None) -> str:
    """Knobs as `scale 0.5, protect 0.01`; those that are None are left out."""
    shown = {name: value for name, value in knobs.items() if value is not None and (names is None or name in names)}
    return ", ".join(f"{name} {knob_value(value)}" for name, value in shown.items())


def knob_value(value: Any) -> str:
    """A knob's value, shortly; nothing for None."""
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def varying_knobs(points: list[dict[str, Any]]) -> list[str]:
    """Names of the knobs that have more than one value (None is none), in order; all of them if none varies."""
    names = list(dict.fromkeys(name for knobs in points for name in knobs))
    varying = [
        name for name in names if len({repr(knobs[name]) for knobs in points if knobs.get(name) is not None}) > 1
    ]
    return varying or names


def _measurement(measurement: Measurement) -> dict[str, Any]:
    headline = [score for score in measurement.scores if score.headline]
    return {
        "acquisition": measurement.acquisition.model_dump(),
        "retention": measurement.retention.model_dump(),
        "truncated_share": measurement.truncated_share,
        "mean_response_tokens": sum(s.mean_response_tokens for s in headline) / len(headline),
        "mean_thinking_tokens": sum(s.mean_thinking_tokens for s in headline) / len(headline),
        "benchmarks": {f"{score.suite}/{score.benchmark}": _score(score) for score in measurement.scores},
    }


def _score(score: Score) -> dict[str, Any]:
    return {
        "mean": score.mean,
        "standard_error": score.standard_error,
        "lenient_mean": score.lenient_mean,
        "num_items": score.num_items,
        "headline": score.headline,
        "metric": score.metric,
    }
