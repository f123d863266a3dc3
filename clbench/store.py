"""The store: expensive results, kept by the content of what they were asked for.

A stage is a pure function of a *spec* (JSON). Its key is the SHA-256 of the spec's canonical form, its result a folder
at that key. The folder is written aside and renamed into place when whole, so that what lies at a key is always whole;
a killed run leaves only an aside folder, which the next one sweeps away.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from clbench.canonical import canonical_json, digest, file_sha256
from clbench.errors import IntegrityError, RunError
from clbench.files import explained_os_errors

SPEC_NAME = "stage.json"
DONE_NAME = "done.json"


def default_store() -> Path:
    """`$CLBENCH_STORE`, else `$XDG_CACHE_HOME/clbench`, else `~/.cache/clbench`."""
    if chosen := os.environ.get("CLBENCH_STORE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clbench"


class Store:
    """A folder of stage results. Any number of processes on one machine may use it at once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._checked: set[str] = set()

    def path(self, key: str) -> Path:
        """Where the result of a stage lies, or will lie."""
        return self.root / "stages" / key[:2] / key

    def has(self, key: str) -> bool:
        """Whether the stage's result is there, whole."""
        return (self.path(key) / DONE_NAME).is_file()

    def find(self, spec: dict[str, Any]) -> tuple[str, bool]:
        """A spec's key, and whether its result is there."""
        key = digest(spec)
        return key, self.has(key)

    def make(
        self,
        spec: dict[str, Any],
        work: Callable[[Path], dict[str, Any]],
        *,
        on_wait: Callable[[str], None] | None = None,
    ) -> Stage:
        """The result of a stage, worked out by `work(folder)` if it is not there yet.

        `work` writes files into the folder it is handed and returns small JSON facts (cost, counts). If another process
        is at the same stage, this one waits for it (after telling `on_wait`) and uses its result.

        Raises:
            RunError: for a full disk or a store that cannot be written.
            IntegrityError: if a result is there and its files are not those that were written.
        """
        key = digest(spec)
        if self.has(key):
            return self.open(key)
        with self._locked(key, on_wait):
            if self.has(key):
                return self.open(key)
            return self._work_out(key, spec, work)

    def open(self, key: str) -> Stage:
        """A finished stage, its files checked against the hashes taken when it was written (once a process).

        Raises:
            IntegrityError: naming the first file that is missing or has another content.
        """
        folder = self.path(key)
        try:
            done = json.loads((folder / DONE_NAME).read_text(encoding="utf-8"))
            files = {str(name): str(sha256) for name, sha256 in done["files"].items()}
            stage = Stage(key=key, folder=folder, facts=done["facts"], seconds=float(done["seconds"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise self._damaged(folder, f"its {DONE_NAME} cannot be read") from None
        if key not in self._checked:
            for name, sha256 in files.items():
                path = folder / name
                if not path.is_file():
                    raise self._damaged(folder, f"{name} is missing")
                if file_sha256(path) != sha256:
                    raise self._damaged(folder, f"{name} has not the content that was written")
            self._checked.add(key)
        return stage

    def _damaged(self, folder: Path, why: str) -> IntegrityError:
        return IntegrityError(
            f"the stored stage {folder} is damaged: {why}. Delete this folder and repeat the command."
        )

    def _work_out(self, key: str, spec: dict[str, Any], work: Callable[[Path], dict[str, Any]]) -> Stage:
        target = self.path(key)
        aside = target.parent / f".{key}.part"
        with explained_os_errors(target):
            # The lock is ours: whatever lies here was left by a process that is gone.
            shutil.rmtree(aside, ignore_errors=True)
            shutil.rmtree(target, ignore_errors=True)
            aside.mkdir(parents=True)
            try:
                start = time.perf_counter()
                facts = work(aside)
                seconds = time.perf_counter() - start
                (aside / SPEC_NAME).write_bytes(canonical_json(spec))
                files = {
                    path.relative_to(aside).as_posix(): file_sha256(path)
                    for path in sorted(aside.rglob("*"))
                    if path.is_file()
                }
                done = {"facts": facts, "seconds": seconds, "files": files}
                (aside / DONE_NAME).write_text(json.dumps(done, indent=1, sort_keys=True, allow_nan=False))
                _sync(aside)
                aside.rename(target)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
        self._checked.add(key)
        return Stage(key=key, folder=target, facts=facts, seconds=seconds)

    @contextlib.contextmanager
    def _locked(self, key: str, on_wait: Callable[[str], None] | None) -> Iterator[None]:
        # An advisory lock of the kernel's: it goes with its owner, however that dies.
        folder = self.root / "locks"
        with explained_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / f"{key}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if on_wait is not None:
                    on_wait(f"another process is working out stage {key[:12]}; waiting for it")
                lock.acquire()
            except NotImplementedError as error:
                raise RunError(
                    f"{folder} lies on a file system without locks; choose another place with --store or CLBENCH_STORE."
                ) from error
        try:
            yield
        finally:
            lock.release()


class Stage:
    """A finished stage: its folder, the facts that its work returned, and the seconds it took when it was worked
    out."""

    def __init__(self, *, key: str, folder: Path, facts: dict[str, Any], seconds: float) -> None:
        self.key = key
        self.folder = folder
        self.facts = facts
        self.seconds = seconds


def _sync(folder: Path) -> None:
    """Flush files and folder to disk, so that the rename cannot outlive the content in a power cut."""
    for path in [*folder.rglob("*"), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
