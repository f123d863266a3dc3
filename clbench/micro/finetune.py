"""Supervised fine-tuning on questions with gold thoughts and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clbench.micro.documents import Stream
from clbench.micro.pretrain import IGNORED
from clbench.micro.question import ASSISTANT, END_OF_TURN, USER, Question, response
from clbench.micro.recipe import FineTuning
from clbench.micro.world import World

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def prompt_text(prompt: str) -> str:
    """The user's turn as the chat template renders it, up to where the assistant begins."""
    return f"{USER} {prompt}{ASSISTANT}"


def encode(tokenizer: Any, questions: Sequence[Question]) -> list[tuple[list[int], list[int]]]:
    """Prompt ids and completion ids (end of turn included) of each question."""
    prompts = tokenizer([prompt_text(q.prompt) for q in questions], add_special_tokens=False)["input_ids"]
    replies = [response(q.thoughts, q.answer) + END_OF_TURN for q in questions]
    return list(zip(prompts, tokenizer(replies, add_special_tokens=False)["input_ids"], strict=True))


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids padded on the right, and labels that are the completion's ids and `IGNORED` elsewhere: `[batch, length]`."""
    import torch

    length = max(len(prompt) + len(completion) for prompt, completion in pairs)
    ids = torch.full((len(pairs), length), pad)
    labels = torch.full((len(pairs), length), IGNORED)
    for i, (prompt, completion) in enumerate(pairs):
        end = len(prompt) + len(completion)
        ids[i, :end] = torch.tensor([*prompt, *completion])
        labels[i, len(prompt) : end] = torch.tensor(completion)
    return ids, labels


def train_on(
    model: PreTrainedModel,
    tokenizer: Any,
    batches: Iterator[Sequence[Question]],
    recipe: FineTuning,
    progress: Callable[[int, int], None],
) -> dict[str, float]:
    """Train `model` in place, with AdamW and a rate that warms up and falls linearly to zero. Returns facts."""
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
    )
    losses: list[float] = []
    num_tokens = 0
    model.train()
    for step, questions in zip(range(recipe.num_steps), batches, strict=False):
        warm = min(1.0, (step + 1) / recipe.warmup_steps)
        optimizer.param_groups[0]["lr"] = recipe.learning_rate * min(warm, 1 - step / recipe.num_steps)
        ids, labels = collate(encode(tokenizer, questions), tokenizer.pad_token_id)
        logits = model(input_ids=ids, use_cache=False).logits
        loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        num_tokens += int((labels != IGNORED).sum())
        progress(step + 1, recipe.num_steps)
    last = losses[-50:]
    return {"steps": recipe.num_steps, "tokens": num_tokens, "loss": round(sum(last) / len(last), 4)}


def fine_tune(
    model: PreTrainedModel,
    world: World,
    tokenizer: Any,
    recipe: FineTuning,
    *,
    seed: int,
    progress: Callable[[int, int], None],
) -> dict[str, float]:
    """The lineage's own supervised fine-tuning, on the post-training mixture."""
    stream = Stream(world, seed, "sft")
    return train_on(model, tokenizer, iter(lambda: stream.questions(recipe.batch_size), None), recipe, progress)
