"""The normal form of recipes."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbench.errors import UserError
from clbench.weights.recipe import Checkpoint, Recipe

finite = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e6, max_value=1e6)


def leaf(name: str) -> Recipe:
    return Recipe.of(Checkpoint(name, f"path:{name}", f"hash-of-{name}", Path(name)))


POST, DONOR, TRAINED, FISHER = (leaf(name) for name in ("post", "donor", "trained", "fisher"))


@given(finite)
def test_merging_at_scale_is_wise_ft_at_the_same_alpha(scale: float) -> None:
    merged = POST + scale * (TRAINED - POST)
    wise_ft = (1 - Fraction(repr(scale))) * POST + scale * TRAINED
    assert merged == wise_ft


def test_scale_zero_is_post() -> None:
    assert POST + 0.0 * (TRAINED - DONOR).protect(FISHER, 0.5) == POST


def test_scale_one_on_post_as_its_own_donor_is_the_trained_checkpoint() -> None:
    assert (POST + 1.0 * (TRAINED - POST)).single == TRAINED.single


def test_protecting_nothing_is_no_mask_and_protecting_all_is_post() -> None:
    delta = TRAINED - DONOR
    assert delta.protect(FISHER, 0.0) == delta
    assert POST + delta.protect(FISHER, 1.0) == POST


@given(finite, finite)
def test_scaling_distributes_over_sums(a: float, b: float) -> None:
    assert a * (TRAINED - DONOR) + b * (TRAINED - DONOR) == (Fraction(repr(a)) + Fraction(repr(b))) * (TRAINED - DONOR)


def test_order_and_names_are_no_part_of_the_identity() -> None:
    renamed = Recipe.of(Checkpoint("another name", "path:elsewhere", "hash-of-post", Path("elsewhere")))
    assert renamed == POST
    assert TRAINED - DONOR + POST == POST + TRAINED - DONOR
    assert POST + TRAINED != POST + DONOR


def test_masks_of_different_rules_shares_and_seeds_are_different_recipes() -> None:
    delta = TRAINED - DONOR
    recipes = [
        delta.protect(FISHER, 0.1),
        delta.protect(FISHER, 0.2),
        delta.protect(POST, 0.1, rule="magnitude"),
        delta.protect(None, 0.1, rule="delta"),
        delta.protect(None, 0.1, rule="random", seed=0),
        delta.protect(None, 0.1, rule="random", seed=1),
    ]
    assert len(set(recipes)) == len(recipes)


@pytest.mark.parametrize("rho", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_outside_zero_to_one_is_refused(rho: float) -> None:
    with pytest.raises(UserError, match="between 0 and 1"):
        (TRAINED - DONOR).protect(FISHER, rho)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -float("inf")])
def test_a_scale_that_is_not_finite_is_refused(scale: float) -> None:
    with pytest.raises(UserError, match="finite"):
        scale * POST


def test_a_model_cannot_be_protected() -> None:
    with pytest.raises(UserError, match="only an update"):
        (POST + TRAINED - DONOR).protect(FISHER, 0.1)


def test_a_recipe_survives_json() -> None:
    recipe = POST + 0.7 * (TRAINED - DONOR).protect(FISHER, 0.001) + 0.1 * (TRAINED - POST)
    text = json.dumps(recipe.to_json())
    leaves = {r.single.source: r.single for r in (POST, DONOR, TRAINED, FISHER) if r.single}
    read = Recipe.from_json(json.loads(text), lambda part: leaves[part["source"]])
    assert read == recipe
    assert read.formula() == recipe.formula()


def test_formulas_read_as_people_write_them() -> None:
    assert (POST + 0.7 * (TRAINED - DONOR)).formula() == "post + 0.7 * (trained - donor)"
    assert (POST + (TRAINED - DONOR)).formula() == "post + (trained - donor)"
    protected = POST + 0.5 * (TRAINED - DONOR).protect(FISHER, 0.001)
    assert protected.formula() == "post + 0.5 * protect(trained - donor, fisher, 0.001)"
    assert (0.3 * POST + 0.7 * TRAINED).formula() == "0.3 * post + 0.7 * trained"
