"""Options that several commands share, and how values on the command line become configs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import yaml

from clbench.errors import UserError

plugin_option = click.option(
    "--plugin",
    "plugin_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Python file with a method or task that is not installed (repeatable).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


MAX_SEED = 2**32 - 1


def store_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--store DIR`."""
    return click.option(
        "--store",
        "store_path",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="CLBENCH_STORE",
        show_envvar=True,
        help="Where finished stages are kept. Default: ~/.cache/clbench.",
    )(command)


def parse_params(params: Iterable[str]) -> dict[str, Any]:
    """`("scale=0.3,1", "training.num_steps=50")` as a nested mapping; commas make a list.

    Raises:
        UserError: for a parameter without `=`, or one that is given twice.
    """
    values: dict[str, Any] = {}
    for param in params:
        key, equals, text = param.partition("=")
        if not equals or not key:
            raise UserError(f"a parameter is written KEY=VALUE, got {param!r}.")
        *parents, leaf = key.strip().split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise UserError(f"parameter {key!r}: {parent!r} is given as a value too.")
        if leaf in place:
            raise UserError(f"parameter {key!r} is given twice; write a sweep as {key}=A,B,C.")
        place[leaf] = parse_value(text)
    return values


def parse_value(text: str) -> Any:
    """A value as YAML reads it; with commas outside brackets, a list of them."""
    if "," in text and not text.lstrip().startswith(("[", "{", '"', "'")):
        return [parse_value(part) for part in text.split(",") if part.strip()]
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def parse_seeds(text: str) -> list[int]:
    """`0,1,2` as distinct non-negative integers. Raises `UserError`."""
    try:
        seeds = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UserError(f"--seeds takes integers with commas between them, got {text!r}.") from None
    if not seeds or min(seeds) < 0 or max(seeds) > MAX_SEED or len(set(seeds)) != len(seeds):
        raise UserError(f"--seeds takes different integers from 0 to {MAX_SEED}, got {text!r}.")
    return seeds
