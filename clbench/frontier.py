"""Pareto frontiers in the plane of acquisition and retention; larger is better on both axes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def dominates(one: ArrayLike, other: ArrayLike) -> bool:
    """Whether one point is at least as good as another on both axes and better on one.

    Raises:
        ValueError: for other than two coordinates each, or one that is not finite.
    """
    better, worse = _checked(np.asarray(one)[None]), _checked(np.asarray(other)[None])
    return bool((better >= worse).all() and (better > worse).any())


def frontier_mask(points: ArrayLike) -> NDArray[np.bool_]:
    """Which of n points, `(n, 2)`, no other point dominates. Equal points do not dominate each other. O(n log n).

    See `dominates`.

    Raises:
        ValueError: for another shape, or a coordinate that is not finite.
    """
    values = _checked(points)
    order = np.lexsort((-values[:, 1], -values[:, 0]))
    x, y = values[order, 0], values[order, 1]
    # Within equal x only the largest y can stay; of points with larger x, all must have smaller y.
    best_of_x = np.maximum.accumulate(np.where(np.r_[True, x[1:] != x[:-1]], np.arange(len(x)), 0))
    best_before = np.r_[-np.inf, np.maximum.accumulate(y)][best_of_x]
    mask = np.empty(len(x), dtype=np.bool_)
    mask[order] = (y == y[best_of_x]) & (y > best_before)
    return mask


def hypervolume(points: ArrayLike, reference: tuple[float, float]) -> float:
    """Area that the points dominate above a reference point. O(n log n).

    A point that is not better than the reference on both axes contributes nothing.

    Raises:
        ValueError: as `frontier_mask` does, also for the reference.
    """
    values = _checked(points)
    _checked([reference])
    inside = values[(values > np.asarray(reference)).all(axis=1)]
    if len(inside) == 0:
        return 0.0
    order = np.argsort(-inside[:, 0], kind="stable")
    x, y = inside[order, 0], inside[order, 1]
    height = np.maximum.accumulate(y) - reference[1]
    width = x - np.r_[x[1:], reference[0]]
    return float((width * height).sum())


def _checked(points: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(points, dtype=np.float64)
    if values.shape == (0,):
        return values.reshape(0, 2)
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(f"points have two coordinates each, got an array of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("a coordinate is not finite")
    return values
