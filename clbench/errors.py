"""The two errors that reach a user without a traceback.

`UserError` is for what the caller can put right before anything runs (exit code 2); `RunError` is for a run that was
asked for correctly and failed (exit code 1). A message names the thing, the value, what was expected and the way out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ClbenchError(Exception):
    """Base of all errors that are printed as one sentence instead of a traceback."""

    exit_code = 1


class UserError(ClbenchError):
    """A mistake in what was asked for: an unknown name, a bad value, a missing file."""

    exit_code = 2


class RunError(ClbenchError):
    """A run that was asked for correctly and could not be finished; what it had finished stays in the store."""

    exit_code = 1


class IntegrityError(RunError):
    """A file whose content is not what its manifest or key says."""


def unknown_name(kind: str, name: str, available: Iterable[str]) -> UserError:
    """The error for a name that does not exist: what was meant, perhaps, and what there is."""
    names = sorted(available)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f" — did you mean {close[0]!r}?" if close else "."
    return UserError(f"unknown {kind} {name!r}{hint} Available: {', '.join(names) if names else 'none'}.")
