"""Finding the share of coordinates with the highest scores, exactly and with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

ScoreStream = Callable[[], Iterator[tuple[str, Tensor]]]
"""Called for each pass; yields (name, non-negative finite float32 scores) in one fixed order."""

_BINS = 1 << 16


@dataclass(frozen=True)
class Selection:
    """The `num_selected` highest of all scores: those above a threshold, and the first few of those equal to it."""

    num_total: int
    num_selected: int
    threshold: float
    ties: dict[str, int] = field(default_factory=dict)
    """How many of the coordinates equal to the threshold are selected, lowest index first, by tensor."""

    def mask(self, name: str, scores: Tensor) -> Tensor:
        """Boolean mask of the selected coordinates, in the shape of `scores`."""
        if self.num_selected == 0:
            return torch.zeros_like(scores, dtype=torch.bool)
        mask = scores > self.threshold
        num_ties = self.ties.get(name, 0)
        if num_ties:
            equal = (scores == self.threshold).flatten().nonzero().flatten()[:num_ties]
            mask.view(-1)[equal] = True
        return mask


def select_highest(scores: ScoreStream, rho: float) -> Selection:
    """Select exactly round(ρ · N) of the N coordinates.

    Non-negative float32 numbers order like their bit patterns read as integers. One pass counts the upper 16 bits, a
    second the lower 16 bits inside the bin in which the threshold lies, a third the ties, tensor by tensor: memory is
    one tensor and two tables of 65,536 counts, whatever the model's size.

    Raises:
        ValueError: for scores that are negative or not finite.
    """
    counts = np.zeros(_BINS, dtype=np.int64)
    for name, tensor in scores():
        bits = _bits(name, tensor)
        counts += np.bincount(bits >> 16, minlength=_BINS)
    num_total = int(counts.sum())
    num_selected = round(rho * num_total)
    if num_selected == 0:
        return Selection(num_total, 0, 0.0)
    upper, above = _bin_of(counts, num_selected)

    counts = np.zeros(_BINS, dtype=np.int64)
    for name, tensor in scores():
        bits = _bits(name, tensor)
        counts += np.bincount(bits[bits >> 16 == upper] & 0xFFFF, minlength=_BINS)
    lower, above_inside = _bin_of(counts, num_selected - above)
    threshold = float(np.array([upper << 16 | lower], dtype=np.uint32).view(np.float32)[0])

    num_ties = num_selected - above - above_inside
    ties: dict[str, int] = {}
    for name, tensor in scores():
        if num_ties == 0:
            break
        taken = min(num_ties, int((tensor == threshold).sum()))
        if taken:
            ties[name] = taken
            num_ties -= taken
    return Selection(num_total, num_selected, threshold, ties)


def _bits(name: str, tensor: Tensor) -> np.ndarray:
    values = tensor.detach().to(torch.float32).contiguous().view(-1)
    if not bool(torch.isfinite(values).all()) or bool((values < 0).any()):
        raise ValueError(f"scores of {name} are negative or not finite")
    # Adding zero turns -0.0 into 0.0, whose bit pattern is the smallest.
    return (values + 0.0).numpy().view(np.uint32).astype(np.int64)


def _bin_of(counts: np.ndarray, num_wanted: int) -> tuple[int, int]:
    """The bin that holds the `num_wanted`-th highest element, and how many elements lie in higher bins."""
    from_top = np.cumsum(counts[::-1])
    position = int(np.searchsorted(from_top, num_wanted))
    above = int(from_top[position - 1]) if position else 0
    return len(counts) - 1 - position, above
