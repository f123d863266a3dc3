"""Seconds that `clbench --help` and `clbench list` take, against an interpreter that does nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

CLI = "from clbench.cli.main import main; main()"


def main() -> None:
    """Print the table."""
    commands = {"python -c pass": ["-c", "pass"]}
    for words in ("--help", "list", "run --help"):
        commands[f"clbench {words}"] = ["-c", CLI, *words.split()]
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(11):
        for name, arguments in commands.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - start)
    for name, values in seconds.items():
        print(f"{name:20} {statistics.median(values[1:]):.3f} s (from {min(values[1:]):.3f} to {max(values[1:]):.3f})")


if __name__ == "__main__":
    main()
