"""Fisher information: how much each coordinate matters to what the model can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clbench.weights.files import unique_state

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from clbench.chat import Encoded


LogLikelihood = Callable[["PreTrainedModel", "Encoded"], Tensor]
"""log p(completion | prompt) of one sequence, summed over its tokens, as a scalar with gradient."""


def diagonal_fisher(
    model: PreTrainedModel,
    encoded: Sequence[Encoded],
    log_likelihood: LogLikelihood,
    *,
    advance: Callable[[int], None] = lambda n: None,
) -> dict[str, Tensor]:
    """F_j = 1/n Σ_i (∂ log p(y_i | x_i) / ∂θ_j)², float32, by tensor name; tied tensors once.

    Empirical (y_i are the data's own responses) and per sequence (the square of a sequence's whole gradient). Squares
    are taken example by example: the square of a batch's mean gradient is another, smaller quantity. What 2610.05872
    used is not known; this is the default chosen here.

    Raises:
        ValueError: for no sequences.
    """
    if not encoded:
        raise ValueError("Fisher information needs at least one sequence")
    parameters = {name: tensor for name, tensor in unique_state(model) if tensor.requires_grad}
    squares = {name: torch.zeros_like(tensor, dtype=torch.float32) for name, tensor in parameters.items()}
    model.eval()  # type: ignore[no-untyped-call]
    for sequence in encoded:
        gradients = torch.autograd.grad(log_likelihood(model, sequence), list(parameters.values()))
        for total, gradient in zip(squares.values(), gradients, strict=True):
            total.addcmul_(gradient.float(), gradient.float())
        advance(1)
    return {name: total / len(encoded) for name, total in squares.items()}
