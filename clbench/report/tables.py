"""Tables for the terminal, from summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clbench.records import Record
from clbench.report.comparison import LEVELS, REACH
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
    for name in ("", *knobs, "acquired", "retained", "forgot", "gained", "cut off", "train s"):
        table.add_column(escape(name), justify="right" if name else "left", no_wrap=True)
    _add_row(table, "★", *([""] * len(knobs)), *_axes(summary["post"]), "", "", _share(summary["post"]), "")
    for point in summary["points"]:
        _add_row(
            table,
            "●" if point["on_frontier"] else "",
            *(knob_value(point["knobs"].get(knob)) for knob in knobs),
            *_axes(point),
            str(point["forgotten"]),
            str(point["gained"]),
            _share(point),
            f"{point['train_seconds']:.0f}",
        )
    notes = "★ θ_post  ● on the frontier: not dominated on validation  cut off: answers, in the worst benchmark"
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
    for name in ("tokens", "of them thoughts", "‖Δ‖ / ‖θ_post‖"):
        sizes.add_column(name, justify="right")
    for label, row in [("θ_post", summary["post"]), *((knob_text(p["knobs"], knobs), p) for p in summary["points"])]:
        _add_row(benchmarks, label, *(f"{score['mean']:.1%}" for score in row["benchmarks"].values()))
        _add_row(
            sizes,
            label,
            f"{row['mean_response_tokens']:.1f}",
            f"{row['mean_thinking_tokens']:.1f}",
            f"{row['relative_delta_norm']:.2%}" if "relative_delta_norm" in row else "",
        )
    return [benchmarks, sizes]


def compare_table(summary: dict[str, Any]) -> RenderableType:
    """One row a method. A figure's standard errors stand below it, so that several seeds fit a narrow terminal."""
    from rich.console import Group
    from rich.text import Text

    table = _table(f"{summary['task']} on {summary['lineage']} (test split)")
    table.add_column("method", overflow="fold", min_width=10)
    shares = {f"acquisition at {level:g}": f"acq.\nat {level:g}" for level in LEVELS}
    shares[f"retention at reach {REACH:g}"] = f"ret. at\nreach {REACH:g}"
    for name in ["seeds", "cand.", "hyper-\nvolume", *shares.values(), "train\ns"]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in summary["rows"]:
        _add_row(
            table,
            row["method"],
            str(len(row["seeds"])),
            str(row["num_candidates"]),
            _value(row["hypervolume"], 1.0, 3),
            *(_value(row[column], 100.0, 1) for column in shares),
            f"{row['train_seconds']:.0f}",
        )
    post = summary["post"]
    notes = (
        f"θ_post: acquired {post['acquisition']:.1%}, retained {post['retention']:.1%}. Scores in percent; below them "
        "one standard error, i over items, s over seeds.\n"
        f"acq. at {LEVELS[0]:g}: acquisition of the candidate, chosen on validation, that keeps this share of θ_post's "
        f"retention; ret. at reach {REACH:g}: retention of the one that acquires this share of the ceiling (– none).\n"
        "★ best  ≈ not told from the best: below 2 standard errors of the difference"
    )
    rows = summary["rows"]
    if any(row[column].get("num_unedited") for row in rows for column in shares if column.startswith("acquisition")):
        notes += "\n† no candidate of some seed keeps that much: θ_post counts there"
    if any(len(row["seeds"]) == 1 for row in rows):
        notes += "\nOf one seed nobody knows what another training run gives: its marks are over items only, and "
        notes += "hypervolumes are not ranked."
    return Group(table, Text(notes))


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)


def _add_row(table: Table, *cells: str) -> None:
    """A row of plain text: what stands in a record is no markup."""
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells))


def _share(row: dict[str, Any]) -> str:
    return f"{row['truncated_share']:.1%}"


def _axes(row: dict[str, Any]) -> list[str]:
    return [
        f"{100 * row[axis]['mean']:.1f} ± {row[axis]['standard_error']:.1%}" for axis in ("acquisition", "retention")
    ]


def _value(value: dict[str, Any], factor: float, num_digits: int) -> str:
    if value["mean"] is None:
        return "–"
    errors = [
        f"±{factor * value[key]:.{num_digits}f}{name}"
        for key, name in (("standard_error_items", "i"), ("standard_error_seeds", "s"))
        if value[key] is not None
    ]
    mark = {"best": " ★", "like best": " ≈"}.get(value["rank"], "") + (" †" if value.get("num_unedited") else "")
    return "\n".join(filter(None, (f"{factor * value['mean']:.{num_digits}f}{mark}", " ".join(errors))))
