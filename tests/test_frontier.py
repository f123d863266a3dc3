"""Frontiers and hypervolumes against their definitions and against moocore."""

from __future__ import annotations

from itertools import pairwise

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clbench.frontier import dominates, frontier_mask, hypervolume

# Few levels, so that ties and duplicates are common.
coordinates = st.one_of(st.integers(0, 4).map(lambda i: i / 4), st.floats(0, 1))
point_lists = st.lists(st.tuples(coordinates, coordinates), max_size=30)


def is_dominated(point: tuple[float, float], by: tuple[float, float]) -> bool:
    """The definition, apart from the code under test."""
    return by[0] >= point[0] and by[1] >= point[1] and by != point


def area_by_cells(points: list[tuple[float, float]], reference: tuple[float, float]) -> float:
    """Adds up the cells of the grid through all coordinates that some point covers."""
    edges = [sorted({p[axis] for p in [*points, reference] if p[axis] >= reference[axis]}) for axis in (0, 1)]
    return sum(
        (right - left) * (top - bottom)
        for left, right in pairwise(edges[0])
        for bottom, top in pairwise(edges[1])
        if any(x >= right and y >= top for x, y in points)
    )


@given(st.tuples(coordinates, coordinates), st.tuples(coordinates, coordinates))
def test_one_point_dominates_another_by_the_definition(one: tuple[float, float], other: tuple[float, float]) -> None:
    assert dominates(one, other) == is_dominated(other, by=one)
    assert not dominates(one, one)


@given(point_lists)
def test_the_frontier_is_what_no_other_point_dominates(points: list[tuple[float, float]]) -> None:
    expected = [not any(is_dominated(point, by=other) for other in points) for point in points]
    assert frontier_mask(points).tolist() == expected


@given(point_lists, coordinates, coordinates)
def test_the_hypervolume_is_the_area_that_points_cover(points: list[tuple[float, float]], x: float, y: float) -> None:
    assert hypervolume(points, (x, y)) == pytest.approx(area_by_cells(points, (x, y)), abs=1e-12)


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
    with pytest.raises(ValueError, match="not finite"):
        dominates((1.0, 1.0), (bad, 0.0))


def test_points_with_other_than_two_coordinates_are_refused() -> None:
    with pytest.raises(ValueError, match="two coordinates"):
        frontier_mask([[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="two coordinates"):
        frontier_mask(np.empty((0, 3)))
    with pytest.raises(ValueError, match="two coordinates"):
        dominates((1.0, 2.0, 3.0), (0.0, 0.0, 0.0))
