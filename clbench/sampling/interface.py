"""What every sampler offers, whichever engine stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pydantic


class SamplingConfig(pydantic.BaseModel):
    """How tokens are chosen. The defaults are greedy decoding."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    temperature: float = pydantic.Field(default=0.0, ge=0.0)
    """0 is greedy decoding (ties to the lowest token id)."""
    top_p: float = pydantic.Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = pydantic.Field(default=0, ge=0)
    """0: no limit."""
    seed: int = pydantic.Field(default=0, ge=0)
    """Each prompt draws from its own stream of this seed and its position, so the batch it runs in does not matter."""
    batch_size: int = pydantic.Field(default=256, gt=0)
    """Sequences decoded together."""


@dataclass(frozen=True)
class Completion:
    """What was sampled after one prompt."""

    token_ids: tuple[int, ...]
    """The new tokens, the stop token included where there is one."""
    finish: Literal["stop", "length"]
    """`length`: the budget ended it, not a stop token."""
    log_probs: tuple[float, ...] | None = None
    """Log-probability of each token in `token_ids` under the distribution at temperature 1, where asked for."""


class Sampler(Protocol):
    """Continues prompts."""

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int | Sequence[int],
        config: SamplingConfig,
        with_log_probs: bool = False,
        on_finished: Callable[[int], None] | None = None,
    ) -> list[Completion]:
        """One completion for each prompt (token ids), in the order of the prompts.

        `max_new_tokens` is one budget, or one for each prompt. `on_finished(n)` is called with the number of prompts
        that have just been finished. The model's weights may change between calls, not during one.
        """
        ...
