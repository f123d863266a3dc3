"""Finding plugins by name: through entry points, or in a file given on the command line.

Listing reads metadata only. A plugin is imported when it is used, so a broken one breaks nothing but its own use.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, TypeVar

from clbench.errors import UserError, unknown_name
from clbench.method import Method
from clbench.plugin import Plugin
from clbench.task import Task

PluginT = TypeVar("PluginT", bound=Plugin)  # type: ignore[type-arg]


@dataclass(frozen=True)
class Entry(Generic[PluginT]):
    """A plugin that can be loaded: its name, where it comes from, and the way to its class."""

    name: str
    origin: str
    """`distribution version`, or `file NAME sha256:…`."""
    value: str
    """Import path `module:attribute`."""
    loaded: type[PluginT] | None = None

    def summary(self) -> str:
        """First line of the class's docstring (else the module's), read from the source without importing it."""
        module, _, attribute = self.value.partition(":")
        try:
            spec = importlib.util.find_spec(module)
            if spec is None or spec.origin is None:
                return ""
            tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        except (ImportError, OSError, SyntaxError, ValueError, UnicodeDecodeError):
            return "(cannot be read)"
        owner = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == attribute), tree)
        text = ast.get_docstring(owner) or ast.get_docstring(tree) or ""
        return text.strip().partition("\n")[0]


class Registry(Generic[PluginT]):
    """The plugins of one kind."""

    def __init__(self, kind: str, group: str, base: type[PluginT]) -> None:
        self.kind = kind
        self.group = group
        self.base = base
        self._files: dict[str, Entry[PluginT]] = {}

    def entries(self) -> dict[str, Entry[PluginT]]:
        """All plugins by name; nothing is imported. A name that two distributions claim is left to `load`'s error."""
        return {name: found[0] for name, found in self._found().items()}

    def load(self, name: str) -> tuple[type[PluginT], Entry[PluginT]]:
        """The plugin's class and its entry.

        Raises:
            UserError: for an unknown name, a name that is taken twice, or a plugin that cannot be imported.
        """
        found = self._found()
        if name not in found:
            raise unknown_name(self.kind, name, found)
        if len(found[name]) > 1:
            owners = " and ".join(sorted(entry.origin for entry in found[name]))
            raise UserError(
                f"{self.kind} {name!r} is provided by {owners}; uninstall one of them or rename the plugin."
            )
        entry = found[name][0]
        plugin = entry.loaded if entry.loaded is not None else self._import(entry)
        return self._checked(plugin, entry), entry

    def add(self, plugin: type[PluginT], *, origin: str) -> None:
        """Register a class that is already imported (from a file of the user's).

        Raises:
            UserError: if the name is taken.
        """
        entry = Entry[PluginT](plugin.name, origin, f"{plugin.__module__}:{plugin.__qualname__}", plugin)
        taken = self._found().get(plugin.name)
        if taken and taken[0].origin != origin:
            raise UserError(
                f"{self.kind} {plugin.name!r} of {origin} is also provided by {taken[0].origin}; rename it."
            )
        self._files[plugin.name] = entry

    def _found(self) -> dict[str, list[Entry[PluginT]]]:
        found: dict[str, list[Entry[PluginT]]] = {}
        for point in entry_points(group=self.group):
            found.setdefault(point.name, []).append(Entry(point.name, _origin(point), point.value))
        # One distribution that is seen through two paths (an editable install beside its build) is one plugin.
        unique = {name: list({(e.origin, e.value): e for e in entries}.values()) for name, entries in found.items()}
        for name, entry in self._files.items():
            unique.setdefault(name, []).append(entry)
        return dict(sorted(unique.items()))

    def _import(self, entry: Entry[PluginT]) -> type[PluginT]:
        module, _, attribute = entry.value.partition(":")
        try:
            plugin: type[PluginT] = getattr(importlib.import_module(module), attribute)
        except Exception as error:
            raise UserError(
                f"{self.kind} {entry.name!r} of {entry.origin} cannot be imported: {type(error).__name__}: {error}"
            ) from error
        return plugin

    def _checked(self, plugin: type[PluginT], entry: Entry[PluginT]) -> type[PluginT]:
        if not (isinstance(plugin, type) and issubclass(plugin, self.base)):
            raise UserError(f"{self.kind} {entry.name!r} of {entry.origin}: {entry.value} is no {self.base.__name__}.")
        if getattr(plugin, "name", None) != entry.name:
            raise UserError(
                f"{self.kind} {entry.name!r} of {entry.origin}: its class says name = "
                f"{getattr(plugin, 'name', None)!r}."
            )
        return plugin


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"


methods: Registry[Method] = Registry("method", "clbench.methods", Method)  # type: ignore[type-abstract, type-arg]
tasks: Registry[Task] = Registry("task", "clbench.tasks", Task)  # type: ignore[type-abstract, type-arg]


def load_plugin_files(paths: Iterable[Path]) -> None:
    """Import each Python file and register the methods and tasks that it defines.

    Raises:
        UserError: for a file that does not exist, cannot be imported, or defines no plugin.
    """
    for path in paths:
        if not path.is_file():
            raise UserError(f"plugin file {path} does not exist.")
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        module_name = f"clbench_plugin_{path.stem}_{sha256[:8]}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise UserError(f"plugin file {path} is no Python file (its name must end in .py).")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise UserError(f"plugin file {path} cannot be imported: {type(error).__name__}: {error}") from error
        origin = f"file {path.name} sha256:{sha256[:16]}"
        own = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module_name]
        named = [v for v in own if issubclass(v, Plugin) and isinstance(getattr(v, "name", None), str)]
        for plugin in named:
            if issubclass(plugin, Method):
                methods.add(plugin, origin=origin)
            elif issubclass(plugin, Task):
                tasks.add(plugin, origin=origin)
        if not named:
            raise UserError(f"plugin file {path} defines no Method or Task with a `name`.")
