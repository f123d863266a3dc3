"""Training tokens/s of clbench's loop against a bare torch loop over the same batches.

The bare loop is what one writes in a notebook: `model(input_ids, attention_mask, labels).loss`, AdamW, gradient
clipping, on batches padded in advance. Both train the micro lineage's θ_post on knowledge injection's examples from the
same start; their losses are compared, so that both are known to do the same work.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from clbench import Lineage, Store, Tools, TrainingConfig, registry
from clbench.chat import Encoded
from clbench.seeds import generator
from clbench.stages import Stages
from clbench.training.batches import batch_indices
from clbench.training.config import ResolvedTraining
from clbench.training.loop import schedule_factor, train
from clbench.training.objectives import CrossEntropy


def bare_loop(model: torch.nn.Module, batches: list[dict[str, torch.Tensor]], config: ResolvedTraining) -> list[float]:
    """Train on padded batches; the losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=0.0)
    losses = []
    model.train()
    for step, batch in enumerate(batches, start=1):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * schedule_factor(step, config)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def padded(sequences: list[Encoded], pad: int) -> dict[str, torch.Tensor]:
    """Input ids, attention mask and labels (−100 on prompt and padding), as `transformers` takes them."""
    longest = max(s.num_tokens for s in sequences)
    ids = torch.full((len(sequences), longest), pad)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, s in enumerate(sequences):
        ids[row, : s.num_tokens] = torch.tensor(s.prompt_ids + s.completion_ids)
        mask[row, : s.num_tokens] = 1
        labels[row, len(s.prompt_ids) : s.num_tokens] = torch.tensor(s.completion_ids)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lineage", default="micro")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    lineage = Lineage.load(args.lineage)
    stages = Stages(Store(Path(tempfile.mkdtemp())), lineage)
    task = registry.tasks.load("knowledge-injection")[0].from_values()
    encoded = [stages.chat.encode(example) for example in task.examples(Tools(stages, 0))]
    config = TrainingConfig(num_steps=args.steps, snapshots=()).resolved(lineage.manifest.training)
    order = batch_indices(len(encoded), config.batch_size, generator(0, "train", "order"))
    chosen = [[encoded[i] for i in next(order)] for _ in range(args.steps)]
    batches = [padded(sequences, stages.chat.pad_token_id) for sequences in chosen]
    num_tokens = sum(s.num_tokens for sequences in chosen for s in sequences)

    seconds: dict[str, list[float]] = {"clbench": [], "bare loop": []}
    for _ in range(args.repeats + 1):
        model = AutoModelForCausalLM.from_pretrained(lineage.post_directory, dtype=torch.float32)
        own_losses: list[float] = []
        start = time.perf_counter()
        train(
            model,
            encoded,
            objective=CrossEntropy(),
            config=config,
            seed=0,
            pad_token_id=stages.chat.pad_token_id,
            after_step=lambda log, losses=own_losses: losses.append(log.loss),
        )
        seconds["clbench"].append(time.perf_counter() - start)
        model = AutoModelForCausalLM.from_pretrained(lineage.post_directory, dtype=torch.float32)
        start = time.perf_counter()
        bare_losses = bare_loop(model, batches, config)
        seconds["bare loop"].append(time.perf_counter() - start)
    worst = max(abs(a - b) for a, b in zip(own_losses, bare_losses, strict=True))

    print(f"{args.steps} steps of {config.batch_size}, {num_tokens} tokens, {args.threads} threads, after one warm-up")
    for name, values in seconds.items():
        print(f"{name:10} {num_tokens / statistics.median(values[1:]):8.0f} tokens/s (median of {args.repeats})")
    ratios = [bare / own for own, bare in zip(seconds["clbench"][1:], seconds["bare loop"][1:], strict=True)]
    print(f"ratio clbench / bare loop: {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")
    print(f"largest difference of a step's loss: {worst:.1e}")


if __name__ == "__main__":
    main()
