"""Tables for the terminal, from summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clbench.records import Record
from clbench.report.comparison import LEVELS
from clbench.report.summary import knob_text, knob_value, record_summary, varying_knobs

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def record_table(record: Record, *, detail: bool = False) -> RenderableType:
    """A record's points, θ_post first; with `detail`, lengths, sizes of the updates and every benchmark's mean too."""
    from rich.console import Group
    from rich.markup import escape
    from rich.text import Text

    summary = record_summary(record)
    knobs = varying_knobs([point["knobs"] for point in summary["points"]])
    table = _table(f"{record.label} (test split, ± 1 standard error)")
    for name in ("", *knobs, "acquired", "retained", "forgot", "gained", "train s"):
        table.add_column(escape(name), justify="right" if name else "left", no_wrap=True)
    _add_row(table, "★", *([""] * len(knobs)), *_axes(summary["post"]), "", "", "")
    for point in summary["points"]:
        _add_row(
            table,
            "●" if point["on_frontier"] else "",
            *(knob_value(point["knobs"].get(knob)) for knob in knobs),
            *_axes(point),
            str(point["forgotten"]),
            str(point["gained"]),
            f"{point['train_seconds']:.0f}",
        )
    notes = "★ θ_post  ● on the frontier: not dominated on the validation split"
    notes += "".join(f"  ceiling ({name}): {score['mean']:.1%}" for name, score in summary["ceiling"].items())
    parts: list[RenderableType] = [table, Text(notes)]
    return Group(*parts, *(_detail_tables(summary, knobs) if detail else []))


def _detail_tables(summary: dict[str, Any], knobs: list[str]) -> list[RenderableType]:
    from rich.markup import escape

    benchmarks = _table("every benchmark (· does not count in the mean)")
    sizes = _table("lengths (means over headline benchmarks) and updates")
    for table in (benchmarks, sizes):
        table.add_column("candidate")
    for name, score in summary["post"]["benchmarks"].items():
        benchmarks.add_column(escape(name.partition("/")[2]) + ("" if score["headline"] else " ·"), justify="right")
    for name in ("tokens", "of them thoughts", "cut off at most", "‖Δ‖ / ‖θ_post‖"):
        sizes.add_column(name, justify="right")
    for label, row in [("θ_post", summary["post"]), *((knob_text(p["knobs"], knobs), p) for p in summary["points"])]:
        _add_row(benchmarks, label, *(f"{score['mean']:.1%}" for score in row["benchmarks"].values()))
        _add_row(
            sizes,
            label,
            f"{row['mean_response_tokens']:.1f}",
            f"{row['mean_thinking_tokens']:.1f}",
            f"{row['truncated_share']:.1%}",
            f"{row['relative_delta_norm']:.2%}" if "relative_delta_norm" in row else "",
        )
    return [benchmarks, sizes]


def compare_table(summary: dict[str, Any]) -> RenderableType:
    """One row a method."""
    from rich.console import Group

    table = _table(f"{summary['task']} on {summary['lineage']} (test split)")
    table.add_column("method")
    for name in ["seeds", "cand.", "hypervolume", *(f"acq. at {level:g}" for level in LEVELS), "train s"]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in summary["rows"]:
        _add_row(
            table,
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
        f"θ_post: acquired {post['acquisition']:.1%}, retained {post['retention']:.1%}\n"
        f"acq. at {LEVELS[0]:g}: acquisition of the candidate, chosen on validation, that keeps this share of θ_post's "
        "retention\n"
        "★ best  ≈ not told from the best: the difference is below 2 standard errors\n"
        "±: one standard error, i over items, s over seeds",
    )


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)


def _add_row(table: Table, *cells: str) -> None:
    """A row of plain text: what stands in a record is no markup."""
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells))


def _axes(row: dict[str, Any]) -> list[str]:
    return [
        f"{100 * row[axis]['mean']:.1f} ± {row[axis]['standard_error']:.1%}" for axis in ("acquisition", "retention")
    ]


def _value(value: dict[str, Any], pattern: str) -> str:
    text = pattern.format(value["mean"])
    for key, name in (("standard_error_items", "i"), ("standard_error_seeds", "s")):
        if value[key] is not None:
            text += f" ±{pattern.format(value[key])}{name}"
    return text + {"best": " ★", "like best": " ≈"}.get(value["rank"], "")
