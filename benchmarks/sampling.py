"""Sampling tokens/s of the built-in sampler against `transformers` `generate` at equal settings.

Both continue the same rendered prompts greedily with the same model object, batch size, budget and stop tokens, in turn
within one run. `generate` is given its batches sorted by length, so that it pads as little as the sampler does. A token
counts up to and including the stop token; what is written after it as padding does not.

Two workloads: `fixed`, where nothing stops and every sequence uses its whole budget, and `answers`, where a model
answers questions of several skills and stops where its answers end. The completions of both are compared.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import functools
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from clbench import Lineage
from clbench.chat import Chat
from clbench.micro.world import World
from clbench.sampling import SamplingConfig, TorchSampler
from clbench.sampling.decode import DecodeStep

Sampled = list[tuple[int, ...]]


def with_generate(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], *, budget: int, batch_size: int, stop: list[int], pad: int
) -> Sampled:
    """Completions by `generate`, cut after their stop token, in the order of the prompts."""
    found: Sampled = [()] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        longest = max(len(prompts[i]) for i in chosen)
        ids = torch.full((len(chosen), longest), pad)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(chosen):
            ids[row, longest - len(prompts[i]) :] = torch.tensor(prompts[i])
            mask[row, longest - len(prompts[i]) :] = 1
        output = model.generate(  # type: ignore[attr-defined]
            ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=budget,
            eos_token_id=stop or None,
            pad_token_id=pad,
        )
        for i, row in zip(chosen, output[:, longest:].tolist(), strict=True):
            end = next((k + 1 for k, token in enumerate(row) if token in stop), len(row))
            found[i] = tuple(row[:end])
    return found


@dataclass
class Split:
    """Where the seconds of one run went."""

    prompts: float = 0.0
    """Forward passes over prompts."""
    steps: float = 0.0
    """Forward passes over single tokens, the sampler's own step included."""
    num_steps: int = 0
    whole: float = 0.0


def split(model: PreTrainedModel, run: Callable[[], Any]) -> Split:
    """Run once, with a clock around every forward pass."""
    found = Split()

    def timed(forward: Callable[..., Any], is_step: Callable[..., bool]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            output = forward(*args, **kwargs)
            seconds = time.perf_counter() - start
            if is_step(**kwargs):
                found.steps, found.num_steps = found.steps + seconds, found.num_steps + 1
            else:
                found.prompts += seconds
            return output

        return wrapper

    own_step = DecodeStep.logits
    parent: Any = model
    parent.forward = functools.wraps(model.forward)(timed(model.forward, lambda **kw: kw["input_ids"].shape[1] == 1))
    DecodeStep.logits = timed(own_step, lambda **kw: True)  # type: ignore[method-assign]
    try:
        start = time.perf_counter()
        run()
        found.whole = time.perf_counter() - start
    finally:
        del parent.forward
        DecodeStep.logits = own_step  # type: ignore[method-assign]
    return found


def compare(
    name: str, model: PreTrainedModel, prompts: Sequence[Sequence[int]], *, stop: list[int], pad: int, args: Any
) -> None:
    """Time one workload and print its rows."""
    sampler = TorchSampler(model, stop_token_ids=stop, pad_token_id=pad)
    config = SamplingConfig(batch_size=args.batch_size)

    def own() -> Sampled:
        return [c.token_ids for c in sampler.sample(prompts, max_new_tokens=args.budget, config=config)]

    def peer() -> Sampled:
        return with_generate(model, prompts, budget=args.budget, batch_size=args.batch_size, stop=stop, pad=pad)

    ours, theirs = own(), peer()  # warm-up
    num_equal = sum(a == b for a, b in zip(ours, theirs, strict=True))
    runs: dict[str, Callable[[], Sampled]] = {"clbench": own, "generate": peer}
    seconds: dict[str, list[float]] = {who: [] for who in runs}
    for _ in range(args.repeats):
        for who, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[who].append(time.perf_counter() - start)

    lengths = sorted(map(len, ours))
    shape = f"{lengths[0]} to {lengths[-1]} tokens, median {statistics.median(lengths):.0f}"
    print(f"\n{name}: {len(prompts)} prompts, completions of {shape}; {num_equal} of {len(prompts)} equal in both")
    for who, run in runs.items():
        num_tokens = sum(map(len, ours if who == "clbench" else theirs))
        spent = split(model, run)
        print(
            f"  {who:9} {num_tokens / statistics.median(seconds[who]):8.0f} tokens/s   prompts {spent.prompts:5.2f} s, "
            f"{spent.num_steps:4d} steps of {1000 * spent.steps / spent.num_steps:5.2f} ms, "
            f"the rest {spent.whole - spent.prompts - spent.steps:5.2f} s of {spent.whole:5.2f}"
        )
    ratios = [b / a for a, b in zip(seconds["clbench"], seconds["generate"], strict=True)]
    print(f"  ratio {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a checkpoint directory; by default the micro lineage's θ_post")
    parser.add_argument("--prompts", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--budget", type=int, default=64, help="new tokens, at most")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore", category=FutureWarning)
    directory = args.model or Lineage.load("micro").post_directory
    chat = Chat.load(directory, None)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    world = World()
    num_each = -(-args.prompts // len(world.skills))
    questions = [question for skill in world.skills for question in world.questions(skill, "test", num_each)]
    prompts = [chat.prompt_ids(question.prompt) for question in questions[: args.prompts]]

    print(f"batches of {args.batch_size}, budget {args.budget}, {args.threads} threads, medians of {args.repeats}")
    compare("fixed", model, prompts, stop=[], pad=chat.pad_token_id, args=args)
    compare("answers", model, prompts, stop=list(chat.stop_token_ids), pad=chat.pad_token_id, args=args)


if __name__ == "__main__":
    main()
