"""A lineage: the ordered checkpoints of one model, the last of which is θ_post."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clbench.canonical import file_sha256
from clbench.errors import IntegrityError, UserError, unknown_name
from clbench.lineage.manifest import Manifest, read_manifest
from clbench.weights.recipe import Checkpoint, Recipe


class Lineage:
    """Checkpoints as recipes: `lineage["base"]`, `lineage.post`. Each is checked against its hashes when first used."""

    def __init__(self, manifest: Manifest, root: Path) -> None:
        self.manifest = manifest
        self.name = manifest.name
        self._root = root
        self._checked: dict[str, Checkpoint] = {}

    @classmethod
    def load(cls, name_or_path: str) -> Lineage:
        """A built-in lineage by name, or one from a manifest file. Raises `UserError`."""
        return cls(*read_manifest(name_or_path))

    @property
    def names(self) -> tuple[str, ...]:
        """Checkpoint names in order; the last one is θ_post and answers to `post` too."""
        return tuple(entry.name for entry in self.manifest.checkpoints)

    @property
    def post(self) -> Recipe:
        """θ_post."""
        return self[self.names[-1]]

    @property
    def post_directory(self) -> Path:
        """Where θ_post lies, with its config, tokenizer and template."""
        return self.checkpoint(self.names[-1]).directory

    def __getitem__(self, name: str) -> Recipe:
        return Recipe.of(self.checkpoint(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def checkpoint(self, name: str) -> Checkpoint:
        """A checkpoint by name, its files checked.

        Raises:
            UserError: if the lineage has no such checkpoint, or its directory is missing.
            IntegrityError: if a file is missing or is not the one that the manifest was made for.
        """
        if name == "post":
            name = self.names[-1]
        if name not in self.names:
            raise unknown_name(f"checkpoint of lineage {self.name}", name, self.names)
        if name not in self._checked:
            from clbench.weights.files import weights_sha256

            directory = self.directory(name)
            if not directory.is_dir():
                raise UserError(
                    f"checkpoint {name!r} of lineage {self.name} should lie in {directory}, which is no folder."
                )
            self._verify(directory)
            self._checked[name] = Checkpoint(name, f"lineage:{self.name}/{name}", weights_sha256(directory), directory)
        return self._checked[name]

    def directory(self, name: str) -> Path:
        """Where a checkpoint should lie (not checked)."""
        entry = next(entry for entry in self.manifest.checkpoints if entry.name == name)
        return (self._root / entry.path).resolve()

    def verify(self) -> int:
        """Check every file of every checkpoint; returns how many. Raises as `checkpoint` does."""
        for name in self.names:
            self.checkpoint(name)
        return len(self._hashes) or sum(1 for name in self.names for _ in self.directory(name).iterdir())

    @property
    def build_facts(self) -> dict[str, Any]:
        """What the builder of the lineage wrote down beside the hashes; empty if there is no hash file."""
        if self.manifest.hashes is None:
            return {}
        path = self._root / self.manifest.hashes
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            files = {str(name): str(entry["sha256"]) for name, entry in facts["files"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise IntegrityError(f"{path}, the hash file of lineage {self.name}, is missing or damaged.") from None
        return {**facts, "files": files}

    @property
    def _hashes(self) -> dict[Path, str]:
        if self.manifest.hashes is None:
            return {}
        root = (self._root / self.manifest.hashes).resolve().parent
        return {root / name: sha256 for name, sha256 in self.build_facts["files"].items()}

    def _verify(self, directory: Path) -> None:
        hashes = {path: sha256 for path, sha256 in self._hashes.items() if directory in path.parents}
        if self.manifest.hashes is not None and not hashes:
            raise IntegrityError(f"the hash file of lineage {self.name} says nothing about {directory.name}.")
        way_out = f"Reinstall clbench, or rebuild the lineage with `clbench lineage build {self.name}`."
        for path, sha256 in hashes.items():
            if not path.is_file():
                raise IntegrityError(f"{path} of lineage {self.name} is missing. {way_out}")
            if file_sha256(path) != sha256:
                raise IntegrityError(f"{path} of lineage {self.name} is not the file its manifest names. {way_out}")
