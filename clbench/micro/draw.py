"""Random choices from one named stream, and the hash that puts items into splits."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from clbench.micro.question import Split

T = TypeVar("T")


class Draw:
    """Draws from a stream that is named by a seed and a purpose; equal names give equal draws."""

    def __init__(self, seed: int, *purpose: str | int) -> None:
        words = [zlib.crc32(str(word).encode()) for word in purpose]
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *words])))
        self._uniform: list[float] = []

    def random(self) -> float:
        """Uniform in [0, 1)."""
        if not self._uniform:  # one call of numpy for many numbers: a call costs as much as 50 numbers
            self._uniform = self._generator.random(4096).tolist()
        return self._uniform.pop()

    def below(self, bound: int) -> int:
        """Uniform in 0 … bound − 1."""
        return int(self.random() * bound)

    def one(self, options: Sequence[T]) -> T:
        """One of the options, each as likely."""
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """One of the options, by their weights (which sum to 1)."""
        left = self.random()
        for option, weight in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][0]

    def some(self, options: Sequence[T], num: int) -> list[T]:
        """`num` different options in random order."""
        pool = list(options)
        for position in range(num):
            other = position + self.below(len(pool) - position)
            pool[position], pool[other] = pool[other], pool[position]
        return pool[:num]


def split_of(*parts: str | int) -> Split:
    """The split of an item, by a hash of what identifies it: 3/4 train, 1/12 validation, 1/6 test."""
    bucket = zlib.crc32("\x1f".join(map(str, parts)).encode()) % 12
    return "test" if bucket < 2 else "validation" if bucket == 2 else "train"
