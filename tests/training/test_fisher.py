"""Fisher information against a closed form, and batching against one example at a time."""

from __future__ import annotations

import numpy as np
import torch

from clbench.chat import Encoded
from clbench.training.batches import collate, completion_logits
from clbench.weights.fisher import diagonal_fisher
from tests.toys import toy_config


class LinearSoftmax(torch.nn.Module):
    """log p(y | x) = log softmax(W x)_y, with x the one-hot code of the prompt's token."""

    def __init__(self, weight: np.ndarray) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.from_numpy(weight))


def log_likelihood(model: LinearSoftmax, sequence: Encoded) -> torch.Tensor:
    return model.weight[:, sequence.prompt_ids[0]].log_softmax(0)[sequence.completion_ids[0]]


def test_fisher_of_a_linear_softmax_model_is_its_closed_form() -> None:
    rng = np.random.default_rng(0)
    num_classes, num_inputs = 4, 3
    weight = rng.standard_normal((num_classes, num_inputs)).astype(np.float32)
    pairs = [(int(rng.integers(num_inputs)), int(rng.integers(num_classes))) for _ in range(50)]
    encoded = [Encoded((x,), (y,)) for x, y in pairs]
    fisher = diagonal_fisher(LinearSoftmax(weight), encoded, log_likelihood)["weight"]  # type: ignore[arg-type]

    # ∂ log softmax(W x)_y / ∂W = (onehot(y) − softmax(W x)) xᵀ
    expected = np.zeros((num_classes, num_inputs))
    for x, y in pairs:
        p = np.exp(weight[:, x].astype(np.float64))
        residual = np.eye(num_classes)[y] - p / p.sum()
        expected[:, x] += residual**2 / len(pairs)
    np.testing.assert_allclose(fisher.numpy(), expected, rtol=1e-5, atol=1e-8)


def test_squares_are_of_single_examples_not_of_the_mean_gradient() -> None:
    encoded = [Encoded((0,), (0,)), Encoded((0,), (1,))]
    fisher = diagonal_fisher(LinearSoftmax(np.zeros((2, 1), np.float32)), encoded, log_likelihood)  # type: ignore[arg-type]
    # The two gradients are opposite: their mean is zero, their squares are 1/4.
    assert torch.equal(fisher["weight"], torch.full((2, 1), 0.25))


def test_completion_logits_of_a_batch_are_those_of_each_sequence_alone() -> None:
    from transformers import Qwen3ForCausalLM

    torch.manual_seed(0)
    model = Qwen3ForCausalLM(toy_config(50)).eval()
    rng = np.random.default_rng(0)
    encoded = [
        Encoded(tuple(rng.integers(2, 50, p).tolist()), tuple(rng.integers(2, 50, c).tolist()))
        for p, c in [(3, 4), (9, 1), (1, 7), (5, 5)]
    ]
    with torch.no_grad():
        got = completion_logits(model, collate(encoded, pad_token_id=0))
        expected = []
        for sequence in encoded:
            ids = torch.tensor([sequence.prompt_ids + sequence.completion_ids])
            first = len(sequence.prompt_ids) - 1
            expected.append(model(ids).logits[0, first : first + len(sequence.completion_ids)])
    torch.testing.assert_close(got, torch.cat(expected), atol=1e-5, rtol=1e-5)
