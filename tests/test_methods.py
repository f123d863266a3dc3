"""The reference methods, run whole on a toy lineage: the identities of their papers, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

from clbench import Store, UserError
from clbench.lineage import Lineage
from clbench.records import Record
from clbench.registry import methods
from clbench.runner import Run
from tests.toys import ToyTask


@pytest.fixture
def run(toy_lineage: Lineage, store: Store) -> Any:
    def call(method: str, **params: Any) -> Record:
        return (
            Run(methods.load(method)[0].from_values(params), ToyTask.from_values(), toy_lineage, store=store)
            .execute()
            .record
        )

    return call


def weights(record: Record) -> dict[str, str]:
    """Hash of the rounded weights by the knobs, as text."""
    return {" ".join(f"{k}={v}" for k, v in point.knobs.items()): point.weights_sha256 for point in record.points}


def test_grafting_from_post_at_full_scale_without_a_mask_is_sft(run: Any) -> None:
    sft = run("sft", learning_rate_factor=1.0)
    graft = run("graft", donor="post", scale=1.0, protect=0.0)
    assert graft.points[0].weights_sha256 == weights(sft)["learning_rate=0.01 trained=1.0"]
    assert graft.points[0].test.scores == sft.points[-1].test.scores


def test_scale_zero_and_full_protection_return_post(run: Any) -> None:
    record = run("graft", donor="base", scale=(0.0, 1.0), protect=(0.0, 1.0), protect_by=("fisher", "random"))
    post = record.points[0].weights_sha256
    assert record.points[0].delta.norm == 0
    for point in record.points:
        changed = point.knobs["scale"] == 1.0 and point.knobs["protect"] == 0.0
        assert (point.weights_sha256 != post) == changed


def test_merging_is_grafting_from_post(run: Any) -> None:
    merge = run("merge", scale=(0.3, 0.7))
    graft = run("graft", donor="post", scale=(0.3, 0.7), protect=0.0)
    assert list(weights(merge).values()) == list(weights(graft).values())


def test_merging_finds_the_training_run_of_sft(toy_lineage: Lineage, store: Store, run: Any) -> None:
    run("sft")
    merge = methods.load("merge")[0].from_values()
    plan = Run(merge, ToyTask.from_values(), toy_lineage, store=store).plan()
    assert [stage.cached for stage in plan if stage.kind == "train"] == [True]


def test_a_sweep_trains_once_a_donor(toy_lineage: Lineage, store: Store) -> None:
    graft = methods.load("graft")[0].from_values({"donor": ["early", "base"], "protect": [0, 0.1, 0.2]})
    plan = Run(graft, ToyTask.from_values(), toy_lineage, store=store).plan()
    assert sum(stage.kind == "train" for stage in plan) == 2
    assert sum(stage.kind == "fisher" for stage in plan) == 1
    assert sum(stage.kind == "evaluate" for stage in plan) == 1 + 2 * 3 * 5


def test_every_mask_rule_gives_another_candidate_and_no_mask_is_tried_once(run: Any) -> None:
    rules = ("fisher", "magnitude", "delta", "random")
    record = run("graft", scale=1.0, protect=(0.0, 0.5), protect_by=rules)
    assert len(record.points) == 1 + len(rules)
    assert len(set(weights(record).values())) == len(record.points)


def test_sft_yields_every_snapshot_of_every_learning_rate(run: Any) -> None:
    record = run("sft", learning_rate_factor=(0.5, 2.0), training={"snapshots": [0.25, 0.5]})
    knobs = [(point.knobs["learning_rate"], point.knobs["trained"]) for point in record.points]
    assert knobs == [(rate, share) for rate in (0.005, 0.02) for share in (0.25, 0.5, 1.0)]
    assert len(set(weights(record).values())) == len(knobs)


def test_masks_lower_the_update_on_the_coordinates_that_matter(run: Any) -> None:
    record = run("graft", scale=1.0, protect=(0.0, 0.05))
    unmasked, masked = (point.delta.fisher_weighted_top for point in record.points)
    assert unmasked > 0
    # The top 1 % lie inside the protected 5 %.
    assert masked == 0


def test_an_unknown_donor_names_what_there_is(run: Any) -> None:
    with pytest.raises(UserError, match=r"'bas' — did you mean 'base'\? Available: base, early, post"):
        run("graft", donor="bas")
