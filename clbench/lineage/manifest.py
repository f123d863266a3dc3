"""A lineage's manifest: one YAML file that names the checkpoints in order and says how the model is talked to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pydantic
import yaml

from clbench.errors import UserError, unknown_name
from clbench.plugin import Config, parse_config
from clbench.training.config import TrainingDefaults

BUILT_IN = Path(__file__).parent / "manifests"


class CheckpointEntry(Config):
    """One checkpoint of a lineage."""

    name: str
    stage: Literal["pretraining", "base", "sft", "dpo", "rl"]
    path: str
    """A directory, relative to the manifest."""


class ThinkingEntry(Config):
    """The marks around thoughts, verbatim (white space included)."""

    open: str
    close: str


class Manifest(Config):
    """A lineage. Its last checkpoint is θ_post."""

    name: str
    description: str
    world: Literal["micro"] | None = None
    """The procedural world that the lineage was trained on, for tasks that add to it."""
    dtype: Literal["float32", "bfloat16", "float16"]
    """The dtype of θ_post's weights: candidates are rounded to it."""
    thinking: ThinkingEntry | None = None
    training: TrainingDefaults
    hashes: str | None = None
    """A JSON file, relative to the manifest, with the SHA-256 of every file: `{"files": {PATH: {"sha256": …}}}`."""
    checkpoints: tuple[CheckpointEntry, ...] = pydantic.Field(min_length=1)

    @pydantic.model_validator(mode="after")
    def _names_differ(self) -> Manifest:
        names = [checkpoint.name for checkpoint in self.checkpoints]
        if len(set(names)) != len(names) or "post" in names[:-1]:
            raise ValueError("checkpoint names must differ, and only the last one may be called 'post'")
        return self


def read_manifest(name_or_path: str) -> tuple[Manifest, Path]:
    """A built-in lineage by name, or one from a YAML file; with the directory that its paths are relative to.

    Raises:
        UserError: for an unknown name, a file that is no YAML, or wrong keys and values.
    """
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise UserError(f"lineage file {path} does not exist.")
    else:
        path = BUILT_IN / f"{name_or_path}.yaml"
        if name_or_path not in built_in_names():
            raise unknown_name("lineage", name_or_path, built_in_names())
    try:
        values: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"lineage file {path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UserError(f"lineage file {path} must hold a mapping with the keys {', '.join(Manifest.model_fields)}.")
    return parse_config(Manifest, values, what=f"lineage {path.name}"), path.parent


def write_manifest(manifest: Manifest, directory: Path) -> Path:
    """Write a lineage's manifest into the directory of its checkpoints and their hash file; returns its path."""
    checkpoints = [{**c.model_dump(), "path": c.name} for c in manifest.checkpoints]
    values = {**manifest.model_dump(mode="json", exclude_none=True), "checkpoints": checkpoints}
    if manifest.hashes is not None:
        values["hashes"] = Path(manifest.hashes).name
    path = directory / f"{manifest.name}.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


def built_in_names() -> list[str]:
    """The lineages that the package brings."""
    return sorted(path.stem for path in BUILT_IN.glob("*.yaml"))
