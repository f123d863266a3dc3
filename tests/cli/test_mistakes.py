"""What a user can get wrong: one sentence, the way out, exit code 2, nothing lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import TOYS, Call

RUN = ("run", "--method", "graft", "--task", "knowledge-injection")


def test_unknown_names_say_what_was_meant_and_what_there_is(call: Call) -> None:
    call("run", "--method", "grafft", "--task", "knowledge-injection").assert_mistake(
        "unknown method 'grafft'", "did you mean 'graft'?", "Available: graft, merge, sft"
    )
    call("run", "--method", "graft", "--task", "knowledge").assert_mistake("unknown task", "knowledge-injection")
    call(*RUN, "--lineage", "mikro").assert_mistake("unknown lineage 'mikro'", "did you mean 'micro'?")
    call(*RUN, "--donor", "bass").assert_mistake("'bass'", "did you mean 'base'?", "Available:")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (["skale=1"], ["unknown key 'skale'", "allowed: donor, scale, protect, protect_by, training"]),
        (["scale=inf"], ["scale", "finite"]),
        (["scale=.nan"], ["scale", "finite"]),
        (["scale=big"], ["scale.0 = 'big'"]),
        (["protect=1.5"], ["protect", "between 0 and 1"]),
        (["protect=-0.1"], ["protect", "between 0 and 1"]),
        (["protect_by=luck"], ["protect_by.0 = 'luck'", "'fisher'"]),
        (["training.learning_rate=-1"], ["training.learning_rate = -1", "greater than 0"]),
        (["training.rate=1"], ["unknown key 'training.rate'", "learning_rate"]),
        (["training=3"], ["training = 3"]),
        (["scale"], ["KEY=VALUE", "'scale'"]),
        (["=1"], ["KEY=VALUE"]),
        (["scale=1", "scale=2"], ["'scale' is given twice"]),
        (["training=1", "training.num_steps=2"], ["given as a value too"]),
        (["scale="], ["scale"]),
        (["scale=[]"], ["scale", "at least 1 item"]),
        (["scale={"], ["scale.0 = '{'"]),
    ],
)
def test_a_wrong_knob_is_named_with_what_is_allowed(call: Call, params: list[str], words: list[str]) -> None:
    call(*RUN, *[part for param in params for part in ("-p", param)]).assert_mistake(*words)


@pytest.mark.parametrize("seeds", ["", "a", "0,0", "-1", "1.5", "4294967296", "9" * 30])
def test_seeds_that_are_none_are_refused(call: Call, seeds: str) -> None:
    call(*RUN, f"--seeds={seeds}").assert_mistake("--seeds takes")


def test_a_missing_method_or_task_is_asked_for(call: Call) -> None:
    call("run", "--task", "knowledge-injection").assert_mistake("no method given", "clbench list")
    call("run", "--method", "graft").assert_mistake("no task given", "clbench list")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("method: [", ["is no YAML"]),
        ("- a", ["must hold a mapping"]),
        ("methode: graft", ["unknown key 'methode'", "method, task"]),
        ("seeds: many", ["seeds"]),
        ("seeds: [-1]", ["seeds.0 = -1", "greater than or equal to 0"]),
        ("seeds: []", ["seeds", "at least 1 item"]),
        ("\x00", ["is no YAML"]),
    ],
)
def test_a_config_file_that_cannot_be_used_says_why(call: Call, tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    call("run", "--config", path).assert_mistake(str(path) if "YAML" in words[0] else "", *words)


def test_files_that_are_missing_or_folders_are_refused(call: Call, tmp_path: Path) -> None:
    call("run", "--config", tmp_path / "none.yaml").assert_mistake("does not exist")
    call("run", "--config", tmp_path).assert_mistake("does not exist")
    call(*RUN, "--lineage", "none.yaml").assert_mistake("none.yaml does not exist")
    call(*RUN, "--plugin", tmp_path).assert_mistake("does not exist")
    call("show", tmp_path).assert_mistake("is not a run folder")
    call("show", "./nowhere").assert_mistake("is not a run folder")
    call("compare", tmp_path).assert_mistake("is not a run folder")
    call("show", "nothing-like-it").assert_mistake("unknown run folder, method or task 'nothing-like-it'. Available:")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"schema_version": 99}', '{"schema_version": 1}', "[" * 100_000]
)
def test_a_damaged_record_is_refused(call: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "record.json").write_text(text)
    call("show", tmp_path / "run").assert_mistake("record.json")
    call("compare", tmp_path / "run").assert_mistake("record.json")


def toy_run(manifest: Path) -> tuple[object, ...]:
    return ("run", "--method", "toy-merge", "--task", "toy", "--lineage", manifest, "--plugin", TOYS)


@pytest.fixture
def toy_copy(toy_manifest: Path, tmp_path: Path) -> Path:
    shutil.copytree(toy_manifest.parent, tmp_path / "toy")
    return tmp_path / "toy" / "toy.yaml"


def test_a_missing_checkpoint_is_named(call: Call, toy_copy: Path) -> None:
    shutil.rmtree(toy_copy.parent / "post")
    call(*toy_run(toy_copy)).assert_mistake("checkpoint 'post' of lineage toy", "is no folder")


def test_a_truncated_weights_file_fails_the_run_by_name(call: Call, toy_copy: Path) -> None:
    path = toy_copy.parent / "post" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    outcome = call(*toy_run(toy_copy))
    assert outcome.code in (1, 2)
    assert "model.safetensors" in outcome.err or "post" in outcome.err
    assert "Traceback" not in outcome.err


def test_pickled_weights_are_refused(call: Call, toy_copy: Path) -> None:
    (toy_copy.parent / "post" / "model.safetensors").rename(toy_copy.parent / "post" / "pytorch_model.bin")
    call(*toy_run(toy_copy)).assert_mistake("pickled weights", "safetensors")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": "int8"}, ["dtype = 'int8'", "float32"]),
        ({"checkpoints": []}, ["checkpoints"]),
        ({"training": {}}, ["training.learning_rate"]),
        ({"colour": "red"}, ["unknown key 'colour'"]),
    ],
)
def test_a_wrong_manifest_names_the_key(
    call: Call, toy_copy: Path, change: dict[str, object], words: list[str]
) -> None:
    values = yaml.safe_load(toy_copy.read_text())
    toy_copy.write_text(yaml.safe_dump({**values, **change}))
    call(*toy_run(toy_copy)).assert_mistake("toy.yaml", *words)


def test_a_lineage_without_the_micro_world_cannot_take_its_facts(call: Call, toy_copy: Path) -> None:
    call(*RUN, "--lineage", toy_copy).assert_mistake("lineage toy", "micro")


def test_a_plugin_that_raises_on_import_is_named(call: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise OSError('no luck')")
    call(*RUN, "--plugin", tmp_path / "bad.py").assert_mistake("bad.py cannot be imported: OSError: no luck")


def test_a_method_that_raises_fails_the_run_without_a_traceback(call: Call, toy_copy: Path, tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text(
        "from clbench import Config, Method\n"
        "class Raises(Method[Config]):\n"
        "    name = 'raises'\n"
        "    def candidates(self, bench):\n"
        "        raise KeyError('oh')\n"
        "        yield\n"
    )
    words = list(toy_run(toy_copy))
    words[words.index("toy-merge")] = "raises"
    outcome = call(*words, "--plugin", tmp_path / "raises.py")
    assert outcome.code == 1
    assert "KeyError: 'oh' (in raises.py:5" in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err


def test_an_out_folder_that_is_a_file_loses_nothing(call: Call, toy_copy: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    outcome = call(*toy_run(toy_copy), "--out", tmp_path / "file")
    assert outcome.code == 2
    assert (tmp_path / "file").read_text() == "precious"
