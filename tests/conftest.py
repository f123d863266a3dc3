"""Shared fixtures: a toy lineage that is made in a second, and a store for each test."""

from __future__ import annotations

import os

# Idle OpenMP threads that spin make torch collapse beside other load; read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from pathlib import Path

import pytest

from clbench.lineage import Lineage
from clbench.store import Store
from tests.toys import write_toy_lineage


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(scope="session")
def toy_manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lineage of three random checkpoints (early, base, post) near each other."""
    return write_toy_lineage(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def toy_lineage(toy_manifest: Path) -> Lineage:
    return Lineage.load(str(toy_manifest))
