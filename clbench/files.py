"""Writing files and folders so that nothing half-written is ever read as whole."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from clbench.errors import RunError


@contextlib.contextmanager
def explained_os_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a read-only place into one sentence that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = _free_bytes(path)
            raise RunError(
                f"the disk is full ({free / 1e6:.0f} MB free) while writing {path}. Finished stages are kept; free "
                "some space, or move the store with --store DIR or CLBENCH_STORE, and repeat the command to go on."
            ) from error
        if error.errno in _NO_PLACE and _concerns(error, path):
            raise RunError(
                f"{path} cannot be written ({error.strerror}). Choose another place with --store or --out."
            ) from error
        raise


_NO_PLACE = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.ENOENT)


def _concerns(error: OSError, path: Path) -> bool:
    """Whether the file that the system complained of is `path`, or lies in it, or is a folder on the way to it."""
    if not isinstance(error.filename, str):
        return False
    named = Path(error.filename)
    return named == path or path in named.parents or named in path.parents


def _free_bytes(path: Path) -> int:
    for place in (path, *path.parents):
        if place.exists():
            return shutil.disk_usage(place).free
    return 0


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, then rename it into place."""
    with explained_os_errors(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
