"""`clbench`: the command, its groups, and how errors become one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from clbench import __version__
from clbench.errors import ClbenchError

_COMMANDS = {
    "run": "clbench.cli.run:run_command",
    "list": "clbench.cli.plugins:list_command",
    "show": "clbench.cli.show:show_command",
    "compare": "clbench.cli.show:compare_command",
    "lineage": "clbench.cli.lineage:lineage_group",
}


class LazyGroup(click.Group):
    """Imports a command's file when the command is used, or its help is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a new user meets them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="clbench")
def cli() -> None:
    """Which way of teaching a post-trained model new data keeps what it could already do?

    \b
    clbench run --method graft --task knowledge-injection
    """


def main() -> None:
    """Entry point. Exit code 0: done; 1: a run failed; 2: a mistake in what was asked for; 130: interrupted."""
    # Idle OpenMP threads that spin make torch collapse beside any other load; read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    sys.exit(guarded(lambda: cli.main(standalone_mode=False)))


def guarded(call: Callable[[], Any]) -> int:
    """Run a command; print what went wrong as one sentence, and return the exit code."""
    try:
        result = call()
        return result if isinstance(result, int) else 0
    except ClbenchError as error:
        _print_error(str(error))
        return error.exit_code
    except click.exceptions.Abort:
        _print_error("interrupted. Finished stages are kept: the same command goes on from there.")
        return 130
    except KeyboardInterrupt:
        _print_error("interrupted. Finished stages are kept: the same command goes on from there.")
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except Exception as error:
        if os.environ.get("CLBENCH_DEBUG"):
            traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        _print_error(f"{type(error).__name__}: {error} (in {where}; CLBENCH_DEBUG=1 shows the traceback)")
        return 1


def _print_error(message: str) -> None:
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {message}", err=True)
