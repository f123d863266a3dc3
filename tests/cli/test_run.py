"""Whole commands on the toy lineage: what they print, write, repeat and survive."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from clbench.records import Record, read_record
from tests.cli.conftest import TOYS, Call

CLI = [sys.executable, "-c", "from clbench.cli.main import main; main()"]


def toy_words(manifest: Path) -> list[str]:
    words = ["run", "--method", "toy-merge", "--task", "toy", "--lineage", str(manifest), "--plugin", str(TOYS)]
    return words


def the_record(runs: Path) -> Record:
    (folder,) = runs.iterdir()
    return read_record(folder)


def test_a_run_folder_holds_record_table_and_figures(call: Call, toy_manifest: Path, tmp_path: Path) -> None:
    outcome = call(*toy_words(toy_manifest))
    assert outcome.code == 0, outcome.err
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-toy-merge-toy-0")
    for name in ("record.json", "items.jsonl.gz", "points.csv", "frontier.png", "frontier.html"):
        assert (folder / name).stat().st_size > 0
    assert "0.5" in outcome.out


def test_json_is_the_only_thing_on_stdout(call: Call, toy_manifest: Path) -> None:
    outcome = call(*toy_words(toy_manifest), "--json", "--seeds", "0,1")
    first, second = json.loads(outcome.out)
    assert first["folder"] != second["folder"]


def test_a_repeated_run_writes_to_the_same_folder_and_another_sweep_to_a_new_one(
    call: Call, toy_manifest: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        assert call(*toy_words(toy_manifest)).code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert call(*toy_words(toy_manifest), "-p", "scale=0.1").code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_config_file_says_what_options_say(call: Call, toy_manifest: Path, tmp_path: Path) -> None:
    config = {
        "method": "toy-merge",
        "task": "toy",
        "lineage": str(toy_manifest),
        "seeds": [3],
        "params": {"scale": [0.25], "training": {"num_steps": 2, "learning_rate": 0.1}},
        "task_params": {"num_examples": 5},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    outcome = call("run", "--config", tmp_path / "run.yaml", "--plugin", TOYS, "-p", "training.num_steps=3")
    assert outcome.code == 0, outcome.err
    record = the_record(tmp_path / "runs")
    assert record.seed == 3
    assert [point.knobs for point in record.points] == [{"scale": 0.25}]
    assert record.points[0].cost.train_steps == 3, "an option goes over the file"
    assert record.method.config["training"]["learning_rate"] == 0.1, "and leaves the rest of it"
    assert record.data.num_examples == 5


def test_the_command_in_the_record_gives_the_record_again(call: Call, toy_manifest: Path, tmp_path: Path) -> None:
    assert (
        call(*toy_words(toy_manifest), "-p", "scale=0.25,0.75", "-p", "training.num_steps=2", "--seeds", "4").code == 0
    )
    record = the_record(tmp_path / "runs")
    import shlex

    words = shlex.split(record.provenance.command)[1:]
    words[words.index("--lineage") + 1] = str(toy_manifest)
    words[words.index("--plugin") + 1] = str(TOYS)
    assert call(*words, "--out", tmp_path / "again", "--store", tmp_path / "other-store").code == 0
    assert the_record(tmp_path / "again").fingerprint() == record.fingerprint()


def test_show_and_compare_read_what_run_wrote(call: Call, toy_manifest: Path, tmp_path: Path) -> None:
    assert call(*toy_words(toy_manifest), "--seeds", "0,1").code == 0
    folders = sorted((tmp_path / "runs").iterdir())
    assert "toy-merge" in call("show", folders[0]).out
    assert len(json.loads(call("show", folders[0], "--json").out)["points"]) == 2
    outcome = call("compare", *folders, "--out", tmp_path / "comparison")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "comparison" / "frontier.png").stat().st_size > 0


def test_show_prints_a_plugins_knobs(call: Call) -> None:
    out = call("show", "graft").out
    assert "2610.05872" in out
    assert "scale = 0.2,0.4,0.6,0.8,1.0" in out
    assert "training.learning_rate = " in out


def run_process(words: list[str], cwd: Path, store: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "CLBENCH_STORE": str(store), "PYTHONPATH": str(TOYS.parents[1])}
    return subprocess.Popen([*CLI, *words], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_run_stopped_at_random_moments_gives_the_same_record(
    call: Call, toy_manifest: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    words = [*toy_words(toy_manifest), "-p", "scale=0.2,0.4,0.6,0.8", "-p", "training.num_steps=40"]
    assert call(*words, "--out", tmp_path / "undisturbed", "--store", tmp_path / "undisturbed-store").code == 0
    expected = the_record(tmp_path / "undisturbed")

    rng = random.Random(int(sent))
    start = time.monotonic()
    assert run_process(words, tmp_path, tmp_path / "timing-store").wait() == 0
    duration = time.monotonic() - start
    (tmp_path / "runs").rename(tmp_path / "timing-runs")
    codes = []
    for _ in range(4):
        process = run_process(words, tmp_path, tmp_path / "disturbed-store")
        time.sleep(rng.uniform(0.4, 1.0) * duration)
        process.send_signal(sent)
        _, err = process.communicate()
        codes.append(process.returncode)
        assert b"Traceback" not in err
    assert set(codes) <= {0, -sent, 130}
    process = run_process(words, tmp_path, tmp_path / "disturbed-store")
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert the_record(tmp_path / "runs").fingerprint() == expected.fingerprint()
