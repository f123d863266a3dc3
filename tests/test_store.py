"""Stages: whole or absent, worked out once, checked when read."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clbench.errors import IntegrityError, RunError
from clbench.store import DONE_NAME, Store

SPEC = {"stage": "test", "version": 1}


def write_content(folder: Path) -> dict[str, Any]:
    (folder / "sub").mkdir()
    (folder / "sub" / "content.txt").write_text("content")
    return {"answer": 42}


def test_a_stage_is_worked_out_once(store: Store) -> None:
    calls = []

    def work(folder: Path) -> dict[str, Any]:
        calls.append(folder)
        return write_content(folder)

    first, second = store.make(SPEC, work), store.make(SPEC, work)
    assert len(calls) == 1
    assert first.key == second.key
    assert second.facts == {"answer": 42}
    assert (second.folder / "sub" / "content.txt").read_text() == "content"


def test_specs_that_differ_in_anything_have_different_keys(store: Store) -> None:
    keys = {store.find(spec)[0] for spec in (SPEC, {**SPEC, "version": 2}, {**SPEC, "x": None}, {**SPEC, "x": [1.5]})}
    assert len(keys) == 4


def test_the_order_of_a_specs_keys_does_not_matter(store: Store) -> None:
    assert store.find({"a": 1, "b": 2.0}) == store.find({"b": 2.0, "a": 1})


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, RunError])
def test_work_that_fails_leaves_nothing_and_can_be_repeated(store: Store, error: type[BaseException]) -> None:
    def fail(folder: Path) -> dict[str, Any]:
        write_content(folder)
        raise error("stop")

    with pytest.raises(error):
        store.make(SPEC, fail)
    key, there = store.find(SPEC)
    assert not there
    assert list(store.path(key).parent.iterdir()) == []
    assert store.make(SPEC, write_content).facts == {"answer": 42}


def damage_content(folder: Path) -> None:
    (folder / "sub" / "content.txt").write_text("c0ntent")


def remove_content(folder: Path) -> None:
    (folder / "sub" / "content.txt").unlink()


def damage_facts(folder: Path) -> None:
    (folder / DONE_NAME).write_text("{")


@pytest.mark.parametrize("damage", [damage_content, remove_content, damage_facts])
def test_a_damaged_stage_is_not_read(store: Store, damage: Any) -> None:
    stage = store.make(SPEC, write_content)
    damage(stage.folder)
    with pytest.raises(IntegrityError, match=r"is damaged.*Delete this folder"):
        Store(store.root).make(SPEC, write_content)


def append_line(root: Path, log: Path) -> None:
    def work(folder: Path) -> dict[str, Any]:
        with log.open("a") as file:
            file.write("worked\n")
        time.sleep(0.3)
        return {}

    Store(root).make(SPEC, work)


def test_processes_that_want_one_stage_at_once_work_it_out_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_line, args=(tmp_path / "store", log)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert log.read_text() == "worked\n"


SLOW_STAGE = """
import sys, time
from pathlib import Path
from clbench.store import Store

def work(folder):
    (folder / "half").write_text("written")
    print("working", flush=True)
    time.sleep(60)
    return {}

Store(Path(sys.argv[1])).make({"stage": "test", "version": 1}, work)
"""


def test_a_killed_process_leaves_no_stage_and_no_lock(store: Store) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLOW_STAGE, str(store.root)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"working\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    key, there = store.find(SPEC)
    assert not there
    stage = store.make(SPEC, write_content)
    assert not (stage.folder / "half").exists()
    assert [path.name for path in store.path(key).parent.iterdir()] == [key]


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises((RunError, NotADirectoryError)) as caught:
        Store(blocked / "store").make(SPEC, write_content)
    assert isinstance(caught.value, RunError)
    assert "--store" in str(caught.value)


def test_a_full_disk_says_what_to_free_and_keeps_what_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = store.make({"stage": "kept"}, write_content)

    def full(folder: Path) -> dict[str, Any]:
        write_content(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match=r"disk is full.*free some space"):
        store.make(SPEC, full)
    assert store.open(kept.key).facts == {"answer": 42}
    assert store.make(SPEC, write_content).facts == {"answer": 42}


def test_facts_that_are_not_json_are_refused_before_the_stage_counts(store: Store) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        store.make(SPEC, lambda folder: {"loss": float("nan")})
    assert not store.find(SPEC)[1]


def test_the_spec_lies_beside_the_result(store: Store) -> None:
    stage = store.make(SPEC, write_content)
    assert json.loads((stage.folder / "stage.json").read_text()) == SPEC


def test_an_error_about_another_file_is_not_blamed_on_the_store(store: Store) -> None:
    def reads_a_missing_file(folder: Path) -> dict[str, Any]:
        (folder.parents[5] / "users-data.jsonl").read_text()
        return {}

    with pytest.raises(FileNotFoundError, match="users-data"):
        store.make(SPEC, reads_a_missing_file)


def test_a_disk_that_fills_up_while_weights_are_written_is_explained(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from safetensors import SafetensorError

    from clbench.weights import files

    def full(*args: object, **kwargs: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(RunError, match="disk is full"):
        store.make(SPEC, lambda folder: files.write_weights(folder, {"a": torch.zeros(2)}) or {})  # type: ignore[func-returns-value]
