"""Evaluation items/s of clbench against lm-eval's HF model, on the same items, and whether the scores agree.

Both generate greedily, from the same rendered prompts, with the same budget and batch size, with the same model object
in memory, and grade by exact match after the thoughts. Model loading and imports are not counted. lm-eval's own fixed
costs (environment collection, bootstrapping) are switched off or avoided as its documentation allows.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import logging
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from clbench import Lineage, Store, Tools, registry
from clbench.evaluation.evaluate import evaluate, placed
from clbench.evaluation.scoring import exact_match
from clbench.sampling import SamplingConfig, TorchSampler
from clbench.stages import Stages
from clbench.task import Item


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lineage", default="micro")
    parser.add_argument("--items", type=int, default=100, help="items a benchmark")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    logging.disable(logging.WARNING)

    import datasets
    from lm_eval import evaluate as lm_evaluate
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.huggingface import HFLM

    lineage = Lineage.load(args.lineage)
    stages = Stages(Store(Path(tempfile.mkdtemp())), lineage)
    task = registry.tasks.load("knowledge-injection")[0].from_values({"num_test_items": args.items})
    benchmarks = placed("retention", "test", task.retention(Tools(stages, 0), "test"))
    chat, model = stages.chat, stages.model.eval()
    config = SamplingConfig(batch_size=args.batch_size)

    def own() -> dict[str, list[float]]:
        sampler = TorchSampler(model, stop_token_ids=chat.stop_token_ids, pad_token_id=chat.pad_token_id)
        outcomes = evaluate(sampler, chat, benchmarks, config=config)
        return {p.benchmark.name: [o.outcome for o in outcomes if o.benchmark == p.benchmark.name] for p in benchmarks}

    lm = HFLM(
        pretrained=model,
        tokenizer=chat.tokenizer,
        batch_size=args.batch_size,
        add_bos_token=False,
        think_end_token=chat.tokenizer.convert_tokens_to_ids(chat.thinking.close.strip()),
    )

    def lm_task(place: Any) -> ConfigurableTask:
        rows = [
            {"prompt": chat.tokenizer.decode(chat.prompt_ids(item.prompt)), "target": item.target, "id": item.id}
            for item in place.benchmark.items
        ]

        def process_results(doc: dict[str, str], results: list[str]) -> dict[str, float]:
            return {"exact": exact_match(results[0].strip(), Item(id=doc["id"], prompt="", target=doc["target"]))}

        return ConfigurableTask(
            config={
                "task": place.benchmark.name,
                "custom_dataset": lambda **kwargs: {"test": datasets.Dataset.from_list(rows)},
                "test_split": "test",
                "output_type": "generate_until",
                "doc_to_text": "{{prompt}}",
                "doc_to_target": "{{target}}",
                "process_results": process_results,
                "metric_list": [{"metric": "exact", "aggregation": "mean", "higher_is_better": True}],
                "generation_kwargs": {
                    "until": [chat.tokenizer.eos_token],
                    "max_gen_toks": place.benchmark.max_new_tokens,
                    "do_sample": False,
                },
            }
        )

    tasks = {place.benchmark.name: lm_task(place) for place in benchmarks}

    def peer() -> dict[str, list[float]]:
        result = lm_evaluate(lm, tasks, bootstrap_iters=0, log_samples=True)
        by_name = {}
        for name, samples in result["samples"].items():
            by_name[name] = [sample["exact"] for sample in sorted(samples, key=lambda sample: sample["doc_id"])]
        return by_name

    num_items = sum(len(place.benchmark.items) for place in benchmarks)
    seconds: dict[str, list[float]] = {"clbench": [], "lm-eval": []}
    for _ in range(args.repeats + 1):
        with torch.inference_mode():
            start = time.perf_counter()
            own_scores = own()
            seconds["clbench"].append(time.perf_counter() - start)
            start = time.perf_counter()
            peer_scores = peer()
            seconds["lm-eval"].append(time.perf_counter() - start)

    print(f"{num_items} items, batches of {args.batch_size}, {torch.get_num_threads()} threads, after one warm-up")
    for name, values in seconds.items():
        print(f"{name:8} {num_items / statistics.median(values[1:]):7.1f} items/s (median of {args.repeats})")
    ratios = [theirs / ours for ours, theirs in zip(seconds["clbench"][1:], seconds["lm-eval"][1:], strict=True)]
    print(f"ratio: {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")
    for name, scores in own_scores.items():
        differ = sum(a != b for a, b in zip(scores, peer_scores[name], strict=True))
        mean, other = statistics.mean(scores), statistics.mean(peer_scores[name])
        print(f"{name:10} clbench {mean:.3f}  lm-eval {other:.3f}  items that differ: {differ}")


if __name__ == "__main__":
    main()
