"""clbench: a continual-learning benchmark harness for post-trained language models.

A *method* updates a post-trained model on a *task*'s new data; the *runner* measures what the update acquired and what
it retained; records of runs are compared by their Pareto frontiers.

Everything that a plugin's author needs can be imported from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clbench.bench import Bench, Tools, Trained
    from clbench.errors import RunError, UserError
    from clbench.lineage import Lineage
    from clbench.method import Candidate, Knob, Method
    from clbench.plugin import Config
    from clbench.records import Record, read_items, read_record
    from clbench.runner import run
    from clbench.store import Store
    from clbench.task import Benchmark, Example, Item, Split, Suite, Task
    from clbench.training.config import TrainingConfig
    from clbench.training.objectives import CrossEntropy, Objective
    from clbench.weights.recipe import MASK_RULES, MaskRule, Recipe

__version__ = "0.1.0"

_HOMES = {
    "Bench": "bench",
    "Benchmark": "task",
    "Candidate": "method",
    "Config": "plugin",
    "CrossEntropy": "training.objectives",
    "Example": "task",
    "Item": "task",
    "Knob": "method",
    "Lineage": "lineage",
    "MASK_RULES": "weights.recipe",
    "MaskRule": "weights.recipe",
    "Method": "method",
    "Objective": "training.objectives",
    "Recipe": "weights.recipe",
    "Record": "records",
    "RunError": "errors",
    "Split": "task",
    "Store": "store",
    "Suite": "task",
    "Task": "task",
    "Tools": "bench",
    "Trained": "bench",
    "TrainingConfig": "training.config",
    "UserError": "errors",
    "read_items": "records",
    "read_record": "records",
    "run": "runner",
}

__all__ = [  # noqa: RUF022 - the order of _HOMES
    "Bench",
    "Benchmark",
    "Candidate",
    "Config",
    "CrossEntropy",
    "Example",
    "Item",
    "Knob",
    "Lineage",
    "MASK_RULES",
    "MaskRule",
    "Method",
    "Objective",
    "Recipe",
    "Record",
    "RunError",
    "Split",
    "Store",
    "Suite",
    "Task",
    "Tools",
    "Trained",
    "TrainingConfig",
    "UserError",
    "read_items",
    "read_record",
    "run",
]


def __getattr__(name: str) -> Any:
    # Names are imported on first use, so that `clbench --help` does not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module 'clbench' has no attribute {name!r}")
    return getattr(importlib.import_module(f"clbench.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
