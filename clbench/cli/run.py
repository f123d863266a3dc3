"""`clbench run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import pydantic

from clbench.cli.options import MAX_SEED, json_option, parse_params, parse_seeds, plugin_option, store_option
from clbench.errors import UserError
from clbench.files import explained_os_errors, write_atomically
from clbench.plugin import Config, parse_config

if TYPE_CHECKING:
    from clbench.records import Record
    from clbench.runner import Run
    from clbench.stages import Planned


class RunConfig(Config):
    """What `--config run.yaml` may hold; options on the command line go over it."""

    method: str | None = None
    task: str | None = None
    lineage: str = "micro"
    seeds: tuple[Annotated[int, pydantic.Field(ge=0, le=MAX_SEED)], ...] = pydantic.Field(default=(0,), min_length=1)
    params: dict[str, Any] = pydantic.Field(default_factory=dict)
    """The method's config."""
    task_params: dict[str, Any] = pydantic.Field(default_factory=dict)
    """The task's config."""


@click.command("run")
@click.option("--method", "-m", help="How to teach: see `clbench list`.")
@click.option("--task", "-t", help="What to teach: see `clbench list`.")
@click.option("--lineage", "-l", help="The model's checkpoints: a name, or a YAML manifest.  [default: micro]")
@click.option("--donor", help="Checkpoint to learn the update on; short for -p donor=NAME.")
@click.option("--seeds", help="Training seeds with commas between them; one record each.  [default: 0]")
@click.option(
    "-p",
    "params",
    multiple=True,
    metavar="KEY=VALUE",
    help="A knob of the method; commas make a sweep: scale=0.3,0.5,1.",
)
@click.option("--task-param", "-T", "task_params", multiple=True, metavar="KEY=VALUE", help="A setting of the task.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="YAML file with all of the above.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="runs",
    show_default=True,
    help="Where run folders go.",
)
@click.option("--dry-run", is_flag=True, help="Print the stages that the run needs, and do nothing.")
@plugin_option
@store_option
@json_option
def run_command(
    config_file: Path | None,
    out: Path,
    dry_run: bool,
    plugin_files: tuple[Path, ...],
    store_path: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run a method on a task and write a record for each seed.

    The new data is learned, every candidate of the method's sweep is measured on the new task and on the old ones, and
    the run folder holds record.json, points.csv, frontier.png and frontier.html. What is expensive is kept: a run that
    was stopped goes on where it stood, and a run that was done before takes seconds.
    """
    config = _merged(config_file, asked)
    runs = _set_up(config, plugin_files, store_path)
    # Planning costs little and finds what cannot work (an unknown donor, say) before anything is worked out.
    plans = [(run.seed, run.plan()) for run in runs]
    if dry_run:
        _print_plans(plans, as_json)
        return
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out} is a file; run folders need a folder to lie in.")
    with explained_os_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    _print_results([_execute(run, out) for run in runs], as_json)


def _merged(config_file: Path | None, asked: dict[str, Any]) -> RunConfig:
    """The config file with the options of the command line over it."""
    values: dict[str, Any] = _read_config(config_file) if config_file else {}
    values |= {key: asked[key] for key in ("method", "task", "lineage") if asked[key] is not None}
    if asked["seeds"] is not None:
        values["seeds"] = parse_seeds(asked["seeds"])
    donor = () if asked["donor"] is None else (f"donor={asked['donor']}",)
    for key, given in (("params", (*asked["params"], *donor)), ("task_params", asked["task_params"])):
        if given:
            values[key] = _over(values.get(key) or {}, parse_params(given))
    config = parse_config(RunConfig, values, what=str(config_file or "run"))
    for key in ("method", "task"):
        if getattr(config, key) is None:
            raise UserError(f"no {key} given: --{key} NAME. `clbench list` shows what there is.")
    return config


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _over(below[key], value) if isinstance(value, dict) and isinstance(below.get(key), dict) else value
        for key, value in above.items()
    }
    return {**below, **both}


def _read_config(path: Path) -> dict[str, Any]:
    import yaml

    if not path.is_file():
        raise UserError(f"config file {path} does not exist.")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"config file {path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UserError(f"config file {path} must hold a mapping with the keys {', '.join(RunConfig.model_fields)}.")
    return values


def _set_up(config: RunConfig, plugin_files: tuple[Path, ...], store_path: Path | None) -> list[Run]:
    from clbench import registry
    from clbench.cli.progress import TerminalProgress
    from clbench.lineage import Lineage
    from clbench.store import Store, default_store

    registry.load_plugin_files(plugin_files)
    assert config.method is not None and config.task is not None
    method_class, method_entry = registry.methods.load(config.method)
    task_class, task_entry = registry.tasks.load(config.task)
    method = method_class.from_values(config.params)
    task = task_class.from_values(config.task_params)
    lineage = Lineage.load(config.lineage)

    from rich.console import Console

    from clbench.runner import Run

    progress = TerminalProgress(Console(stderr=True))
    return [
        Run(
            method,
            task,
            lineage,
            seed=seed,
            store=Store(store_path or default_store()),
            progress=progress,
            origins=(method_entry.origin, task_entry.origin),
            command=_command(config, seed, plugin_files),
        )
        for seed in config.seeds
    ]


def _command(config: RunConfig, seed: int, plugin_files: tuple[Path, ...]) -> str:
    """The command that gives this record again, without anything that belongs to this machine."""
    words = ["clbench", "run", "--method", str(config.method), "--task", str(config.task)]
    if config.lineage != "micro":
        words += ["--lineage", Path(config.lineage).name]
    if seed != 0:
        words += ["--seeds", str(seed)]
    for option, values in (("-p", config.params), ("-T", config.task_params)):
        for key, value in _flat(values):
            words += [option, f"{key}={value}"]
    for path in plugin_files:
        words += ["--plugin", path.name]
    import shlex

    return shlex.join(words)


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    flat = []
    for key, value in values.items():
        if isinstance(value, dict):
            flat += _flat(value, f"{prefix}{key}.")
        else:
            flat.append((prefix + key, ",".join(map(str, value)) if isinstance(value, list) else str(value)))
    return flat


def _execute(run: Run, out: Path) -> tuple[Path, Record]:
    from clbench.records import write_run
    from clbench.report import write_report

    result = run.execute()
    folder = _folder(out, result.record)
    with explained_os_errors(folder):
        write_run(folder, result.record, result.items)
        write_report(result.record, folder)
        write_atomically(folder / "log.txt", _log(result.record).encode())
    return folder, result.record


def _log(record: Record) -> str:
    """What was done, stage by stage; seconds are those of the time when a stage was worked out."""
    lines = [f"{record.provenance.created}  {record.label}", record.provenance.command, ""]
    lines += [f"{stage.seconds:9.1f} s  {stage.kind:9} {stage.key}" for stage in record.stages]
    lines += ["", *(f"warning: {warning}" for warning in record.warnings)]
    return "\n".join(lines) + "\n"


def _folder(out: Path, record: Record) -> Path:
    """`<date>-<method>-<task>-<seed>`, numbered if another result has that name already."""
    from clbench.records import RECORD_NAME, read_record

    date = record.provenance.created[:10]
    name = f"{date}-{record.method.name}-{record.task.name}-{record.seed}"
    for number in range(1, 10_000):
        folder = out / (name if number == 1 else f"{name}-{number}")
        if not (folder / RECORD_NAME).exists():
            return folder
        try:
            if read_record(folder).fingerprint() == record.fingerprint():
                return folder
        except UserError:
            continue
    raise UserError(f"{out} is full of runs called {name}; choose another place with --out.")


def _print_plans(plans: list[tuple[int, list[Planned]]], as_json: bool) -> None:
    if as_json:
        value = [{"seed": seed, "stages": [stage.__dict__ for stage in stages]} for seed, stages in plans]
        click.echo(json.dumps(value, indent=1))
        return
    for seed, stages in plans:
        missing = sum(not stage.cached for stage in stages)
        click.echo(f"seed {seed}: {len(stages)} stages, {missing} to work out")
        for stage in stages:
            click.echo(f"  {'kept' if stage.cached else 'new ':4}  {stage.key[:12]}  {stage.what}")


def _print_results(results: list[tuple[Path, Record]], as_json: bool) -> None:
    from clbench.report import record_summary, record_table

    if as_json:
        click.echo(
            json.dumps([{"folder": str(folder), **record_summary(record)} for folder, record in results], indent=1)
        )
        return
    from rich.console import Console

    console = Console()
    for folder, record in results:
        console.print(record_table(record))
        for warning in record.warnings:
            console.print(f"warning: {warning}", style="yellow", highlight=False)
        console.print(f"written to {folder}: record.json, points.csv, frontier.png, frontier.html", highlight=False)
