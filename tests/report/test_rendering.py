"""Tables, CSV and figures hold the record's values, for odd records too."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

from clbench.records import Record
from clbench.report import (
    compare_summary,
    compare_table,
    frontier_figure,
    frontier_html,
    record_summary,
    record_table,
    write_points_csv,
)
from tests.report.records import a_record, a_sweep, point

SCRIPT = "</script><script>alert(1)</script>"
ODD: dict[str, list[Record]] = {
    "one point": [a_record([point(0, (0.5, 0.5), (0.5, 0.5), True)])],
    "forty points": [a_record([point(i, (i / 40, 1 - i / 40), (i / 40, 1 - i / 40), True) for i in range(40)])],
    "equal points": [a_record([point(i, (0.5, 0.5), (0.5, 0.5), True) for i in range(5)])],
    "long knobs": [a_record([point(0, (0.5, 0.5), (0.5, 0.5), True, **{"a_very_long_knob_" * 4: "value " * 10})])],
    "no knobs and markup": [a_record([point(0, (0.5, 0.5), (0.5, 0.5), True, rule="[red]" + SCRIPT)])],
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
    assert "hypervolume" in printed(compare_table(compare_summary(records)))


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


def test_summaries_are_json() -> None:
    assert json.loads(json.dumps(record_summary(a_sweep())))["points"][0]["knobs"] == {"scale": 0.25}
    assert json.loads(json.dumps(compare_summary([a_sweep()])))["rows"][0]["method"] == "graft"
