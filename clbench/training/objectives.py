"""What training minimises. An objective is found by import path and built from a JSON config, in whatever process."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import functional

from clbench.errors import UserError
from clbench.plugin import Config as PluginConfig
from clbench.plugin import parse_config
from clbench.training.batches import Batch, completion_logits

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Objective(ABC):
    """A loss over batches of encoded examples."""

    class Config(PluginConfig):
        """Its dials; JSON."""

    def __init__(self, config: PluginConfig | None = None) -> None:
        self.config = config if config is not None else self.Config()

    @property
    def spec(self) -> dict[str, Any]:
        """Import path and config: enough to build it elsewhere."""
        kind = type(self)
        return {"path": f"{kind.__module__}:{kind.__qualname__}", "config": self.config.model_dump(mode="json")}

    @abstractmethod
    def loss(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """The scalar to minimise."""


class CrossEntropy(Objective):
    """Supervised fine-tuning: mean negative log-likelihood of the completion tokens, −1/N Σ log π_θ(y_t | y_<t, x)."""

    def loss(self, model: PreTrainedModel, batch: Batch) -> Tensor:
        """Mean over all completion tokens of the batch."""
        return functional.cross_entropy(completion_logits(model, batch).float(), batch.targets_N)


def load_objective(spec: dict[str, Any]) -> Objective:
    """Build an objective from its spec. Raises `UserError` if the path leads to none."""
    module, _, attribute = str(spec["path"]).partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"objective {spec['path']!r} cannot be imported: {error}") from None
    if not (isinstance(kind, type) and issubclass(kind, Objective)):
        raise UserError(f"objective {spec['path']!r} is no subclass of Objective.")
    return kind(parse_config(kind.Config, spec["config"], what=f"objective {attribute}"))
