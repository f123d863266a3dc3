"""Comparisons: what may be compared, what is chosen, what is called a difference."""

from __future__ import annotations

import pytest

from clbench.errors import UserError
from clbench.records import CheckpointFacts, PluginFacts
from clbench.report.comparison import chosen_point, compare_summary, groups_of
from tests.report.records import a_record, a_sweep, point


def test_the_point_is_chosen_on_validation_whatever_its_test_value() -> None:
    record = a_record(
        [
            point(0, (0.9, 0.9), (0.3, 0.90), True),
            point(1, (0.1, 0.9), (0.4, 0.90), True),
            point(2, (1.0, 0.9), (0.9, 0.85), True),
        ]
    )
    chosen = chosen_point(record, 0.99)
    assert chosen is not None
    assert chosen.index == 1
    assert compare_summary([record])["rows"][0]["acquisition at 0.99"]["mean"] == 0.1


def test_a_method_that_keeps_too_little_falls_back_on_the_unedited_model() -> None:
    record = a_record([point(0, (0.9, 0.2), (0.9, 0.2), True)])
    row = compare_summary([record])["rows"][0]["acquisition at 0.99"]
    assert row["mean"] == record.reference.test.acquisition.mean
    assert row["knobs"] == [None]


def test_the_hypervolume_is_that_of_the_frontiers_test_points_above_post() -> None:
    value = compare_summary([a_sweep()])["rows"][0]["hypervolume"]["mean"]
    # Above acquisition 0.02 and retention 0: (0.30, 0.90) and (0.80, 0.86).
    assert value == pytest.approx((0.30 - 0.02) * 0.90 + (0.80 - 0.30) * 0.86)


def test_seeds_of_one_config_are_one_row_with_two_named_errors() -> None:
    rows = compare_summary([a_sweep(seed=0), a_sweep(seed=1, shift=0.04)])["rows"]
    assert len(rows) == 1
    value = rows[0]["acquisition at 0.95"]
    assert rows[0]["seeds"] == [0, 1]
    assert value["mean"] == pytest.approx(0.82)
    assert value["standard_error_seeds"] == pytest.approx(0.02)
    assert value["standard_error_items"] == pytest.approx(0.02)


def test_a_difference_within_noise_is_not_called_one() -> None:
    rows = compare_summary([a_sweep("graft"), a_sweep("merge", shift=-0.05), a_sweep("sft", shift=-0.06)])["rows"]
    # 2 · √(0.02² + 0.02²) = 0.0566
    assert [row["acquisition at 0.95"]["rank"] for row in rows] == ["best", "like best", "lower"]


def test_without_several_seeds_hypervolumes_are_not_ranked() -> None:
    rows = compare_summary([a_sweep("graft"), a_sweep("merge", shift=-0.5)])["rows"]
    assert [row["hypervolume"]["rank"] for row in rows] == [None, None]


def test_configs_of_one_method_are_told_apart_by_what_differs() -> None:
    one = a_sweep()
    other = one.model_copy(update={"method": PluginFacts(name="graft", origin="test", config={"scale": [1.0]})})
    assert list(groups_of([one, other])) == ["graft (scale 0.5)", "graft (scale 1.0)"]


def test_one_run_given_twice_is_refused() -> None:
    with pytest.raises(UserError, match="same config and seed"):
        groups_of([a_sweep(), a_sweep()])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": PluginFacts(name="star", origin="test", config={})}, "task: 'knowledge-injection' and 'star'"),
        ({"task": PluginFacts(name="knowledge-injection", origin="test", config={"num_people": 3})}, "task config"),
        ({"benchmarks": ()}, "benchmarks"),
        ({"sampling": {"temperature": 1.0}}, "sampling"),
    ],
)
def test_records_that_were_not_measured_alike_are_refused_by_field(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=f"cannot be compared: they differ in {words}"):
        compare_summary([a_sweep(), a_sweep("merge").model_copy(update=changes)])


def test_another_post_is_another_track() -> None:
    lineage = a_sweep().lineage
    other = lineage.model_copy(update={"checkpoints": (CheckpointFacts(name="post", source="s", sha256="q"),)})
    with pytest.raises(UserError, match="they differ in θ_post"):
        compare_summary([a_sweep(), a_sweep("merge").model_copy(update={"lineage": other})])
