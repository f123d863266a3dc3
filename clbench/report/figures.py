"""The plane of acquisition and retention: a PNG for papers and folders, an HTML page for looking closer."""

from __future__ import annotations

import contextlib
import html
import io
import json
import textwrap
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clbench.errors import RunError
from clbench.files import write_atomically
from clbench.records import Estimate, Point, Record
from clbench.report.comparison import groups_of
from clbench.report.labels import boxes_of_line, boxes_of_points, place_labels
from clbench.report.summary import knob_text, knob_value, varying_knobs
from clbench.store import default_store

if TYPE_CHECKING:
    import altair as alt
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by the colour-blind, without yellow and black; seen on white and on black.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
# Five, so that with six colours only the 31st group looks like the first.
MARKERS = ("o", "s", "^", "D", "v")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down")
GREY = "#808080"
X_TITLE, Y_TITLE = "acquisition: mean score on the new task", "retention: mean score on old tasks"
MAX_LABEL, MAX_LEGEND = 28, 40
FOOTNOTE_WIDTH = 125


def frontier_figure(records: Sequence[Record], path: Path) -> None:
    """Draw records of one track into a PNG: every candidate, frontiers joined, θ_post and the ceiling marked.

    Frontiers are chosen on validation and drawn at their test coordinates, so that a line may fall back a little.
    Straight lines join their points to guide the eye; nothing was measured between them. With one seed a method,
    frontier points carry their knobs where there is room.
    """
    # An object of one's own and no pyplot: no global state, no window system.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    groups = groups_of(records)
    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, (label, members) in enumerate(groups.items()):
        style: dict[str, Any] = {"color": _cycled(COLOURS, index), "marker": _cycled(MARKERS, index)}
        for number, record in enumerate(members):
            _draw_record(axes, record, style, _shortened(label, MAX_LEGEND) if number == 0 else None)
    post = records[0].reference.test
    axes.plot(post.acquisition.mean, post.retention.mean, "*", color="black", markersize=15, label="θ_post", zorder=5)
    for score in records[0].reference.ceiling_test:
        text = _shortened(f"ceiling: {score.benchmark}", MAX_LEGEND)
        axes.axvline(score.mean, color=GREY, linestyle="--", linewidth=1, label=text)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    axes.margins(0.08)
    axes.grid(alpha=0.25)
    axes.set_xlabel(X_TITLE)
    axes.set_ylabel(Y_TITLE)
    axes.set_title(f"{records[0].task.name} on {records[0].lineage.name}", loc="left", parse_math=False)
    # Outside, where it covers nothing.
    for entry in figure.legend(loc="outside right upper", fontsize=9, frameon=False).get_texts():
        entry.set_parse_math(False)
    figure.supxlabel(_footnote(groups), fontsize=8, color="#555555", parse_math=False)
    if all(len(members) == 1 for members in groups.values()):
        _label_frontiers(axes, groups)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150, metadata={"Software": "clbench"})
    write_atomically(path, png.getvalue())


def _draw_record(axes: Axes, record: Record, style: dict[str, Any], label: str | None) -> None:
    rest = [point for point in record.points if not point.on_frontier]
    axes.plot(*_transposed(rest), linestyle="none", markersize=5, alpha=0.35, **style)
    frontier = record.frontier
    axes.errorbar(
        *_transposed(frontier),
        xerr=[_bar(point.test.acquisition) for point in frontier],
        yerr=[_bar(point.test.retention) for point in frontier],
        linewidth=1.8,
        elinewidth=0.8,
        markersize=7,
        label=label,
        **style,
    )


def _label_frontiers(axes: Axes, groups: Mapping[str, Sequence[Record]]) -> None:
    figure = axes.figure
    figure.set_dpi(150)
    figure.draw_without_rendering()  # type: ignore[union-attr]  # a figure of its own, not a sub-figure
    records = [record for members in groups.values() for record in members]
    post = records[0].reference.test
    everything = [(post.acquisition.mean, post.retention.mean), *(_at(p) for r in records for p in r.points)]
    taken = [boxes_of_points(axes, everything)]
    for record in records:
        taken.append(boxes_of_line(axes, [_at(point) for point in record.frontier]))
        for point in record.frontier:
            (x, y), width, height = _at(point), _bar(point.test.acquisition), _bar(point.test.retention)
            taken.append(boxes_of_line(axes, [(x - width, y), (x + width, y)]))
            taken.append(boxes_of_line(axes, [(x, y - height), (x, y + height)]))
    low, high = axes.get_ylim()
    taken += [boxes_of_line(axes, [(s.mean, low), (s.mean, high)]) for s in records[0].reference.ceiling_test]
    for index, record in enumerate(records):
        names = _labelled_knobs(record)
        by_place: dict[tuple[float, float], list[str]] = {}
        for point in record.frontier:
            text = ", ".join(knob_value(point.knobs.get(name)) or "–" for name in names)
            by_place.setdefault(_at(point), []).append(_shortened(text, MAX_LABEL))
        texts = [ts[0] + (f" (+{len(ts) - 1})" if len(ts) > 1 else "") for ts in by_place.values()]
        place_labels(axes, list(by_place), texts, _cycled(COLOURS, index), taken)


def _labelled_knobs(record: Record) -> list[str]:
    return varying_knobs([dict(point.knobs) for point in record.points])


def _footnote(groups: Mapping[str, Sequence[Record]]) -> str:
    first = next(iter(groups.values()))[0]
    num_items = {
        suite: sum(b.num_items for b in first.benchmarks if b.split == "test" and b.headline and b.suite == suite)
        for suite in ("acquisition", "retention")
    }
    seeds = sorted({record.seed for members in groups.values() for record in members})
    parts = [
        "Knobs chosen on validation, shown on test "
        f"({num_items['acquisition']} new and {num_items['retention']} old items); bars: 1 standard error over items. "
        "Straight lines join the frontier; faint: not on it. Candidates: "
        + ", ".join(f"{_shortened(label, MAX_LEGEND)} {max(len(r.points) for r in ms)}" for label, ms in groups.items())
        + f"; seeds: {', '.join(map(str, seeds))}."
    ]
    if all(len(members) == 1 for members in groups.values()):
        named = {label: [_shortened(n, MAX_LABEL) for n in _labelled_knobs(ms[0])] for label, ms in groups.items()}
        known = [f"{_shortened(label, MAX_LEGEND)} by {', '.join(names)}" for label, names in named.items() if names]
        parts += [f"Labels, where there is room: {'; '.join(known)}."] if known else []
    return "\n".join(line for part in parts for line in textwrap.wrap(part, FOOTNOTE_WIDTH))


def _at(point: Point) -> tuple[float, float]:
    return point.test.acquisition.mean, point.test.retention.mean


def _transposed(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [_at(point)[0] for point in points], [_at(point)[1] for point in points]


def _bar(estimate: Estimate) -> float:
    """Length of an error bar; a standard error below 0 says nothing and gets none."""
    return max(0.0, estimate.standard_error)


def _cycled(values: Sequence[str], index: int) -> str:
    return values[index % len(values)]


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def frontier_html(records: Sequence[Record], path: Path) -> None:
    """Draw records of one track into a page that works offline: hover for knobs and values, click the legend to filter.

    The whole of Vega is in the file. Background and greys suit a light and a dark page.
    """
    import altair as alt

    groups = groups_of(records)
    rows = [_row(label, r, point) for label, members in groups.items() for r in members for point in r.points]
    choice = alt.selection_point(fields=["method"], bind="legend")
    shown = alt.condition(choice, alt.value(1.0), alt.value(0.05))
    tooltips = [alt.Tooltip(f"{name}:N") for name in ("method", "seed", "knobs", "formula", "acquired", "retained")]
    tooltips += [alt.Tooltip(f"{name}:N") for name in ("forgotten", "gained", "cut off at most", "train seconds")]
    faint = alt.Opacity("frontier:N", scale=alt.Scale(domain=[True, False], range=[1.0, 0.35]), legend=None)
    scale = alt.Scale(zero=False, nice=False, padding=20)
    x = alt.X("acquisition:Q", title=X_TITLE, axis=alt.Axis(format="%"), scale=scale)
    y = alt.Y("retention:Q", title=Y_TITLE, axis=alt.Axis(format="%"), scale=scale)
    colours, shapes = (
        alt.Scale(domain=list(groups), range=[_cycled(values, index) for index in range(len(groups))])
        for values in (COLOURS, SHAPES)
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y, color=alt.Color("method:N", scale=colours))
    on_frontier = base.transform_filter("datum.frontier")
    line = on_frontier.mark_line().encode(detail="run:N", order="acquisition:Q", opacity=shown)
    bars_x = on_frontier.mark_rule().encode(
        x=alt.X("acquisition low:Q", title=X_TITLE), x2="acquisition high:Q", opacity=shown
    )
    bars_y = on_frontier.mark_rule().encode(
        y=alt.Y("retention low:Q", title=Y_TITLE), y2="retention high:Q", opacity=shown
    )
    points = base.mark_point(filled=True, size=90).encode(
        shape=alt.Shape("method:N", scale=shapes),
        opacity=alt.condition(choice, faint, alt.value(0.05)),
        tooltip=tooltips,
    )
    chart = alt.layer(*_references(records[0], x, y), line, bars_x, bars_y, points).add_params(choice)
    name = f"{records[0].task.name} on {records[0].lineage.name}"
    subtitle = (
        "Knobs chosen on validation, shown on test; bars: 1 standard error over items; ★ θ_post; dashed: ceiling."
    )
    chart = chart.properties(width=720, height=480, title=alt.Title(name, subtitle=subtitle, anchor="start"))
    chart = chart.configure(background="transparent").configure_view(stroke=GREY).interactive()
    chart = chart.configure_axis(labelColor=GREY, titleColor=GREY, tickColor=GREY, gridColor=GREY, gridOpacity=0.25)
    chart = chart.configure_title(color=GREY, subtitleColor=GREY, subtitleFontWeight="normal")
    chart = chart.configure_legend(labelColor=GREY, titleColor=GREY, labelLimit=300)
    write_atomically(path, _page(chart.to_dict(), name).encode())


def _references(record: Record, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """θ_post as a star, each ceiling as a dashed line."""
    import altair as alt

    post = record.reference.test
    star = {"what": "θ_post", "acquisition": post.acquisition.mean, "retention": post.retention.mean}
    star |= {"acquired": _percent(post.acquisition), "retained": _percent(post.retention)}
    tooltips = [alt.Tooltip(f"{name}:N") for name in ("what", "acquired", "retained")]
    charts = [
        alt.Chart(alt.InlineData(values=[star]))
        .mark_text(text="★", size=24, color=GREY)
        .encode(x=x, y=y, tooltip=tooltips)
    ]
    ceilings = [
        {"what": f"ceiling: {score.benchmark}", "acquisition": score.mean, "score": f"{score.mean:.1%}"}
        for score in record.reference.ceiling_test
    ]
    if ceilings:
        rule = alt.Chart(alt.InlineData(values=ceilings)).mark_rule(strokeDash=[5, 4], color=GREY, size=2)
        charts.append(rule.encode(x=x, tooltip=[alt.Tooltip("what:N"), alt.Tooltip("score:N")]))
    return charts


def _page(spec: dict[str, Any], title: str) -> str:
    """A page that draws a Vega-Lite specification; libraries inside.

    What stands in a record is data: `<` is written as an escape, so that no text of it can end the script.
    """
    data = json.dumps(spec).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>{html.escape(title)}</title></head>
<body style="margin: 2em"><div id="figure"></div>
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


def _row(label: str, record: Record, point: Point) -> dict[str, Any]:
    test = point.test
    (acquisition, retention), errors = _at(point), (_bar(test.acquisition), _bar(test.retention))
    return {
        "method": label,
        "run": f"{label} {record.seed}",
        "seed": str(record.seed),
        "knobs": knob_text(dict(point.knobs)),
        "formula": point.formula,
        "frontier": point.on_frontier,
        "acquisition": acquisition,
        "retention": retention,
        "acquired": _percent(test.acquisition),
        "retained": _percent(test.retention),
        "acquisition low": acquisition - errors[0],
        "acquisition high": acquisition + errors[0],
        "retention low": retention - errors[1],
        "retention high": retention + errors[1],
        "cut off at most": f"{test.truncated_share:.1%}",
        "forgotten": str(test.forgotten),
        "gained": str(test.gained),
        "train seconds": f"{point.cost.train_seconds:.0f}",
    }


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.mean:.1f} ± {estimate.standard_error:.1%}"
