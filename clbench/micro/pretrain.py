"""Pretraining: documents packed into rows, Muon and AdamW with warm-up, a constant stretch and a decay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from clbench.micro.documents import Document, Stream
from clbench.micro.question import END_OF_TURN
from clbench.micro.recipe import Pretraining
from clbench.micro.world import World

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

CHUNK = 1024
"""Documents that are packed together."""
IGNORED = -100


def document_text(document: Document) -> str:
    """The document as it is read: every word after a space, an end at the end."""
    return document.text if document.is_chat else f" {document.text}{END_OF_TURN}"


def packed_rows(documents: Iterator[Document], tokenizer: Any, row_length: int) -> Iterator[list[int]]:
    """Rows of at most `row_length` tokens that hold whole documents; a document that is longer is left out."""
    while True:
        texts = [document_text(document) for document in islice(documents, CHUNK)]
        rows: list[list[int]] = []
        open_rows: list[list[int]] = []
        for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]:
            if len(ids) > row_length:
                continue
            row = next((row for row in open_rows if len(row) + len(ids) <= row_length), None)
            if row is None:
                row = []
                open_rows.append(row)
                rows.append(row)
            row.extend(ids)
            if len(row) > row_length - 10:
                open_rows.remove(row)
        yield from rows


def batches(
    world: World, tokenizer: Any, recipe: Pretraining, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Token ids and labels, each `[rows, row_length]`."""
    import torch

    rows = packed_rows(Stream(world, seed, "pretraining").documents(), tokenizer, recipe.row_length)
    while True:
        ids = np.full((recipe.rows, recipe.row_length), tokenizer.pad_token_id, dtype=np.int64)
        labels = np.full_like(ids, IGNORED)
        for i, row in enumerate(islice(rows, recipe.rows)):
            ids[i, : len(row)] = row
            labels[i, : len(row)] = row
        yield torch.from_numpy(ids), torch.from_numpy(labels)


def learning_rate_at(step: int, recipe: Pretraining) -> float:
    """The learning rate of a step, counted from 0."""
    decay_steps = recipe.decay_share * recipe.num_steps
    warm = min(1.0, (step + 1) / recipe.warmup_steps)
    cool = min(1.0, (recipe.num_steps - step) / decay_steps)
    return recipe.learning_rate * min(warm, cool)


def pretrain(
    model: PreTrainedModel,
    world: World,
    tokenizer: Any,
    recipe: Pretraining,
    *,
    seed: int,
    keep: Callable[[int, dict[str, Any], dict[str, float]], None],
    progress: Callable[[int, int], None],
    compiled: bool = True,
) -> dict[str, float]:
    """Train `model` in place; `keep(percent, state, facts)` is called at each percentage of the recipe.

    Returns facts about the end: steps, tokens and mean loss of the last 50 steps.
    """
    import torch
    from torch.nn.functional import cross_entropy

    def loss_of(ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=ids, use_cache=False).logits
        return cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=IGNORED)

    step_loss = torch.compile(loss_of) if compiled else loss_of
    optimizers = _optimizers(model, recipe)
    kept_at = {math.ceil(recipe.num_steps * percent / 100): percent for percent in recipe.keep_percent}
    losses: list[float] = []
    num_tokens = 0
    model.train()
    for step, (ids, labels) in zip(range(recipe.num_steps), batches(world, tokenizer, recipe, seed), strict=False):
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = learning_rate_at(step, recipe)
        with torch.autocast("cpu", torch.bfloat16):
            loss = step_loss(ids, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_grad_norm)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        num_tokens += int((labels != IGNORED).sum())
        done = step + 1
        progress(done, recipe.num_steps)
        if done in kept_at:
            keep(kept_at[done], model.state_dict(), _facts(done, num_tokens, losses))
    return _facts(recipe.num_steps, num_tokens, losses)


def _optimizers(model: PreTrainedModel, recipe: Pretraining) -> list[torch.optim.Optimizer]:
    import torch

    embeddings = model.get_input_embeddings().weight
    matrices = [p for p in model.parameters() if p.ndim == 2 and p is not embeddings]
    others = [p for p in model.parameters() if p.ndim != 2 or p is embeddings]
    muon = torch.optim.Muon(
        matrices,
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        momentum=recipe.momentum,
        adjust_lr_fn="match_rms_adamw",
    )
    adamw = torch.optim.AdamW(others, lr=recipe.learning_rate, betas=recipe.betas, weight_decay=0.0, fused=True)
    return [muon, adamw]


def _facts(num_steps: int, num_tokens: int, losses: list[float]) -> dict[str, float]:
    return {"steps": num_steps, "tokens": num_tokens, "loss": round(float(np.mean(losses[-50:])), 4)}
