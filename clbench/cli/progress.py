"""Progress on the terminal: bars where there is one, lines where there is not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from clbench.progress import Advance


class TerminalProgress:
    """Writes to stderr, so that stdout holds the result alone."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextlib.contextmanager
    def track(self, description: str, total: int) -> Iterator[Advance]:
        """A bar for as long as the context lasts, then one line with the seconds it took."""
        start = time.perf_counter()
        if self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            with Progress(*columns, console=self.console, transient=True) as bars:
                bar = bars.add_task(description, total=total)
                yield lambda units: bars.advance(bar, units)
        else:
            yield lambda units: None
        line = f"{description}: {time.perf_counter() - start:.1f} s"
        self.console.print(line, style="dim", highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, highlight=False, soft_wrap=True)
