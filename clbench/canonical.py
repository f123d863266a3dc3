"""Canonical JSON and the hashes made from it: the identity of every stage, dataset and benchmark."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import rfc8785


def canonical_json(value: Any) -> bytes:
    """`value` as the one JSON text that RFC 8785 gives it.

    Raises:
        ValueError: for what JSON cannot hold exactly: NaN, infinities, integers beyond 2**53, other types.
    """
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"not representable as canonical JSON: {error}") from error


def digest(value: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
