"""The main job on the shipped lineage: that it is a benchmark, with something to learn and something to lose."""

from __future__ import annotations

from pathlib import Path

import pytest

from clbench import Lineage, Record, Store
from clbench.records import read_items, write_run
from clbench.registry import methods, tasks
from clbench.runner import Run

SKILLS = ("addition", "recall", "reading", "format")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """SFT at the lineage's own settings, with no update and half of it beside."""
    folder = tmp_path_factory.mktemp("main")
    merge = methods.load("merge")[0].from_values({"scale": [0.0, 0.5, 1.0]})
    task = tasks.load("knowledge-injection")[0].from_values()
    result = Run(merge, task, Lineage.load("micro"), store=Store(folder / "store")).execute()
    write_run(folder / "run", result.record, result.items)
    assert sum(1 for _ in read_items(folder / "run")) > 0
    return result.record


@pytest.mark.parametrize("skill", SKILLS)
def test_post_has_every_old_skill_with_room_to_lose_and_to_gain(record: Record, skill: str) -> None:
    assert 0.85 <= record.reference.test.score(skill).mean <= 0.99
    assert record.reference.test.score(skill).num_items >= 200


def test_post_does_not_know_the_new_facts_and_can_read_them(record: Record) -> None:
    for name in ("direct", "paraphrase"):
        assert record.reference.test.score(name).mean <= 0.05
    assert record.reference.ceiling_test[0].mean >= 0.95


def test_no_update_changes_nothing(record: Record) -> None:
    nothing = record.points[0]
    assert nothing.test.scores == record.reference.test.scores
    assert (nothing.test.forgotten, nothing.test.gained) == (0, 0)


def test_fine_tuning_acquires_the_facts_and_visibly_forgets(record: Record) -> None:
    full = record.points[-1]
    assert full.test.acquisition.mean >= 0.9
    lost = record.reference.test.retention.mean - full.test.retention.mean
    noise = (record.reference.test.retention.standard_error**2 + full.test.retention.standard_error**2) ** 0.5
    assert lost > 2 * noise
    assert full.test.forgotten is not None
    assert full.test.gained is not None
    assert full.test.forgotten > full.test.gained


def test_nothing_is_cut_off_by_its_budget_before_training(record: Record) -> None:
    assert record.reference.test.truncated_share <= 0.01


def test_items_of_the_two_splits_differ_and_none_is_trained_on() -> None:
    from clbench import Tools
    from clbench.stages import Stages

    task = tasks.load("knowledge-injection")[0].from_values()
    tools = Tools(Stages(Store(Path("unused")), Lineage.load("micro")), 0)
    prompts = {
        split: {
            (b.name, i.prompt)
            for s in (task.acquisition, task.retention)
            for b in s(tools, split).benchmarks
            for i in b.items
        }
        for split in ("validation", "test")
    }
    assert not prompts["validation"] & prompts["test"]
    retention = {prompt for name, prompt in prompts["validation"] | prompts["test"] if name in SKILLS}
    assert not retention & {example.prompt for example in task.retention_examples(tools)}
    paraphrases = {prompt for name, prompt in prompts["validation"] | prompts["test"] if name == "paraphrase"}
    assert not paraphrases & {example.prompt for example in task.examples(tools)}
