"""A toy lineage, method and task: everything real but the sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from clbench import (
    Bench,
    Benchmark,
    Candidate,
    Config,
    Example,
    Item,
    Method,
    Split,
    Suite,
    Task,
    Tools,
    TrainingConfig,
)

TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.role == 'assistant' %}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]


def toy_tokenizer() -> PreTrainedTokenizerFast:
    """Bytes as tokens, four special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>")
    fast.add_special_tokens({"additional_special_tokens": SPECIAL[2:]})
    fast.chat_template = TEMPLATE
    return fast


def toy_config(vocab_size: int, **changes: Any) -> Qwen3Config:
    values = {
        "vocab_size": vocab_size,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }
    return Qwen3Config(**{**values, **changes})


def write_toy_lineage(root: Path, dtype: torch.dtype = torch.bfloat16) -> Path:
    """Checkpoints `early`, `base` and `post` (random, a few percent apart) and their manifest."""
    tokenizer = toy_tokenizer()
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(toy_config(len(tokenizer))).to(dtype)
    names = ("early", "base", "post")
    for name in names:
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter) * parameter.abs().mean())
    stages = ("pretraining", "base", "rl")
    manifest = {
        "name": "toy",
        "description": "Random weights.",
        "dtype": str(dtype).removeprefix("torch."),
        "training": {"learning_rate": 1e-2, "num_steps": 4, "batch_size": 4, "snapshots": [0.5]},
        "checkpoints": [{"name": n, "stage": s, "path": n} for n, s in zip(names, stages, strict=True)],
    }
    path = root / "toy.yaml"
    path.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    return path


class ToyTaskConfig(Config):
    num_examples: int = 8


class ToyTask(Task[ToyTaskConfig]):
    """Learn to answer with a letter."""

    name = "toy"
    Config = ToyTaskConfig

    def examples(self, tools: Tools) -> Sequence[Example]:
        return [Example(id=f"new-{i}", prompt=f"n{i}", response=chr(97 + i)) for i in range(self.config.num_examples)]

    def retention_examples(self, tools: Tools) -> Sequence[Example]:
        return [Example(id=f"old-{i}", prompt=f"o{i}", response=chr(97 + i)) for i in range(4)]

    def acquisition(self, tools: Tools, split: Split) -> Suite:
        return self._suite("new", split)

    def retention(self, tools: Tools, split: Split) -> Suite:
        return self._suite("old", split)

    def _suite(self, kind: str, split: Split) -> Suite:
        items = tuple(Item(id=f"{split}-{i}", prompt=f"{kind[0]}{i}", target=chr(97 + i)) for i in range(6))
        return Suite(benchmarks=(Benchmark(name=kind, items=items, max_new_tokens=3),))


class ToyMethodConfig(Config):
    scale: tuple[float, ...] = (0.5, 1.0)
    training: TrainingConfig = TrainingConfig()


class ToyMethod(Method[ToyMethodConfig]):
    """Merge."""

    name = "toy-merge"
    Config = ToyMethodConfig

    def candidates(self, bench: Bench) -> Iterator[Candidate]:
        delta = bench.train(bench.lineage.post, bench.examples, training=self.config.training) - bench.lineage.post
        for scale in self.config.scale:
            yield Candidate(knobs={"scale": scale}, weights=bench.lineage.post + scale * delta)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
