"""Frontiers and hypervolumes against their definitions and against moocore."""

from __future__ import annotations

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbench.frontier import frontier_mask, hypervolume

# Few levels, so that ties and duplicates are common.
coordinates = st.one_of(st.integers(0, 4).map(lambda i: i / 4), st.floats(0, 1))
point_lists = st.lists(st.tuples(coordinates, coordinates), max_size=30)


def dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] >= b[0] and a[1] >= b[1] and a != b


@given(point_lists)
def test_the_frontier_is_what_no_other_point_dominates(points: list[tuple[float, float]]) -> None:
    expected = [not any(dominates(other, point) for other in points) for point in points]
    assert frontier_mask(points).tolist() == expected


@given(point_lists.filter(bool))
def test_the_frontier_is_moocores(points: list[tuple[float, float]]) -> None:
    expected = moocore.is_nondominated(np.array(points), maximise=True, keep_weakly=True)
    assert frontier_mask(points).tolist() == expected.tolist()


@given(point_lists.filter(bool), coordinates, coordinates)
def test_the_hypervolume_is_moocores(points: list[tuple[float, float]], x: float, y: float) -> None:
    expected = moocore.hypervolume(np.array(points), ref=np.array([x, y]), maximise=True)
    assert hypervolume(points, (x, y)) == pytest.approx(expected, abs=1e-12)


def test_an_area_is_counted_once() -> None:
    assert hypervolume([(0.5, 1.0), (1.0, 0.5), (0.5, 0.5)], (0.0, 0.0)) == pytest.approx(0.75)
    assert hypervolume([(0.5, 1.0)], (0.5, 0.0)) == 0.0
    assert hypervolume([], (0.0, 0.0)) == 0.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_coordinates_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        frontier_mask([(0.0, 1.0), (bad, 0.5)])
    with pytest.raises(ValueError, match="not finite"):
        hypervolume([(1.0, 1.0)], (bad, 0.0))


def test_points_with_other_than_two_coordinates_are_refused() -> None:
    with pytest.raises(ValueError, match="two coordinates"):
        frontier_mask([[1.0, 2.0, 3.0]])
