"""Tables, CSV and figures hold the record's values, for odd records too."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import matplotlib.image
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from rich.console import Console

from clbench.records import Estimate, Point, Record
from clbench.report import (
    compare_summary,
    compare_table,
    frontier_figure,
    frontier_html,
    record_summary,
    record_table,
    write_points_csv,
)
from clbench.report.figures import MARKERS
from tests.report.records import a_record, a_sweep, point

SCRIPT = "</script><script>alert(1)</script>"


def errors(one: Point, error: float) -> Point:
    none = Estimate(mean=one.test.acquisition.mean, standard_error=error)
    return one.model_copy(update={"test": one.test.model_copy(update={"acquisition": none})})


ODD: dict[str, list[Record]] = {
    "one point": [a_record([point(0, (0.5, 0.5), (0.5, 0.5), True)])],
    "forty points": [a_record([point(i, (i / 40, 1 - i / 40), (i / 40, 1 - i / 40), True) for i in range(40)])],
    "equal points": [a_record([point(i, (0.5, 0.5), (0.5, 0.5), True) for i in range(5)])],
    "long knobs": [a_record([point(0, (0.5, 0.5), (0.5, 0.5), True, **{"a_very_long_knob_" * 4: "value " * 10})])],
    "no knobs and markup": [a_record([point(0, (0.5, 0.5), (0.5, 0.5), True, rule="[red]" + SCRIPT)])],
    "no errors": [
        a_record([errors(point(i, (i / 4, 1 - i / 4), (0.5, 0.5), True), error) for i, error in enumerate((0.0, 0.1))])
    ],
    "math": [a_record([point(0, (0.5, 0.5), (0.5, 0.5), True, **{"$\\frac": "$\\frac{$"})])],
    "three methods, three seeds": [a_sweep(m, s, s / 50) for m in ("graft", "merge", "sft") for s in range(3)],
}


def printed(renderable: object, width: int = 200) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(renderable)
    return console.export_text()


@pytest.mark.parametrize("records", ODD.values(), ids=ODD)
def test_every_record_can_be_drawn_and_tabled(records: list[Record], tmp_path: Path) -> None:
    frontier_figure(records, tmp_path / "frontier.png")
    frontier_html(records, tmp_path / "frontier.html")
    assert matplotlib.image.imread(tmp_path / "frontier.png").std() > 0.01
    for record in records:
        assert record.label.split(" ")[0] in printed(record_table(record, detail=True))
    assert "hyper-" in printed(compare_table(compare_summary(records)))


def drawn_boxes(records: list[Record], path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Figure, list[Annotation]]:
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **kwargs: figures.append(self))
    frontier_figure(records, path)
    figures[0].draw_without_rendering()
    return figures[0], [text for text in figures[0].axes[0].texts if isinstance(text, Annotation)]


@pytest.mark.parametrize("name", ["forty points", "long knobs", "equal points"])
def test_labels_cover_neither_each_other_nor_leave_the_axes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, labels = drawn_boxes(ODD[name], tmp_path / "f.png", monkeypatch)
    frame = figure.axes[0].get_window_extent()
    # Of the text alone: an annotation's own extent has its arrow in it.
    boxes = [Text.get_window_extent(label) for label in labels]
    assert labels
    assert frame.width > figure.bbox.width / 2
    assert all(frame.x0 < b.x0 and b.x1 < frame.x1 and frame.y0 < b.y0 and b.y1 < frame.y1 for b in boxes)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_points_at_one_place_share_a_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, labels = drawn_boxes(ODD["equal points"], tmp_path / "f.png", monkeypatch)
    assert [label.get_text() for label in labels] == ["0.25 (+4)"]


def test_thirty_methods_all_look_different(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, _ = drawn_boxes([a_sweep(f"m{i}") for i in range(30)], tmp_path / "f.png", monkeypatch)
    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].lines if line.get_marker() in MARKERS}
    assert len(looks) == 30


def test_a_page_works_without_a_network(tmp_path: Path) -> None:
    frontier_html([a_sweep()], tmp_path / "frontier.html")
    page = (tmp_path / "frontier.html").read_text()
    assert "<script src=" not in page
    assert '"acquisition": 0.8' in page


def test_text_of_a_record_is_shown_as_text(tmp_path: Path) -> None:
    records = ODD["no knobs and markup"]
    assert "[red]" + SCRIPT in printed(record_table(records[0], detail=True))
    frontier_html(records, tmp_path / "frontier.html")
    assert SCRIPT not in (tmp_path / "frontier.html").read_text()


def test_the_csv_holds_every_value_of_every_point(tmp_path: Path) -> None:
    record = a_sweep()
    write_points_csv(record, tmp_path / "points.csv")
    with (tmp_path / "points.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(record.points)
    for row, one in zip(rows, record.points, strict=True):
        assert float(row["test.acquisition"]) == one.test.acquisition.mean
        assert float(row["validation.retention"]) == one.validation.retention.mean
        assert float(row["knob.scale"]) == one.knobs["scale"]
        assert float(row["test.retention/old"]) == one.test.score("old").mean
        assert int(row["on_frontier"]) == one.on_frontier
        assert float(row["delta.norm"]) == one.delta.norm


def test_the_table_shows_test_values_and_marks_the_frontier() -> None:
    text = printed(record_table(a_sweep()))
    frontier_lines = [line for line in text.splitlines() if line.startswith(" ●")]
    assert len(frontier_lines) == 2
    assert "80.0 ± 2.0%" in frontier_lines[1]
    assert "86.0 ± 2.0%" in frontier_lines[1]


def test_a_table_fits_a_terminal_of_80_columns() -> None:
    lines = printed(record_table(a_sweep()), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)


def test_a_comparison_fits_a_terminal_of_80_columns() -> None:
    records = [a_sweep(method, seed) for method in ("graft", "a-long-method-name") for seed in range(3)]
    lines = printed(compare_table(compare_summary(records)), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert any(line.lstrip().startswith("graft") for line in lines)


def test_a_comparison_marks_where_the_unedited_model_stands_in() -> None:
    text = printed(compare_table(compare_summary([a_record([point(0, (0.9, 0.2), (0.9, 0.2), True)])])))
    assert "2.0 ★ †" in text
    assert "† no candidate of some seed keeps that much" in text


def test_a_comparison_says_where_one_seed_is_all_there_is() -> None:
    several = [a_sweep("graft", seed, seed / 50) for seed in range(3)]
    assert "over items only" not in printed(compare_table(compare_summary(several)))
    assert "over items only" in printed(compare_table(compare_summary([*several, a_sweep("merge")])))


def test_summaries_are_json() -> None:
    assert json.loads(json.dumps(record_summary(a_sweep())))["points"][0]["knobs"] == {"scale": 0.25}
    assert json.loads(json.dumps(compare_summary([a_sweep()])))["rows"][0]["method"] == "graft"
