"""`clbench lineage`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from clbench.cli.options import json_option
from clbench.errors import UserError


@click.group("lineage")
def lineage_group() -> None:
    """Show, verify or rebuild the checkpoints of a model."""


@lineage_group.command("show")
@click.argument("name")
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show a lineage's checkpoints, how far each lies from θ_post, and what its builder wrote down.

    The distance decides much: an update learned on a donor far from θ_post may not fit it.
    """
    from clbench.lineage import Lineage
    from clbench.weights.arithmetic import WeightArithmetic

    lineage = Lineage.load(name)
    facts = lineage.build_facts
    built = {entry["name"]: entry for entry in facts.get("checkpoints", [])}
    with WeightArithmetic(lineage.post) as arithmetic:
        rows: list[dict[str, Any]] = [
            {
                "name": entry.name,
                "stage": entry.stage,
                "distance_to_post": arithmetic.delta_statistics(lineage[entry.name], None).relative_norm,
                "directory": str(lineage.directory(entry.name)),
                "built": {
                    key: value for key, value in built.get(entry.name, {}).items() if key not in ("name", "stage")
                },
            }
            for entry in lineage.manifest.checkpoints
        ]
    chat_share = facts.get("chat_share_of_pretraining")
    if as_json:
        value = {"name": lineage.name, "manifest": lineage.manifest.model_dump(mode="json"), "checkpoints": rows}
        click.echo(json.dumps({**value, "chat_share_of_pretraining": chat_share}, indent=1))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{lineage.name}: {lineage.manifest.description}", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("checkpoint", "stage", "‖θ − θ_post‖ / ‖θ_post‖", "steps", "tokens"):
        table.add_column(column, justify="left" if column in ("checkpoint", "stage") else "right")
    for row in rows:
        steps, tokens = (row["built"].get(key) for key in ("steps", "tokens"))
        counts = [f"{value:,}" if isinstance(value, int) else "" for value in (steps, tokens)]
        table.add_row(row["name"], row["stage"], f"{row['distance_to_post']:.2%}", *counts)
    console = Console()
    console.print(table)
    if isinstance(chat_share, dict) and "measured" in chat_share:
        console.print(f"{chat_share['measured']:.0%} of the pretraining documents are in the chat format.")


@lineage_group.command("verify")
@click.argument("name")
def verify_command(name: str) -> None:
    """Check every file of a lineage against its hashes."""
    from clbench.lineage import Lineage

    lineage = Lineage.load(name)
    num_files = lineage.verify()
    click.echo(f"{lineage.name}: {len(lineage.names)} checkpoints, {num_files} files, all as their manifest says.")


@lineage_group.command("build")
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="lineage",
    show_default=True,
    help="Folder for the checkpoints.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the training.")
def build_command(name: str, out: Path, seed: int) -> None:
    """Train a built-in lineage anew from its recipe.

    Only `micro` has one; it takes about 20 minutes on one core. A build that was stopped goes on with the stage it
    stood at. The folder gets a manifest, so that the result can be used: `clbench run --lineage FOLDER/micro.yaml …`.
    """
    if name != "micro":
        raise UserError(f"lineage {name!r} has no recipe to build it from; only 'micro' has.")
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from clbench.lineage.manifest import read_manifest, write_manifest
    from clbench.micro.build import build

    bars: dict[str, TaskID] = {}
    with Progress(console=Console(stderr=True)) as display:

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in bars:
                bars[stage] = display.add_task(stage, total=total)
            display.update(bars[stage], completed=done)

        try:
            build(out, seed=seed, progress=progress)
        except ValueError as error:
            raise UserError(f"--out {out}: {error}") from None
    path = write_manifest(read_manifest(name)[0], out)
    click.echo(f"written to {out}; use it with --lineage {path}")
