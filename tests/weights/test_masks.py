"""Exact selection of the highest scores, against a full sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clbench.weights.masks import select_highest


def reference(tensors: dict[str, torch.Tensor], rho: float) -> dict[str, np.ndarray]:
    """Sort everything: highest first, then tensor order, then index."""
    flat = np.concatenate([tensor.numpy().ravel() for tensor in tensors.values()])
    chosen = np.lexsort((np.arange(len(flat)), -flat))[: round(rho * len(flat))]
    mask = np.zeros(len(flat), dtype=bool)
    mask[chosen] = True
    parts = np.split(mask, np.cumsum([tensor.numel() for tensor in tensors.values()])[:-1])
    return {name: part.reshape(tensor.shape) for (name, tensor), part in zip(tensors.items(), parts, strict=True)}


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(lambda sizes: sum(sizes) > 0),
    rho=st.floats(0, 1),
    num_levels=st.integers(1, 50),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_mask_is_that_of_a_full_sort_ties_included(
    sizes: list[int], rho: float, num_levels: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    levels = np.abs(rng.standard_normal(num_levels) * 10.0 ** rng.integers(-40, 30, num_levels)).astype(np.float32)
    tensors = {f"t{i}": torch.from_numpy(rng.choice(levels, size)) for i, size in enumerate(sizes)}
    selection = select_highest(lambda: iter(tensors.items()), rho)
    expected = reference(tensors, rho)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(selection.mask(name, tensor).numpy(), expected[name])


def test_negative_zero_is_zero() -> None:
    tensors = {"a": torch.tensor([-0.0, 0.0, 1.0])}
    selection = select_highest(lambda: iter(tensors.items()), 2 / 3)
    assert selection.mask("a", tensors["a"]).tolist() == [True, False, True]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_scores_that_are_no_scores_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="scores of a"):
        select_highest(lambda: iter([("a", torch.tensor([1.0, bad]))]), 0.5)
