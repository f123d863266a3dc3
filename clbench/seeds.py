"""One seed tree: every stream of random numbers is named, and none is global."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, *purpose: str) -> np.random.Generator:
    """The stream of `seed` for a purpose (`"train"`, `"order"`): different purposes are independent."""
    return np.random.Generator(np.random.Philox(_sequence(seed, purpose)))


def integer_seed(seed: int, *purpose: str) -> int:
    """A 32-bit seed of `seed`'s tree for libraries that want a number."""
    return int(_sequence(seed, purpose).generate_state(1)[0])


def _sequence(seed: int, purpose: tuple[str, ...]) -> np.random.SeedSequence:
    words = np.frombuffer(hashlib.sha256("/".join(purpose).encode()).digest()[:16], dtype=np.uint32)
    return np.random.SeedSequence([seed, *words.tolist()])
