"""Whole runs on a toy lineage: what they keep, what they repeat, what they refuse."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from clbench import Candidate, Config, Method, RunError, Store, Suite, UserError
from clbench.lineage import Lineage
from clbench.records import ITEMS_NAME, estimate, read_items, read_record, write_run
from clbench.runner import Result, Run
from clbench.task import Benchmark, Item
from tests.toys import ToyMethod, ToyTask


def a_run(lineage: Lineage, store: Store, *, seed: int = 0, **params: object) -> Run:
    return Run(ToyMethod.from_values(params), ToyTask.from_values(), lineage, seed=seed, store=store)


@pytest.fixture
def result(toy_lineage: Lineage, store: Store) -> Result:
    return a_run(toy_lineage, store).execute()


def test_the_same_seed_gives_the_same_record_twice_from_nothing(toy_manifest: Path, tmp_path: Path) -> None:
    records = [
        a_run(Lineage.load(str(toy_manifest)), Store(tmp_path / name)).execute().record for name in ("one", "two")
    ]
    assert records[0].fingerprint() == records[1].fingerprint()


def test_another_seed_gives_another_record(toy_lineage: Lineage, store: Store, result: Result) -> None:
    other = a_run(toy_lineage, store, seed=1).execute().record
    assert other.fingerprint() != result.record.fingerprint()
    assert other.points[-1].weights_sha256 != result.record.points[-1].weights_sha256


def test_a_repeated_run_works_out_nothing(toy_lineage: Lineage, store: Store, result: Result) -> None:
    def modified() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (store.root / "stages").rglob("*")}

    before = modified()
    again = a_run(toy_lineage, store).execute()
    assert modified() == before
    assert again.record.fingerprint() == result.record.fingerprint()


def test_another_candidate_costs_its_evaluation_and_nothing_else(
    toy_lineage: Lineage, store: Store, result: Result
) -> None:
    plan = a_run(toy_lineage, store, scale=(0.5, 0.7, 1.0)).plan()
    assert [stage.kind for stage in plan if not stage.cached] == ["evaluate"]


def test_a_dry_run_lists_every_stage_and_does_nothing(toy_lineage: Lineage, store: Store) -> None:
    plan = a_run(toy_lineage, store).plan()
    assert not store.root.exists()
    executed = a_run(toy_lineage, store).execute().record
    assert [stage.key for stage in plan] == [stage.key for stage in executed.stages]


def test_scale_one_is_the_trained_model_rounded_to_posts_dtype(toy_lineage: Lineage, store: Store) -> None:
    record = a_run(toy_lineage, store, scale=(0.0, 1.0)).execute().record
    assert record.points[0].delta.norm == 0
    assert record.points[0].delta.changed_share == 0
    assert record.points[0].test.scores == record.reference.test.scores
    assert record.points[1].formula == "trained(post)"
    assert record.points[1].delta.norm > 0


def test_every_mean_in_the_record_is_that_of_the_item_outcomes(tmp_path: Path, result: Result) -> None:
    write_run(tmp_path / "run", result.record, result.items)
    record = read_record(tmp_path / "run")
    assert record == result.record
    outcomes = list(read_items(tmp_path / "run"))
    with gzip.open(tmp_path / "run" / ITEMS_NAME) as file:
        assert hashlib.sha256(file.read()).hexdigest() == record.items_sha256
    for model, measurement in [("post", record.reference.test), *((str(p.index), p.test) for p in record.points)]:
        for score in measurement.scores:
            own = [
                o
                for o in outcomes
                if (o.model, o.split, o.suite, o.benchmark) == (model, "test", score.suite, score.benchmark)
            ]
            assert len(own) == score.num_items
            assert score.mean == pytest.approx(sum(o.outcome for o in own) / len(own))
            assert score.standard_error == pytest.approx(estimate(o.outcome for o in own).standard_error)


def test_costs_are_those_of_the_stages_behind_the_weights(result: Result) -> None:
    for point in result.record.points:
        assert point.cost.train_steps == 4
        assert point.cost.fisher_seconds == 0, "the method uses no Fisher information"
        num_parameters = 16 * 260 + 0  # lower bound: the embedding alone
        assert point.cost.flops >= 6 * num_parameters * point.cost.train_tokens


class Silent(Method[Config]):
    name = "silent"

    def candidates(self, bench):  # type: ignore[no-untyped-def]
        yield from ()


class Repeats(Method[Config]):
    name = "repeats"

    def candidates(self, bench):  # type: ignore[no-untyped-def]
        for _ in range(2):
            yield Candidate(knobs={}, weights=bench.lineage.post)


def test_a_method_without_candidates_fails_with_its_name(toy_lineage: Lineage, store: Store) -> None:
    with pytest.raises(RunError, match="'silent' yielded no candidate"):
        Run(Silent.from_values(), ToyTask.from_values(), toy_lineage, store=store).execute()


def test_equal_points_are_both_on_the_frontier(toy_lineage: Lineage, store: Store) -> None:
    record = Run(Repeats.from_values(), ToyTask.from_values(), toy_lineage, store=store).execute().record
    assert [point.on_frontier for point in record.points] == [True, True]


class NoRetention(ToyTask):
    name = "no-retention"

    def retention(self, tools, split):  # type: ignore[no-untyped-def]
        return Suite(benchmarks=())


class BadVerifier(ToyTask):
    name = "bad-verifier"

    def acquisition(self, tools, split):  # type: ignore[no-untyped-def]
        items = (Item(id="i", prompt="p", target="t"),)
        return Suite(
            benchmarks=(
                Benchmark(name="new", items=items, max_new_tokens=2, verifier="tests.test_runner:raising_verifier"),
            )
        )


def raising_verifier(answer: str, item: Item) -> float:
    raise ZeroDivisionError("division by zero")


def test_a_task_without_retention_suite_is_refused(toy_lineage: Lineage, store: Store) -> None:
    with pytest.raises(UserError, match="no retention benchmark"):
        Run(ToyMethod.from_values(), NoRetention.from_values(), toy_lineage, store=store).execute()


def test_a_verifier_that_raises_names_benchmark_and_item(toy_lineage: Lineage, store: Store) -> None:
    with pytest.raises(RunError, match=r"verifier of benchmark 'new' raised at item 'i': ZeroDivisionError"):
        Run(ToyMethod.from_values(), BadVerifier.from_values(), toy_lineage, store=store).execute()


def test_a_changed_checkpoint_is_never_answered_from_the_store(
    toy_lineage: Lineage, toy_manifest: Path, store: Store, tmp_path: Path, result: Result
) -> None:
    import shutil

    from tests.toys import write_toy_lineage

    copy = tmp_path / "copy"
    shutil.copytree(toy_manifest.parent, copy)
    assert a_run(Lineage.load(str(copy / "toy.yaml")), store).execute().record.fingerprint() == (
        result.record.fingerprint()
    )
    other = tmp_path / "other"
    write_toy_lineage(other)
    shutil.copytree(other / "early", copy / "post", dirs_exist_ok=True)
    changed = a_run(Lineage.load(str(copy / "toy.yaml")), store).plan()
    assert not any(stage.cached for stage in changed if stage.kind != "examples")


def test_an_item_file_that_is_damaged_or_swapped_is_found(tmp_path: Path, result: Result) -> None:
    folder = tmp_path / "run"
    write_run(folder, result.record, result.items)
    whole = (folder / ITEMS_NAME).read_bytes()
    for content in (b"", whole[:-20], b"no gzip", whole[:100] + b"\0" * 50 + whole[150:], gzip.compress(b"{}\n")):
        (folder / ITEMS_NAME).write_bytes(content)
        with pytest.raises(UserError, match=r"items\.jsonl\.gz is"):
            list(read_items(folder))
    (folder / ITEMS_NAME).write_bytes(gzip.compress(b"".join(result.items.splitlines(keepends=True)[:-1])))
    with pytest.raises(UserError, match="is not the file that"):
        list(read_items(folder))


class YieldsARecipe(Method[Config]):
    name = "yields-a-recipe"

    def candidates(self, bench):  # type: ignore[no-untyped-def]
        yield bench.lineage.post


class YieldsAnUpdate(Method[Config]):
    name = "yields-an-update"

    def candidates(self, bench):  # type: ignore[no-untyped-def]
        yield Candidate(knobs={}, weights=bench.lineage.post - bench.lineage["base"])


@pytest.mark.parametrize(
    ("method", "words"),
    [(YieldsARecipe, "yielded a Recipe"), (YieldsAnUpdate, "yielded post - base, which is an update")],
)
def test_what_is_no_candidate_is_refused_before_anything_is_worked_out(
    toy_lineage: Lineage, store: Store, method: type[Method], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        Run(method.from_values(), ToyTask.from_values(), toy_lineage, store=store).plan()
    assert not store.root.exists()
