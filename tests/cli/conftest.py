"""Calling the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from clbench.cli.main import cli, guarded

TOYS = Path(__file__).parents[1] / "toys.py"


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    def assert_mistake(self, *words: str) -> None:
        """Exit code 2, one sentence with these words, no traceback."""
        assert self.code == 2, self.err
        assert "Traceback" not in self.err
        assert self.out == ""
        text = " ".join(self.err.split())
        for word in words:
            assert word in text


Call = Callable[..., Outcome]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """`call("run", "--method", …)` in an empty folder, with a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words: object) -> Outcome:
        capsys.readouterr()
        code = guarded(lambda: cli.main([str(word) for word in words], standalone_mode=False))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return command
