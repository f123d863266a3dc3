"""`clbench show` and `clbench compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from clbench.cli.options import json_option, plugin_option
from clbench.errors import UserError, unknown_name
from clbench.files import explained_os_errors


@click.command("show")
@click.argument("what")
@click.option("--detail", is_flag=True, help="Show every benchmark of every point.")
@plugin_option
@json_option
def show_command(what: str, detail: bool, plugin_files: tuple[Path, ...], as_json: bool) -> None:
    """Show a run's result, or a method's or task's knobs.

    WHAT is a run folder, or the name of a method or a task.
    """
    if Path(what).exists() or "/" in what:
        _show_run(Path(what), detail, as_json)
    else:
        _show_plugin(what, plugin_files, as_json)


def _show_run(folder: Path, detail: bool, as_json: bool) -> None:
    from clbench.records import read_record
    from clbench.report import record_summary, record_table

    record = read_record(folder)
    if as_json:
        click.echo(json.dumps(record_summary(record), indent=1))
        return
    from rich.console import Console

    console = Console()
    console.print(record_table(record, detail=detail))
    for warning in record.warnings:
        console.print(f"warning: {warning}", style="yellow", highlight=False)
    console.print(f"made by: {record.provenance.command}", highlight=False)


def _show_plugin(name: str, plugin_files: tuple[Path, ...], as_json: bool) -> None:
    import inspect

    from clbench import registry

    registry.load_plugin_files(plugin_files)
    known: dict[str, Any] = {**registry.methods.entries(), **registry.tasks.entries()}
    if name not in known:
        raise unknown_name("run folder, method or task", name, known)
    kind: Any = registry.methods if name in registry.methods.entries() else registry.tasks
    plugin, entry = kind.load(name)
    schema = plugin.Config.model_json_schema()
    if as_json:
        click.echo(json.dumps({"name": name, "origin": entry.origin, "config": schema}, indent=1))
        return
    click.echo(f"{click.style(name, bold=True)} ({kind.kind}, {entry.origin})\n")
    click.echo(inspect.getdoc(plugin) or "")
    click.echo("\nknobs (-p KEY=VALUE):" if kind is registry.methods else "\nsettings (-T KEY=VALUE):")
    for key, field in plugin.Config.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if hasattr(default, "model_fields_set"):
            for inner in type(default).model_fields:
                click.echo(f"  {key}.{inner} = {_plain(getattr(default, inner))}")
        else:
            click.echo(f"  {key} = {_plain(default)}")


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="comparison",
    show_default=True,
    help="Folder for frontier.png and frontier.html.",
)
@json_option
def compare_command(runs: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Compare runs of one task and lineage: one table, one figure.

    RUNS are run folders; several seeds of one method are drawn together.
    """
    from clbench.records import read_record
    from clbench.report import compare_summary, compare_table, frontier_figure, frontier_html

    records = [read_record(folder) for folder in runs]
    summary = compare_summary(records, folders=list(runs))
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is no folder.")
    with explained_os_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        frontier_figure(records, out / "frontier.png")
        frontier_html(records, out / "frontier.html")
    if as_json:
        click.echo(json.dumps(summary, indent=1))
        return
    from rich.console import Console

    console = Console()
    console.print(compare_table(summary))
    console.print(f"written to {out}: frontier.png, frontier.html", highlight=False)
