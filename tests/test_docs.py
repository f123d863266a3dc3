"""What the documents show works as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clbench import Store
from clbench.lineage import Lineage
from clbench.method import Method
from clbench.registry import Registry, load_plugin_files
from clbench.runner import Run
from tests.toys import ToyTask

ROOT = Path(__file__).parents[1]


def test_the_method_in_the_plugin_guide_runs_as_printed(
    toy_lineage: Lineage, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: Registry[Method] = Registry("method", "clbench.methods", Method)  # type: ignore[type-abstract, type-arg]
    monkeypatch.setattr("clbench.registry.methods", own)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "plugins.md").read_text(), re.S)
    (tmp_path / "my_method.py").write_text(code)
    load_plugin_files([tmp_path / "my_method.py"])
    method = own.load("half-graft")[0].from_values({"scale": [0.0, 0.5]})
    record = Run(method, ToyTask.from_values(), toy_lineage, store=store).execute().record
    assert [point.delta.norm > 0 for point in record.points] == [False, True]


def test_the_readme_has_the_two_commands_on_its_first_screen() -> None:
    commands = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[:2]
    assert all(command.count("\n") == 1 and " && " in command for command in commands)
    assert "clbench run --method graft --task knowledge-injection" in commands[0]
    assert "pytest" in commands[1]


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_checkout_names_one_version() -> None:
    import tomllib

    import clbench

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == clbench.__version__
