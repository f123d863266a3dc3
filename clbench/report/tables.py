"""Tables for the terminal, from summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clbench.records import Record
from clbench.report.comparison import LEVELS
from clbench.report.summary import knob_text, record_summary, varying_knobs

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def record_table(record: Record, *, detail: bool = False) -> RenderableType:
    """A record's points, θ_post first; with `detail`, every benchmark's mean too."""
    from rich.console import Group

    summary = record_summary(record)
    table = _table(f"{record.label} (test split, ± 1 standard error over items)")
    for name in (
        "",
        "candidate",
        "acquired",
        "retained",
        "forgotten",
        "gained",
        "cut off",
        "tokens",
        "‖Δ‖/‖θ‖",
        "train s",
    ):
        table.add_column(name, justify="left" if name in ("", "candidate") else "right")
    table.add_row("", "θ_post", *_axes(summary["post"]), "", "", *_lengths(summary["post"]), "", "")
    knobs = varying_knobs([point["knobs"] for point in summary["points"]])
    for point in summary["points"]:
        table.add_row(
            "●" if point["on_frontier"] else "",
            knob_text(point["knobs"], knobs),
            *_axes(point),
            str(point["forgotten"]),
            str(point["gained"]),
            *_lengths(point),
            f"{point['relative_delta_norm']:.2%}",
            f"{point['train_seconds']:.0f}",
        )
    notes = ["● on the frontier: not dominated on the validation split."]
    notes += [f"ceiling, {name}: {score['mean']:.1%}" for name, score in summary["ceiling"].items()]
    parts: list[RenderableType] = [table, "  ".join(notes)]
    return Group(*parts, *([_detail_table(summary, knobs)] if detail else []))


def _detail_table(summary: dict[str, Any], knobs: list[str]) -> Table:
    table = _table("every benchmark (· does not count in the mean)")
    table.add_column("candidate")
    for name, score in summary["post"]["benchmarks"].items():
        table.add_column(name.partition("/")[2] + ("" if score["headline"] else " ·"), justify="right")
    for label, row in [("θ_post", summary["post"]), *((knob_text(p["knobs"], knobs), p) for p in summary["points"])]:
        table.add_row(label, *(f"{score['mean']:.1%}" for score in row["benchmarks"].values()))
    return table


def compare_table(summary: dict[str, Any]) -> RenderableType:
    """One row a method."""
    from rich.console import Group

    table = _table(f"{summary['task']} on {summary['lineage']} (test split)")
    table.add_column("method")
    names = ["seeds", "candidates", "hypervolume", *(f"acquired at retention ≥ {level:g} θ_post" for level in LEVELS)]
    for name in [*names, "train s"]:
        table.add_column(name, justify="right")
    for row in summary["rows"]:
        table.add_row(
            row["method"],
            ",".join(map(str, row["seeds"])),
            str(row["num_candidates"]),
            _value(row["hypervolume"], "{:.3f}"),
            *(_value(row[f"acquisition at {level:g}"], "{:.1%}") for level in LEVELS),
            f"{row['train_seconds']:.0f}",
        )
    post = summary["post"]
    return Group(
        table,
        f"θ_post: acquired {post['acquisition']:.1%}, retained {post['retention']:.1%}. Chosen on validation.",
        "★ best, ≈ not told from the best (difference below 2 standard errors). (i) over items, (s) over seeds.",
    )


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)


def _axes(row: dict[str, Any]) -> list[str]:
    return [f"{row[axis]['mean']:.1%} ± {row[axis]['standard_error']:.1%}" for axis in ("acquisition", "retention")]


def _lengths(row: dict[str, Any]) -> list[str]:
    return [f"{row['truncated_share']:.1%}", f"{row['mean_response_tokens']:.0f}"]


def _value(value: dict[str, Any], pattern: str) -> str:
    text = pattern.format(value["mean"])
    for key, name in (("standard_error_items", "i"), ("standard_error_seeds", "s")):
        if value[key] is not None:
            text += f" ±{pattern.format(value[key])}({name})"
    return text + {"best": " ★", "like best": " ≈"}.get(value["rank"], "")
