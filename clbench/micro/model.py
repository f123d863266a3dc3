"""The lineage's model: made, loaded, and written as a plain Hugging Face directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clbench.micro.recipe import ModelShape

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def new_model(shape: ModelShape, tokenizer: PreTrainedTokenizerFast, *, seed: int) -> PreTrainedModel:
    """A Qwen3 model in float32 with random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.mlp_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_key_value_heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        initializer_range=shape.initializer_range,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = Qwen3ForCausalLM(config)
    return model


def load_model(directory: Path) -> PreTrainedModel:
    """A checkpoint in float32, to be trained or sampled."""
    import torch
    from transformers import AutoModelForCausalLM

    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, local_files_only=True)
    return model


def save_model(state: dict[str, Any], model: PreTrainedModel, tokenizer: Any, directory: Path) -> None:
    """Write weights, rounded to bfloat16, with config, generation config, tokenizer and template.

    `state` is a state dict of `model`, which gives its config only and is left as it is.
    """
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(**model.config.to_dict())
    config.dtype = torch.bfloat16
    rounded: PreTrainedModel = Qwen3ForCausalLM(config)
    rounded.load_state_dict(state)
    rounded.bfloat16()
    rounded.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    rounded.save_pretrained(directory)
    _save_tokenizer(tokenizer, directory)


def _save_tokenizer(tokenizer: Any, directory: Path) -> None:
    tokenizer.save_pretrained(directory)
    path = directory / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for key in ("is_local", "local_files_only", "backend"):  # how this one was loaded, not what it is
        config.pop(key, None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"  # the name that every version of transformers knows
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
