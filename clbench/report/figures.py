"""The plane of acquisition and retention: a PNG for papers and folders, an HTML page for looking closer."""

from __future__ import annotations

import contextlib
import html
import io
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clbench.errors import RunError
from clbench.files import write_atomically
from clbench.records import Record
from clbench.report.comparison import groups_of
from clbench.report.summary import knob_text, varying_knobs
from clbench.store import default_store

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by the colour-blind, without yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
X_TITLE, Y_TITLE = "acquisition: mean score on the new task", "retention: mean score on old tasks"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def frontier_figure(records: Sequence[Record], path: Path) -> None:
    """Draw records of one track into a PNG: every candidate, frontiers joined, θ_post and the ceiling marked.

    Frontiers are chosen on validation and drawn at their test coordinates, so that a line may fall back a little.
    """
    # An object of one's own and no pyplot: no global state, no window system.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    groups = groups_of(records)
    figure = Figure(figsize=(8.0, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, (label, members) in enumerate(groups.items()):
        for number, record in enumerate(members):
            style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
            _draw_record(axes, record, style, label if number == 0 else None, len(records) == 1)
    post = records[0].reference.test
    axes.plot(post.acquisition.mean, post.retention.mean, "*", color="black", markersize=15, label="θ_post", zorder=5)
    for score in records[0].reference.ceiling_test:
        axes.axvline(score.mean, color="grey", linestyle=":", linewidth=1, label=f"ceiling: {score.benchmark}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    axes.margins(0.08)
    axes.grid(alpha=0.25)
    axes.set_xlabel(X_TITLE)
    axes.set_ylabel(Y_TITLE)
    axes.set_title(f"{records[0].task.name} on {records[0].lineage.name}", loc="left")
    axes.legend(loc="lower left", framealpha=0.9)
    num_items = sum(
        b.num_items for b in records[0].benchmarks if b.split == "test" and b.headline and b.suite != "ceiling"
    )
    candidates = ", ".join(f"{label}: {max(len(r.points) for r in members)}" for label, members in groups.items())
    seeds = ", ".join(map(str, sorted({record.seed for record in records})))
    figure.supxlabel(
        f"Knobs chosen on validation, drawn at test ({num_items} items, bars: 1 standard error over items).\n"
        f"Candidates: {candidates}; seeds: {seeds}. Faint: not on the frontier.",
        fontsize=8,
        color="#555555",
    )
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150, metadata={"Software": "clbench"})
    write_atomically(path, image.getvalue())


def _draw_record(axes: Axes, record: Record, style: dict[str, Any], label: str | None, with_labels: bool) -> None:
    rest = [point for point in record.points if not point.on_frontier]
    axes.plot(
        [point.test.acquisition.mean for point in rest],
        [point.test.retention.mean for point in rest],
        linestyle="none",
        markersize=5,
        alpha=0.35,
        **style,
    )
    frontier = record.frontier
    axes.errorbar(
        [point.test.acquisition.mean for point in frontier],
        [point.test.retention.mean for point in frontier],
        xerr=[point.test.acquisition.standard_error for point in frontier],
        yerr=[point.test.retention.standard_error for point in frontier],
        linewidth=1.8,
        elinewidth=0.8,
        markersize=7,
        label=label,
        **style,
    )
    if with_labels:
        names = varying_knobs([dict(point.knobs) for point in record.points])
        for number, point in enumerate(frontier):
            # Frontiers fall to the right: above right of a point there is room, or below left.
            above = number % 2 == 0 and point.test.acquisition.mean < 0.75
            axes.annotate(
                knob_text(dict(point.knobs), names),
                (point.test.acquisition.mean, point.test.retention.mean),
                xytext=(6, 6) if above else (-6, -6),
                horizontalalignment="left" if above else "right",
                verticalalignment="bottom" if above else "top",
                textcoords="offset points",
                fontsize=7,
                color=style["color"],
            )


def frontier_html(records: Sequence[Record], path: Path) -> None:
    """Draw records of one track into a page that works offline: hover for knobs and values, click the legend to filter.

    The whole of Vega is in the file.
    """
    import altair as alt

    rows = [
        _row(label, record, point)
        for label, ms in groups_of(records).items()
        for record in ms
        for point in record.points
    ]
    post = records[0].reference.test
    choice = alt.selection_point(fields=["method"], bind="legend")
    shown = alt.condition(choice, alt.value(1.0), alt.value(0.05))
    tooltips = [alt.Tooltip(f"{name}:N") for name in ("method", "seed", "knobs", "formula", "forgotten", "gained")]
    tooltips += [alt.Tooltip(f"{name}:Q", format=".1%") for name in ("acquisition", "retention", "truncated")]
    tooltips += [alt.Tooltip("train seconds:Q", format=".0f")]
    faint = alt.Opacity("frontier:N", scale=alt.Scale(domain=[True, False], range=[1.0, 0.35]), legend=None)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("acquisition:Q", title=X_TITLE, axis=alt.Axis(format="%"), scale=alt.Scale(zero=False, padding=20)),
        y=alt.Y("retention:Q", title=Y_TITLE, axis=alt.Axis(format="%"), scale=alt.Scale(zero=False, padding=20)),
        color=alt.Color("method:N", scale=alt.Scale(range=list(COLOURS))),
    )
    on_frontier = base.transform_filter("datum.frontier")
    line = on_frontier.mark_line().encode(detail="run:N", order="acquisition:Q", opacity=shown)
    bars_x = on_frontier.mark_rule().encode(
        x=alt.X("acquisition low:Q", title=X_TITLE), x2="acquisition high:Q", opacity=shown
    )
    bars_y = on_frontier.mark_rule().encode(
        y=alt.Y("retention low:Q", title=Y_TITLE), y2="retention high:Q", opacity=shown
    )
    points = base.mark_point(filled=True, size=90).encode(
        shape=alt.Shape("method:N", legend=None),
        opacity=alt.condition(choice, faint, alt.value(0.05)),
        tooltip=tooltips,
    )
    reference = [{"acquisition": post.acquisition.mean, "retention": post.retention.mean, "what": "θ_post"}]
    star = (
        alt.Chart(alt.InlineData(values=reference))
        .mark_text(text="★", size=22)
        .encode(
            x=alt.X("acquisition:Q", title=X_TITLE),
            y=alt.Y("retention:Q", title=Y_TITLE),
            tooltip=[alt.Tooltip("what:N")],
        )
    )
    chart = alt.layer(line, bars_x, bars_y, points, star).add_params(choice)
    title = alt.Title(
        f"{records[0].task.name} on {records[0].lineage.name}",
        subtitle="Knobs chosen on validation, drawn at test; bars: 1 standard error over items; ★ θ_post.",
    )
    chart = chart.properties(width=720, height=480, title=title).interactive()
    write_atomically(path, _page(chart.to_dict(), f"{records[0].task.name} on {records[0].lineage.name}").encode())


def _page(spec: dict[str, Any], title: str) -> str:
    """A page that draws a Vega-Lite specification; libraries inside.

    What stands in a record is data: `<` is written as an escape, so that no text of it can end the script.
    """
    data = json.dumps(spec).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{html.escape(title)}</title></head>
<body style="margin: 2em; background: white"><div id="figure"></div>
<script>{_vega()}</script>
<script>vegaEmbed("#figure", {data}, {{mode: "vega-lite"}});</script>
</body>
</html>
"""


def _vega() -> str:
    """The drawing libraries as one script. Bundling them takes seconds, so that the bundle is kept."""
    name = f"vega-{version('vl-convert-python')}.js"
    kept = default_store() / name
    with contextlib.suppress(OSError):
        return kept.read_text(encoding="utf-8")
    import vl_convert

    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with contextlib.suppress(OSError, RunError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, script.encode())
    return script


def _row(label: str, record: Record, point: Any) -> dict[str, Any]:
    test = point.test
    return {
        "method": label,
        "run": f"{label} {record.seed}",
        "seed": str(record.seed),
        "knobs": knob_text(dict(point.knobs)),
        "formula": point.formula,
        "frontier": point.on_frontier,
        "acquisition": test.acquisition.mean,
        "retention": test.retention.mean,
        "acquisition low": test.acquisition.mean - test.acquisition.standard_error,
        "acquisition high": test.acquisition.mean + test.acquisition.standard_error,
        "retention low": test.retention.mean - test.retention.standard_error,
        "retention high": test.retention.mean + test.retention.standard_error,
        "truncated": test.truncated_share,
        "forgotten": test.forgotten,
        "gained": test.gained,
        "train seconds": point.cost.train_seconds,
    }
