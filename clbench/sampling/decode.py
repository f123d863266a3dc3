"""One decoding step of Llama- and Qwen3-shaped models, without the layers of Python around it.

At the size of the micro lineage a step of `transformers` spends most of its time between operations. This one has
about a quarter as many: query, key and value in one product, gate and up in another, queries and keys normalised and
turned together. It is used on float32 models of the two shapes that it knows; everything else runs the model's own
forward.

Shape suffixes: B sequences, D hidden size, H heads (query heads, then key heads), K key-value heads, E head size, L
tokens in the cache, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedModel, Qwen3ForCausalLM


@dataclass(frozen=True)
class _Layer:
    attention_norm_D: Tensor
    query_key_value: Tensor
    query_key_norm_HE: Tensor | None
    output: Tensor
    mlp_norm_D: Tensor
    gate_up: Tensor
    down: Tensor


class DecodeStep:
    """The step, for one call of the sampler: it holds joined copies of weights, which may not change meanwhile."""

    def __init__(self, model: PreTrainedModel, max_length: int) -> None:
        body: Any = model.model
        config = model.config
        self.embedding_VD = body.embed_tokens.weight
        self.head_VD = model.get_output_embeddings().weight  # type: ignore[no-untyped-call]
        self.norm_D = body.norm.weight
        self.eps = float(config.rms_norm_eps)
        self.num_key_value_heads = int(config.num_key_value_heads)
        self.num_heads = int(config.num_attention_heads)
        self.head_size = int(body.layers[0].self_attn.head_dim)
        positions = torch.arange(max_length, device=self.norm_D.device)[None]
        cos, sin = body.rotary_emb(self.norm_D, positions)
        half = self.head_size // 2
        self.cos_LE, self.sin_LE = cos[0, :, :half], sin[0, :, :half]
        self.layers = [self._joined(layer) for layer in body.layers]

    @staticmethod
    def knows(model: PreTrainedModel) -> bool:
        """Whether the model is of a shape, dtype and state that this step computes."""
        if type(model) not in (LlamaForCausalLM, Qwen3ForCausalLM):
            return False
        config = model.config
        rope: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
        linear = [module for name, module in model.named_modules() if name.endswith(("_proj", "lm_head"))]
        return (
            all(p.dtype == torch.float32 and p.device == model.device for p in model.parameters())
            and all(type(module) is nn.Linear and module.bias is None for module in linear)
            and config.hidden_act == "silu"
            and rope.get("rope_type", "default") in ("default", "linear", "llama3")
            and rope.get("partial_rotary_factor", 1.0) == 1.0
            and set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
        )

    def logits(self, input_ids_B: Tensor, position_ids_B: Tensor, mask_B11L: Tensor, caches: Sequence[Any]) -> Tensor:
        """Logits after one more token of each sequence, `logits_BV`.

        Each layer's cache appends keys and values, (B, K, 1, E), and returns all so far; the mask covers the new token
        too.
        """
        num_query_groups = self.num_heads // self.num_key_value_heads
        num_turned = (self.num_heads + self.num_key_value_heads) * self.head_size
        half = self.head_size // 2
        cos_B1E, sin_B1E = self.cos_LE[position_ids_B][:, None], self.sin_LE[position_ids_B][:, None]
        hidden_BD = functional.embedding(input_ids_B, self.embedding_VD)
        size = (len(input_ids_B), -1, self.head_size)
        for layer, cache in zip(self.layers, caches, strict=True):
            projected = functional.linear(self._norm(hidden_BD, layer.attention_norm_D), layer.query_key_value)
            turned_BHE = projected[:, :num_turned].view(size)
            if layer.query_key_norm_HE is not None:
                turned_BHE = self._norm(turned_BHE, None) * layer.query_key_norm_HE
            first, second = turned_BHE[..., :half], turned_BHE[..., half:]
            turned_BHE = torch.cat((first * cos_B1E - second * sin_B1E, second * cos_B1E + first * sin_B1E), dim=-1)
            keys, values = cache.append(
                turned_BHE[:, self.num_heads :, None], projected[:, num_turned:].view(size)[:, :, None]
            )
            # Query heads that share a key head stand where query positions would: one mask row serves them all.
            queries = turned_BHE[:, : self.num_heads].reshape(len(input_ids_B), -1, num_query_groups, self.head_size)
            attended = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask_B11L)
            hidden_BD = hidden_BD + functional.linear(attended.reshape(len(input_ids_B), -1), layer.output)
            gate, up = functional.linear(self._norm(hidden_BD, layer.mlp_norm_D), layer.gate_up).chunk(2, dim=-1)
            hidden_BD = hidden_BD + functional.linear(functional.silu(gate) * up, layer.down)
        return functional.linear(self._norm(hidden_BD, self.norm_D), self.head_VD)

    def _norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        return functional.rms_norm(x, x.shape[-1:], weight, self.eps)

    def _joined(self, layer: Any) -> _Layer:
        attention, mlp = layer.self_attn, layer.mlp
        norms = None
        if hasattr(attention, "q_norm"):
            norms = torch.cat(
                (
                    attention.q_norm.weight.expand(self.num_heads, -1),
                    attention.k_norm.weight.expand(self.num_key_value_heads, -1),
                )
            )
        return _Layer(
            attention_norm_D=layer.input_layernorm.weight,
            query_key_value=torch.cat([p.weight for p in (attention.q_proj, attention.k_proj, attention.v_proj)]),
            query_key_norm_HE=norms,
            output=attention.o_proj.weight,
            mlp_norm_D=layer.post_attention_layernorm.weight,
            gate_up=torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
            down=mlp.down_proj.weight,
        )
