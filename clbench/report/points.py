"""What a run folder holds beside the record."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from clbench.files import write_atomically
from clbench.records import Point, Record
from clbench.report.figures import frontier_figure, frontier_html
from clbench.report.summary import point_summary


def write_report(record: Record, folder: Path) -> None:
    """`points.csv`, `frontier.png` and `frontier.html` in a run folder."""
    write_points_csv(record, folder / "points.csv")
    frontier_figure([record], folder / "frontier.png")
    frontier_html([record], folder / "frontier.html")


def write_points_csv(record: Record, path: Path) -> None:
    """One row a point: knobs, both axes on both splits, every benchmark's test mean, delta and cost."""
    rows = [_row(point) for point in record.points]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def _row(point: Point) -> dict[str, Any]:
    summary = point_summary(point)
    row: dict[str, Any] = {"index": point.index, "on_frontier": int(point.on_frontier)}
    row |= {f"knob.{name}": value for name, value in point.knobs.items()}
    for split, measurement in (("validation", point.validation), ("test", point.test)):
        for axis, estimate in (("acquisition", measurement.acquisition), ("retention", measurement.retention)):
            row[f"{split}.{axis}"] = estimate.mean
            row[f"{split}.{axis}.standard_error"] = estimate.standard_error
    row |= {f"test.{name}": score["mean"] for name, score in summary["benchmarks"].items()}
    row |= {key: summary[key] for key in ("forgotten", "gained", "truncated_share")}
    row |= {key: summary[key] for key in ("mean_response_tokens", "mean_thinking_tokens")}
    row |= {f"delta.{key}": value for key, value in point.delta.model_dump().items()}
    row |= {f"cost.{key}": value for key, value in point.cost.model_dump().items()}
    return row | {"evaluation_seconds": point.evaluation_seconds, "formula": point.formula}
