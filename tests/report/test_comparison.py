"""Comparisons: what may be compared, what is chosen, what is called a difference."""

from __future__ import annotations

import gzip
import hashlib
import math
import statistics
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from clbench.errors import UserError
from clbench.records import ITEMS_NAME, CheckpointFacts, ItemOutcome, PluginFacts, Record, encode_items, write_run
from clbench.report.comparison import chosen_point, compare_summary, far_reaching_point, groups_of
from tests.report.records import NUM_ITEMS, a_record, a_sweep, point, score


def sem(values: Iterable[float]) -> float:
    """Standard error of the mean, by the standard library."""
    numbers = [float(value) for value in values]
    return statistics.stdev(numbers) / math.sqrt(len(numbers))


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
    assert row["num_unedited"] == 1


def test_retention_is_compared_among_candidates_that_acquire_enough_on_validation() -> None:
    far = [point(0, (0.1, 0.6), (0.95, 0.7), True), point(1, (0.9, 0.9), (0.93, 0.6), True)]
    near = point(2, (1.0, 1.0), (0.85, 0.9), True)
    assert far_reaching_point(a_record([*far, near])) == far[0]
    assert compare_summary([a_record([*far, near])])["rows"][0]["retention at reach 0.9"]["mean"] == 0.6


def test_what_is_enough_depends_on_the_ceiling() -> None:
    reference = a_sweep().reference.model_copy(update={"ceiling_validation": (score("ceiling", 0.5),)})
    near = point(0, (0.5, 0.8), (0.46, 0.8), True)
    assert far_reaching_point(a_record([near])) is None
    assert far_reaching_point(a_record([near], reference=reference)) == near


def test_a_method_that_acquires_too_little_has_no_retention_to_compare() -> None:
    row = compare_summary([a_record([point(0, (0.3, 0.9), (0.3, 0.9), True)])])["rows"][0]["retention at reach 0.9"]
    assert row["mean"] is None
    assert row["rank"] is None


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


def outcomes(model: str, num_right: int, num_items: int = NUM_ITEMS) -> list[ItemOutcome]:
    """The first of the new benchmark's items right, the others wrong."""
    return [
        ItemOutcome(
            model=model,
            suite="acquisition",
            split="test",
            benchmark="new",
            item=str(i),
            outcome=float(i < num_right),
            lenient=0.0,
            response_tokens=1,
            thinking_tokens=0,
            finish="stop",
            response="",
        )
        for i in range(num_items)
    ]


def a_run(folder: Path, method: str, num_right: int, seed: int = 0) -> Record:
    value = (num_right / NUM_ITEMS, 0.9)
    items = encode_items(outcomes("0", num_right))
    sha256 = hashlib.sha256(items).hexdigest()
    record = a_record([point(0, value, value, True)], method=method, seed=seed, items_sha256=sha256)
    write_run(folder, record, items)
    return record


def test_with_items_a_difference_is_judged_item_by_item(tmp_path: Path) -> None:
    folders = [tmp_path / "graft", tmp_path / "merge"]
    records = [a_run(folders[0], "graft", 60), a_run(folders[1], "merge", 55)]
    assert compare_summary(records)["rows"][1]["acquisition at 0.95"]["rank"] == "like best"
    value = compare_summary(records, folders)["rows"][1]["acquisition at 0.95"]
    # The same items but for five, which only one of the two has right.
    differences = np.repeat([1.0, 0.0], [5, NUM_ITEMS - 5])
    assert value["rank"] == "lower"
    assert value["below_best"]["paired"]
    assert value["below_best"]["mean"] == pytest.approx(differences.mean())
    assert value["below_best"]["standard_error"] == pytest.approx(sem(differences))


def test_pairing_averages_an_items_outcomes_over_seeds(tmp_path: Path) -> None:
    runs = {("graft", 0): 60, ("graft", 1): 50, ("merge", 0): 40, ("merge", 1): 44}
    folders = [tmp_path / f"{method}{seed}" for method, seed in runs]
    records = [a_run(f, m, right, seed) for f, ((m, seed), right) in zip(folders, runs.items(), strict=True)]
    answered = {key: np.arange(NUM_ITEMS) < right for key, right in runs.items()}
    graft, merge = (np.mean([answered[method, seed] for seed in (0, 1)], axis=0) for method in ("graft", "merge"))
    expected = math.hypot(sem(graft - merge), sem([0.6, 0.5]), sem([0.4, 0.44]))
    value = compare_summary(records, folders)["rows"][1]["acquisition at 0.95"]
    assert value["below_best"]["mean"] == pytest.approx(np.mean(graft - merge))
    assert value["below_best"]["standard_error"] == pytest.approx(expected)


def test_runs_without_items_are_compared_unpaired(tmp_path: Path) -> None:
    folders = [tmp_path / "graft", tmp_path / "merge"]
    records = [a_run(folders[0], "graft", 60), a_run(folders[1], "merge", 55)]
    (folders[1] / ITEMS_NAME).unlink()
    value = compare_summary(records, folders)["rows"][1]["acquisition at 0.95"]
    assert not value["below_best"]["paired"]
    assert value["rank"] == "like best"


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(b"{"), gzip.compress(b"{}\n")[:-9]], ids=["no gzip", "no item", "cut off"]
)
def test_damaged_items_are_named(content: bytes, tmp_path: Path) -> None:
    folders = [tmp_path / "graft", tmp_path / "merge"]
    records = [a_run(folders[0], "graft", 60), a_run(folders[1], "merge", 55)]
    (folders[1] / ITEMS_NAME).write_bytes(content)
    with pytest.raises(UserError, match=r"merge/items\.jsonl\.gz is damaged"):
        compare_summary(records, folders)


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
        ({"benchmarks": ()}, "the definition of benchmark new .acquisition, test.: 'new' and absent"),
        ({"sampling": {"temperature": 1.0}}, "sampling: {} and {'temperature': 1.0}"),
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
