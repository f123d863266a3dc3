"""Finding plugins: installed ones for real, broken ones, doubled names, files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from clbench import Method, UserError
from clbench.registry import Registry, load_plugin_files, methods, tasks

PLUGIN_FILE = '''
"""A method in a file."""
from clbench import Candidate, Config, Method

class Nothing(Method[Config]):
    """Do nothing: θ' = θ_post."""
    name = "nothing"

    def candidates(self, bench):
        yield Candidate(knobs={}, weights=bench.lineage.post)
'''


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path into which distributions can be put."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(folder: Path, name: str, entry_points: str, modules: dict[str, str]) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[clbench.methods]\n{entry_points}\n")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)


def test_the_reference_plugins_are_found_as_anyones_are() -> None:
    assert {"sft", "merge", "graft"} <= set(methods.entries())
    assert "knowledge-injection" in tasks.entries()
    assert methods.load("graft")[0].name == "graft"


def test_an_installed_plugin_is_found_with_its_origin_and_summary(distribution: Path) -> None:
    install(distribution, "other", "nothing = other_plugin:Nothing", {"other_plugin": PLUGIN_FILE})
    entry = methods.entries()["nothing"]
    assert entry.origin == "other 1.0"
    assert entry.summary() == "Do nothing: θ' = θ_post."
    assert "other_plugin" not in sys.modules, "listing must not import a plugin"
    assert methods.load("nothing")[0].__name__ == "Nothing"


def test_a_broken_plugin_breaks_only_its_own_use(distribution: Path) -> None:
    install(distribution, "broken", "broken = broken_plugin:Broken", {"broken_plugin": "raise RuntimeError('boom')"})
    assert "broken" in methods.entries()
    assert methods.load("sft")[0].name == "sft"
    with pytest.raises(UserError, match=r"method 'broken' of broken 1\.0 cannot be imported: RuntimeError: boom"):
        methods.load("broken")


def test_a_name_taken_twice_names_both_distributions(distribution: Path) -> None:
    install(distribution, "first", "nothing = plugin_a:Nothing", {"plugin_a": PLUGIN_FILE})
    install(distribution, "second", "nothing = plugin_b:Nothing", {"plugin_b": PLUGIN_FILE})
    with pytest.raises(UserError, match=r"'nothing' is provided by first 1\.0 and second 1\.0"):
        methods.load("nothing")
    assert methods.load("sft")[0].name == "sft"


def test_an_unknown_name_says_what_was_meant_and_what_there_is() -> None:
    with pytest.raises(UserError, match=r"unknown method 'grafts' — did you mean 'graft'\? Available: .*merge.*sft"):
        methods.load("grafts")


def test_a_plugin_of_the_wrong_kind_is_refused(distribution: Path) -> None:
    install(distribution, "odd", "odd = odd_plugin:Odd", {"odd_plugin": "class Odd: pass"})
    with pytest.raises(UserError, match="is no Method"):
        methods.load("odd")


def test_a_plugin_whose_class_has_another_name_is_refused(distribution: Path) -> None:
    install(distribution, "misnamed", "something = misnamed_plugin:Nothing", {"misnamed_plugin": PLUGIN_FILE})
    with pytest.raises(UserError, match="its class says name = 'nothing'"):
        methods.load("something")


def test_a_file_serves_as_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own: Registry[Method] = Registry("method", "clbench.methods", Method)  # type: ignore[type-abstract, type-arg]
    monkeypatch.setattr("clbench.registry.methods", own)
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN_FILE)
    load_plugin_files([path])
    load_plugin_files([path])
    plugin, entry = own.load("nothing")
    assert plugin.name == "nothing"
    assert entry.origin.startswith("file mine.py sha256:")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("missing.py", None, "does not exist"),
        ("broken.py", "1 / 0", "cannot be imported: ZeroDivisionError"),
        ("syntax.py", "def", "cannot be imported: SyntaxError"),
        ("empty.py", "", "defines no Method or Task"),
        ("notes.txt", "", "is no Python file"),
        ("clash.py", PLUGIN_FILE.replace('"nothing"', '"graft"'), "is also provided by clbench"),
    ],
)
def test_a_file_that_is_no_plugin_says_why(tmp_path: Path, name: str, text: str | None, words: str) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=words):
        load_plugin_files([path])


def test_every_package_folder_is_installed() -> None:
    """`pyproject.toml` lists packages by hand; hold that list against the folders."""
    import tomllib

    root = Path(__file__).parents[1]
    listed = set(tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    homes = {"clbench": "clbench", "methods": "clbench_methods", "tasks": "clbench_tasks"}
    found = {
        ".".join([homes[top], *path.parent.relative_to(root / top).parts])
        for top in homes
        for path in (root / top).rglob("__init__.py")
    }
    assert listed == found


def test_listing_and_help_import_nothing_heavy() -> None:
    code = (
        "import sys; from clbench.cli.main import cli; from click.testing import CliRunner\n"
        "for command in (['--help'], ['list'], ['run', '--help']):\n"
        "    result = CliRunner().invoke(cli, command); assert result.exit_code == 0, result.output\n"
        "heavy = {'torch', 'transformers', 'datasets', 'matplotlib', 'altair', 'lm_eval', 'inspect_ai'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
