"""Batches: which examples, in which order, as which tensors.

Shape suffixes: B sequences, T tokens of the longest sequence, N completion tokens of the whole batch, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from clbench.chat import Encoded

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Batch:
    """Sequences, padded on the right, and where in them the completions stand.

    Under causal attention padding on the right is never attended to, so no attention mask is needed.
    """

    input_ids_BT: Tensor
    """int64."""
    rows_N: Tensor
    """int64: the sequence that each completion token stands in."""
    columns_N: Tensor
    """int64: the position whose output predicts it (one before its own)."""
    targets_N: Tensor
    """int64: the completion tokens themselves."""
    num_tokens: int
    """Tokens without padding."""

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return Batch(
            self.input_ids_BT.to(device),
            self.rows_N.to(device),
            self.columns_N.to(device),
            self.targets_N.to(device),
            self.num_tokens,
        )


def collate(encoded: Sequence[Encoded], pad_token_id: int) -> Batch:
    """Put sequences into one batch."""
    longest = max(sequence.num_tokens for sequence in encoded)
    input_ids = np.full((len(encoded), longest), pad_token_id, dtype=np.int64)
    rows, columns, targets = [], [], []
    for row, sequence in enumerate(encoded):
        input_ids[row, : sequence.num_tokens] = sequence.prompt_ids + sequence.completion_ids
        first = len(sequence.prompt_ids) - 1
        rows.append(np.full(len(sequence.completion_ids), row, dtype=np.int64))
        columns.append(np.arange(first, first + len(sequence.completion_ids), dtype=np.int64))
        targets.append(np.asarray(sequence.completion_ids, dtype=np.int64))
    return Batch(
        torch.from_numpy(input_ids),
        torch.from_numpy(np.concatenate(rows)),
        torch.from_numpy(np.concatenate(columns)),
        torch.from_numpy(np.concatenate(targets)),
        sum(sequence.num_tokens for sequence in encoded),
    )


def batch_indices(num_examples: int, batch_size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Indices of examples, batch after batch without end: each epoch is a new permutation, and batches run across
    epochs."""
    left = np.empty(0, dtype=np.int64)
    while True:
        while len(left) < batch_size:
            left = np.concatenate([left, rng.permutation(num_examples)])
        yield left[:batch_size]
        left = left[batch_size:]


def completion_logits(model: PreTrainedModel, batch: Batch) -> Tensor:
    """The logits that predict each completion token, `logits_NV`, with gradient.

    The output layer runs on the columns in which some sequence has a completion token, not on the prompts.
    """
    first = int(batch.columns_N.min())
    keep = torch.arange(first, int(batch.columns_N.max()) + 1, device=batch.input_ids_BT.device)
    logits_BKV: Tensor = model(input_ids=batch.input_ids_BT, use_cache=False, logits_to_keep=keep).logits
    return logits_BKV[batch.rows_N, batch.columns_N - first]
