"""Lineages: what is checked when a checkpoint is used, and what a manifest may say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from clbench import Lineage, UserError
from clbench.canonical import file_sha256
from clbench.errors import IntegrityError
from clbench.lineage.manifest import read_manifest, write_manifest


@pytest.fixture
def hashed(toy_manifest: Path, tmp_path: Path) -> Path:
    """A copy of the toy lineage with a hash file."""
    root = tmp_path / "toy"
    shutil.copytree(toy_manifest.parent, root)
    files = {
        str(path.relative_to(root)): {"sha256": file_sha256(path), "size": path.stat().st_size}
        for path in root.rglob("*")
        if path.is_file() and path.parent != root
    }
    (root / "hashes.json").write_text(json.dumps({"files": files}))
    manifest = root / "toy.yaml"
    values = yaml.safe_load(manifest.read_text())
    manifest.write_text(yaml.safe_dump({**values, "hashes": "hashes.json"}))
    return manifest


def swap(root: Path) -> None:
    one, other = root / "post" / "model.safetensors", root / "base" / "model.safetensors"
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def flip_a_bit(root: Path) -> None:
    path = root / "post" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def remove_the_template(root: Path) -> None:
    (root / "post" / "chat_template.jinja").unlink()


def change_the_tokenizer(root: Path) -> None:
    path = root / "post" / "tokenizer.json"
    path.write_text(path.read_text().replace("<|user|>", "<|uzer|>"))


@pytest.mark.parametrize("damage", [swap, flip_a_bit, remove_the_template, change_the_tokenizer])
def test_a_file_that_is_not_the_one_in_the_hash_file_is_found(hashed: Path, damage: Callable[[Path], None]) -> None:
    Lineage.load(str(hashed)).verify()
    damage(hashed.parent)
    with pytest.raises(IntegrityError, match=r"post/.* of lineage toy is (missing|not the file its manifest names)"):
        Lineage.load(str(hashed)).checkpoint("post")


def test_a_damaged_checkpoint_breaks_only_its_own_use(hashed: Path) -> None:
    flip_a_bit(hashed.parent)
    assert Lineage.load(str(hashed))["base"].single is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 3}'])
def test_a_damaged_hash_file_is_found(hashed: Path, text: str) -> None:
    (hashed.parent / "hashes.json").write_text(text)
    with pytest.raises(IntegrityError, match=r"hashes\.json"):
        Lineage.load(str(hashed)).checkpoint("post")


def test_a_checkpoint_that_the_hash_file_does_not_name_is_refused(hashed: Path) -> None:
    (hashed.parent / "hashes.json").write_text('{"files": {}}')
    with pytest.raises(IntegrityError, match="says nothing about post"):
        Lineage.load(str(hashed)).checkpoint("post")


def test_the_last_checkpoint_is_post_by_its_own_name_too(toy_manifest: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(toy_manifest.read_text())
    values["checkpoints"][-1] = {"name": "think", "stage": "rl", "path": str(toy_manifest.parent / "post")}
    (tmp_path / "renamed.yaml").write_text(yaml.safe_dump(values))
    lineage = Lineage.load(str(tmp_path / "renamed.yaml"))
    assert lineage.post == lineage["think"] == lineage["post"]


def test_identity_is_content_not_place(toy_manifest: Path, tmp_path: Path) -> None:
    shutil.copytree(toy_manifest.parent, tmp_path / "elsewhere")
    one, other = Lineage.load(str(toy_manifest)), Lineage.load(str(tmp_path / "elsewhere" / "toy.yaml"))
    assert one.post == other.post
    assert one.post != one["base"]


def test_a_written_manifest_reads_as_the_built_in_one_with_the_checkpoints_beside_it(tmp_path: Path) -> None:
    manifest, _ = read_manifest("micro")
    again, root = read_manifest(str(write_manifest(manifest, tmp_path)))
    assert root == tmp_path
    assert (
        [c.name for c in again.checkpoints]
        == [c.path for c in again.checkpoints]
        == [c.name for c in manifest.checkpoints]
    )
    assert again.training == manifest.training


@pytest.mark.parametrize("names", [["a", "a"], ["post", "b"]])
def test_checkpoint_names_must_differ_and_only_the_last_may_be_post(tmp_path: Path, names: list[str]) -> None:
    checkpoints = [{"name": name, "stage": "base", "path": "x"} for name in names]
    values = {
        "name": "l",
        "description": "d",
        "dtype": "float32",
        "training": {"learning_rate": 1, "num_steps": 1, "batch_size": 1},
        "checkpoints": checkpoints,
    }
    (tmp_path / "l.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(UserError, match="must differ"):
        Lineage.load(str(tmp_path / "l.yaml"))
