"""Working out recipes on real files, against dense float64 arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from clbench.errors import UserError
from clbench.weights.arithmetic import WeightArithmetic
from clbench.weights.files import weights_sha256
from clbench.weights.recipe import Checkpoint, Recipe

SHAPES = {"a.weight": (5, 7), "b.weight": (11,), "c.weight": (3, 2, 2)}
NUM_COORDINATES = 35 + 11 + 12


def checkpoint(folder: Path, name: str, tensors: dict[str, torch.Tensor]) -> Recipe:
    directory = folder / name
    directory.mkdir()
    save_file(tensors, directory / "model.safetensors")
    return Recipe.of(Checkpoint(name, f"path:{name}", weights_sha256(directory), directory))


def random_tensors(seed: int, dtype: torch.dtype, scale: float = 1.0) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {name: (scale * torch.randn(shape, generator=rng)).to(dtype) for name, shape in SHAPES.items()}


class World:
    """θ_post in bfloat16, a donor near it, its trained version in float32, a Fisher checkpoint with ties."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        post = random_tensors(seed, torch.bfloat16)
        donor = {n: (t.float() + 0.05 * torch.randn_like(t.float())).to(torch.bfloat16) for n, t in post.items()}
        trained = {n: t.float() + 0.01 * torch.randn_like(t.float()) for n, t in donor.items()}
        trained_post = {n: t.float() + 0.01 * torch.randn_like(t.float()) for n, t in post.items()}
        fisher = {n: (t.float().abs() * 4).round() for n, t in random_tensors(seed + 1, torch.float32).items()}
        self.tensors = {
            "post": post, "donor": donor, "trained": trained, "trained_post": trained_post, "fisher": fisher
        }  # fmt: skip
        self.recipes = {name: checkpoint(folder, name, tensors) for name, tensors in self.tensors.items()}

    def __getitem__(self, name: str) -> Recipe:
        return self.recipes[name]

    def work_out(self, recipe: Recipe) -> dict[str, torch.Tensor]:
        with WeightArithmetic(self["post"]) as arithmetic:
            return dict(arithmetic.tensors(recipe))


@pytest.fixture
def world(tmp_path: Path) -> World:
    torch.manual_seed(0)
    return World(tmp_path)


def assert_bitwise_equal(got: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert got.keys() == expected.keys()
    for name, tensor in expected.items():
        assert got[name].dtype == tensor.dtype
        assert torch.equal(got[name], tensor), name


def test_scale_zero_returns_post_bit_for_bit(world: World) -> None:
    delta = (world["trained"] - world["donor"]).protect(world["fisher"], 0.1)
    assert_bitwise_equal(world.work_out(world["post"] + 0.0 * delta), world.tensors["post"])


def test_protecting_everything_returns_post_bit_for_bit(world: World) -> None:
    delta = (world["trained"] - world["donor"]).protect(world["fisher"], 1.0)
    assert_bitwise_equal(world.work_out(world["post"] + delta), world.tensors["post"])


def test_protecting_nothing_is_the_update_without_a_mask_bit_for_bit(world: World) -> None:
    delta = world["trained"] - world["donor"]
    masked = world.work_out(world["post"] + 0.7 * delta.protect(world["fisher"], 0.0))
    assert_bitwise_equal(masked, world.work_out(world["post"] + 0.7 * delta))


def test_post_as_its_own_donor_at_scale_one_is_sft_bit_for_bit(world: World) -> None:
    sft = {name: tensor.to(torch.bfloat16) for name, tensor in world.tensors["trained_post"].items()}
    grafted = world["post"] + 1.0 * (world["trained_post"] - world["post"]).protect(world["fisher"], 0.0)
    assert_bitwise_equal(world.work_out(grafted), sft)


def test_merging_is_wise_ft_bit_for_bit(world: World) -> None:
    merged = world["post"] + 0.3 * (world["trained_post"] - world["post"])
    wise_ft = 0.7 * world["post"] + 0.3 * world["trained_post"]
    assert_bitwise_equal(world.work_out(merged), world.work_out(wise_ft))


@settings(max_examples=25, deadline=None)
@given(scale=st.floats(-2, 2), rho=st.floats(0.001, 0.999), seed=st.integers(0, 1000))
def test_grafting_equals_a_dense_float64_reference_rounded_once(
    tmp_path_factory: pytest.TempPathFactory, scale: float, rho: float, seed: int
) -> None:
    torch.manual_seed(seed)
    world = World(tmp_path_factory.mktemp("world"), seed)
    got = world.work_out(world["post"] + scale * (world["trained"] - world["donor"]).protect(world["fisher"], rho))

    flat = {n: np.concatenate([t.double().numpy().ravel() for t in world.tensors[n].values()]) for n in world.tensors}
    order = np.lexsort((np.arange(NUM_COORDINATES), -flat["fisher"]))
    keep = np.ones(NUM_COORDINATES)
    keep[order[: round(rho * NUM_COORDINATES)]] = 0
    exact = flat["post"] + scale * keep * (flat["trained"] - flat["donor"])
    result = np.concatenate([got[name].double().numpy().ravel() for name in SHAPES])
    # One rounding to bfloat16 (half a unit in the last of 8 bits) and float32 arithmetic before it.
    np.testing.assert_array_less(np.abs(result - exact), 2.0**-8 * np.abs(exact) * 1.001 + 1e-6)
    masked = keep == 0
    np.testing.assert_array_equal(result[masked], flat["post"][masked])


@pytest.mark.parametrize("rule", ["fisher", "magnitude", "delta", "random"])
def test_every_rule_protects_exactly_the_stated_number_of_coordinates(world: World, rule: str) -> None:
    delta = world["trained"] - world["donor"]
    scores = {"fisher": world["fisher"], "magnitude": world["post"]}.get(rule)
    with WeightArithmetic(world["post"]) as arithmetic:
        values = [
            arithmetic._value(delta.protect(scores, 0.25, rule=rule), name)  # type: ignore[arg-type]
            for name in SHAPES
        ]
    assert sum(int((value == 0).sum()) for value in values) == round(0.25 * NUM_COORDINATES)


def test_random_masks_differ_between_seeds_and_repeat_within_one(world: World) -> None:
    delta = world["trained"] - world["donor"]

    def work_out(seed: int) -> torch.Tensor:
        return world.work_out(world["post"] + delta.protect(None, 0.5, rule="random", seed=seed))["a.weight"]

    assert torch.equal(work_out(0), work_out(0))
    assert not torch.equal(work_out(0), work_out(1))


def test_delta_statistics_equal_dense_sums(world: World) -> None:
    recipe = world["post"] + 0.5 * (world["trained"] - world["donor"])
    tensors = world.work_out(recipe)
    delta = np.concatenate([(tensors[n].double() - world.tensors["post"][n].double()).numpy().ravel() for n in SHAPES])
    post = np.concatenate([world.tensors["post"][n].double().numpy().ravel() for n in SHAPES])
    fisher = np.concatenate([world.tensors["fisher"][n].double().numpy().ravel() for n in SHAPES])
    top = np.lexsort((np.arange(len(fisher)), -fisher))[: round(0.01 * len(fisher))]
    with WeightArithmetic(world["post"]) as arithmetic:
        statistics = arithmetic.delta_statistics(recipe, world["fisher"])
    assert statistics.norm == pytest.approx(np.linalg.norm(delta))
    assert statistics.relative_norm == pytest.approx(np.linalg.norm(delta) / np.linalg.norm(post))
    assert statistics.changed_share == pytest.approx((delta != 0).mean())
    assert statistics.fisher_weighted_top == pytest.approx((fisher * delta**2)[top].sum())


def test_an_update_is_no_model(world: World) -> None:
    with pytest.raises(UserError, match="sum to 0, not to 1"):
        world.work_out(world["trained"] - world["donor"])


def test_other_tensors_and_other_shapes_are_refused_by_name(world: World, tmp_path: Path) -> None:
    extra = checkpoint(tmp_path, "extra", {**world.tensors["post"], "d.weight": torch.zeros(2)})
    with pytest.raises(UserError, match=r"'d\.weight'"):
        world.work_out(0.5 * world["post"] + 0.5 * extra)
    wide = checkpoint(tmp_path, "wide", {**world.tensors["post"], "b.weight": torch.zeros(12)})
    with pytest.raises(UserError, match=r"'b\.weight': \[12\] and \[11\]"):
        world.work_out(0.5 * world["post"] + 0.5 * wide)
