"""Putting short texts beside points so that none covers another, a marker or a line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

DISTANCES = (8.0, 16.0, 26.0, 38.0)
"""From the point to the text, in points of 1/72 inch; beyond the first, a thin line joins them."""
ANGLES = (45, 225, 0, 180, 315, 135, 90, 270)
"""Where to look for room, in degrees. Frontiers fall to the right: above right and below left come first."""
MARKER_RADIUS, GAP = 5.0, 1.5


def place_labels(
    axes: Axes,
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    colour: str,
    taken: list[NDArray[np.float64]],
) -> None:
    """Write each text near its point where there is room; one that finds none is left out.

    `taken` holds boxes in pixels, `(n, 4)` as left, bottom, right, top; what is placed is added to it. The figure
    must have been laid out.
    """
    to_pixels = axes.figure.dpi / 72
    frame = axes.get_window_extent()
    for (x, y), text in zip(points, texts, strict=True):
        label = axes.annotate(
            text,
            (x, y),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=7,
            parse_math=False,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6, "shrinkA": 0, "shrinkB": 3},
        )
        label.set_in_layout(False)
        size = label.get_window_extent()
        centre = axes.transData.transform((x, y))
        obstacles = np.concatenate(taken)
        for distance, angle in ((d, a) for d in DISTANCES for a in ANGLES):
            cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            corner = centre + np.array([distance * cosine, distance * sine]) * to_pixels
            corner -= np.array([_side(cosine) * size.width, _side(sine) * size.height])
            box = np.array([*corner, corner[0] + size.width, corner[1] + size.height])
            inside = box[0] > frame.x0 and box[1] > frame.y0 and box[2] < frame.x1 and box[3] < frame.y1
            if inside and not _overlaps(box, obstacles).any():
                label.set_position(tuple((corner - centre) / to_pixels))
                if distance == DISTANCES[0] and label.arrow_patch is not None:
                    label.arrow_patch.set_visible(False)
                taken.append(box[None])
                break
        else:
            label.remove()


def boxes_of_points(axes: Axes, points: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    """The boxes that markers at these points take, in pixels."""
    pixels = axes.transData.transform(np.asarray(points, dtype=np.float64).reshape(-1, 2))
    radius = MARKER_RADIUS * axes.figure.dpi / 72
    return np.concatenate([pixels - radius, pixels + radius], axis=1)


def boxes_of_line(axes: Axes, points: Sequence[tuple[float, float]]) -> NDArray[np.float64]:
    """Small boxes along the straight lines that join these points, in pixels."""
    pixels = axes.transData.transform(np.asarray(points, dtype=np.float64).reshape(-1, 2))
    steps = [
        start + (end - start) * np.linspace(0, 1, 2 + int(np.linalg.norm(end - start) / 4))[:, None]
        for start, end in itertools.pairwise(pixels)
    ]
    along = np.concatenate([*steps, np.empty((0, 2))])
    return np.concatenate([along - 1, along + 1], axis=1)


def _side(direction: float) -> float:
    """Which share of the text lies back of its anchor: none to the right and above, all to the left and below."""
    return 0.5 if abs(direction) < 1e-9 else 0.0 if direction > 0 else 1.0


def _overlaps(box: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.bool_]:
    overlap: NDArray[np.bool_] = (
        (others[:, 0] < box[2] + GAP)
        & (others[:, 2] > box[0] - GAP)
        & (others[:, 1] < box[3] + GAP)
        & (others[:, 3] > box[1] - GAP)
    )
    return overlap
