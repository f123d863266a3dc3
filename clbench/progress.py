"""How long work tells that it goes on, without knowing who listens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Receives the progress of everything that may take more than two seconds."""

    def track(self, description: str, total: int) -> AbstractContextManager[Advance]:
        """A bar of `total` units, for as long as the context lasts; call its value with each number of units done."""
        ...

    def say(self, text: str) -> None:
        """One line that a person should see."""
        ...


class Silent:
    """Nobody listens."""

    @contextlib.contextmanager
    def track(self, description: str, total: int) -> Iterator[Advance]:
        """A bar that is not shown."""
        yield lambda units: None

    def say(self, text: str) -> None:
        """Nothing."""
