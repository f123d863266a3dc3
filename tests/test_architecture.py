"""The layers of docs/architecture.md, held against what the code imports when it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGINES = ("training", "sampling", "evaluation", "weights")
# From the bottom; a module may import its own layer and those below.
LAYERS = (
    {"errors", "files", "canonical", "seeds", "progress", "frontier"},
    {"plugin", "method", "task"},
    {"store", "records", "registry"},
    {"chat"},
    set(ENGINES),
    {"lineage"},
    {"stages"},
    {"bench"},
    {"runner"},
    {"report"},
    {"cli"},
)
# What only describes: may be imported from anywhere above `plugin`.
DESCRIPTIONS = {"clbench.weights.recipe", "clbench.sampling.interface", "clbench.training.config"}


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports when it runs: not those under TYPE_CHECKING."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                inner = ROOT / Path(*name.split("."))
                yield name if inner.is_dir() or inner.with_suffix(".py").is_file() else node.module


def core_files() -> list[Path]:
    return [p for p in sorted((ROOT / "clbench").rglob("*.py")) if p.parent.name != "micro" and p.name != "__init__.py"]


def layer_of(module: str) -> int | None:
    room = module.split(".")[1] if "." in module else ""
    return next((index for index, rooms in enumerate(LAYERS) if room in rooms), None)


@pytest.mark.parametrize("path", core_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_stands_below_it(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    own = layer_of(module)
    assert own is not None, f"{module} stands in no layer"
    for imported in imports(path):
        if not imported.startswith("clbench.") or imported in DESCRIPTIONS:
            continue
        other = layer_of(imported)
        if imported.startswith("clbench.micro"):
            assert module == "clbench.cli.lineage", (
                "the core does not know the micro world; its builder is called by name"
            )
            continue
        assert other is not None
        assert other <= own, f"{module} imports {imported}, which stands above it"
        room, other_room = module.split(".")[1], imported.split(".")[1]
        assert room == other_room or not {room, other_room} <= set(ENGINES), (
            f"{module} imports another engine, {imported}"
        )


@pytest.mark.parametrize("folder", ["methods", "tasks"])
def test_plugins_import_the_public_names_and_the_core_never_imports_plugins(folder: str) -> None:
    for path in (ROOT / folder).glob("*.py"):
        for imported in imports(path):
            inside = (
                imported.startswith("clbench") and imported != "clbench" and not imported.startswith("clbench.micro")
            )
            assert not inside, f"{path.name} imports {imported}; what a plugin needs is public in `clbench`"
    for path in (ROOT / "clbench").rglob("*.py"):
        for imported in imports(path):
            assert not imported.startswith(("clbench_methods", "clbench_tasks", "methods", "tasks"))


def test_every_public_name_can_be_imported() -> None:
    import clbench

    for name in clbench.__all__:
        assert getattr(clbench, name) is not None
    assert set(clbench.__all__) == set(clbench._HOMES)
