"""Every number that the lineage is built with."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ModelShape:
    """The Qwen3 architecture's sizes. Embeddings are tied."""

    vocab_size: int = 1152
    hidden_size: int = 128
    num_layers: int = 4
    num_heads: int = 4
    num_key_value_heads: int = 2
    head_size: int = 32
    mlp_size: int = 384
    max_positions: int = 512
    rope_theta: float = 10_000.0
    initializer_range: float = 0.05


@dataclass(frozen=True)
class Pretraining:
    """Warm-up, constant, linear decay to zero. Muon for the matrices, AdamW for embeddings and norms."""

    num_steps: int = 2600
    rows: int = 16
    row_length: int = 192
    learning_rate: float = 3e-3
    """Of both: Muon's updates are scaled to AdamW's size (arXiv 2502.16982)."""
    warmup_steps: int = 100
    decay_share: float = 0.2
    weight_decay: float = 0.1
    """Of the matrices."""
    momentum: float = 0.95
    """Muon's."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's."""
    max_grad_norm: float = 1.0
    keep_percent: tuple[int, ...] = (50, 75, 90)
    """Percentages of the steps after which the weights are kept."""


@dataclass(frozen=True)
class FineTuning:
    """Supervised fine-tuning on chats; the loss is on the assistant's words."""

    num_steps: int = 250
    batch_size: int = 32
    learning_rate: float = 1e-4
    warmup_steps: int = 20
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0


@dataclass(frozen=True)
class Reinforcement:
    """GRPO with the world's verifier as reward: on-policy, one update a batch, no clipping and no KL term."""

    num_steps: int = 40
    num_problems: int = 12
    num_samples: int = 8
    learning_rate: float = 2e-5
    warmup_steps: int = 10
    max_grad_norm: float = 1.0
    temperature: float = 1.0
    max_new_tokens: int = 72
    mixture: tuple[tuple[str, float], ...] = (
        ("addition", 0.25),
        ("4-digit addition", 0.10),
        ("format", 0.20),
        ("reading", 0.30),
        ("recall", 0.15),
    )
    """Kinds of problems and their shares."""


@dataclass(frozen=True)
class Recipe:
    """The whole lineage."""

    world_seed: int = 0
    tokenizer_documents: int = 20_000
    model: ModelShape = field(default_factory=ModelShape)
    pretraining: Pretraining = field(default_factory=Pretraining)
    sft: FineTuning = field(default_factory=FineTuning)
    rl: Reinforcement = field(default_factory=Reinforcement)
