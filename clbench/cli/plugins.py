"""`clbench list`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from clbench.cli.options import json_option, plugin_option


@click.command("list")
@plugin_option
@json_option
def list_command(plugin_files: tuple[Path, ...], as_json: bool) -> None:
    """List the methods, tasks and lineages that are installed."""
    from clbench import registry
    from clbench.lineage.manifest import built_in_names, read_manifest

    registry.load_plugin_files(plugin_files)
    found = {
        "methods": [(e.name, e.summary(), e.origin) for e in registry.methods.entries().values()],
        "tasks": [(e.name, e.summary(), e.origin) for e in registry.tasks.entries().values()],
        "lineages": [(name, read_manifest(name)[0].description, "clbench") for name in built_in_names()],
    }
    if as_json:
        keys = ("name", "summary", "origin")
        click.echo(
            json.dumps({kind: [dict(zip(keys, row, strict=True)) for row in rows] for kind, rows in found.items()})
        )
        return
    width = max(len(row[0]) for rows in found.values() for row in rows)
    for kind, rows in found.items():
        click.echo(click.style(kind, bold=True))
        for name, summary, origin in rows:
            foreign = "" if origin.startswith("clbench ") or origin == "clbench" else f"  [{origin}]"
            click.echo(f"  {name:{width}}  {summary}{foreign}")
