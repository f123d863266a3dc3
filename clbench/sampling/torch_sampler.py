"""The built-in sampler: any decoder-only model of transformers, on its own forward pass.

What makes it faster than `generate` on the same model: sequences that have finished leave the batch, keys and values
are written in place into buffers, the attention mask of a step is a view of one that is built once, and nothing else is
done in a step. Prompts are read in chunks of about one length, so that short ones are not padded to the longest.

Shape suffixes: B sequences in the batch, T tokens, L tokens in the cache, V vocabulary, K key-value heads, E head size.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from clbench.errors import UserError
from clbench.sampling.decode import DecodeStep
from clbench.sampling.interface import Completion, SamplingConfig

_COMPACT_BELOW = 0.8
"""Finished sequences leave the batch when fewer than this share of it still goes on: leaving copies the cache."""

_CHUNK_TOKENS = {"cpu": 2048}
"""Prompt tokens, padding included, that are read at once: what a processor's caches hold. Accelerators take more."""
_CHUNK_TOKENS_ELSEWHERE = 32768
_FIRST_ROOM = 64
"""New tokens that the cache has room for at first; it grows by half when that is used up."""


class TorchSampler:
    """Continues prompts with a model in memory. Weights may change between calls; none are copied."""

    def __init__(self, model: PreTrainedModel, *, stop_token_ids: Sequence[int], pad_token_id: int) -> None:
        self.model = model
        self.stop_token_ids = tuple(stop_token_ids)
        self.pad_token_id = pad_token_id

    @torch.inference_mode()
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int | Sequence[int],
        config: SamplingConfig,
        with_log_probs: bool = False,
        on_finished: Callable[[int], None] | None = None,
    ) -> list[Completion]:
        """One completion for each prompt; see `Sampler.sample`.

        Raises:
            UserError: for an empty prompt, or one that does not fit into the model's context together with its budget.
        """
        budgets = [max_new_tokens] * len(prompts) if isinstance(max_new_tokens, int) else list(max_new_tokens)
        self._check(prompts, budgets)
        completions: list[Completion | None] = [None] * len(prompts)
        # Neighbours in length pad each other least; those with one budget tend to end together.
        order = sorted(range(len(prompts)), key=lambda i: (budgets[i], len(prompts[i]), i))
        training = [module for module in self.model.modules() if module.training]
        longest = max((len(prompt) + budget for prompt, budget in zip(prompts, budgets, strict=True)), default=0)
        try:
            self.model.train(False)
            step = DecodeStep(self.model, longest) if prompts and DecodeStep.knows(self.model) else None
            for first in range(0, len(order), config.batch_size):
                chosen = sorted(order[first : first + config.batch_size], key=lambda i: len(prompts[i]))
                batch = _Batch(self, [prompts[i] for i in chosen], [budgets[i] for i in chosen], chosen, config, step)
                for row, completion in batch.run(with_log_probs):
                    completions[chosen[row]] = completion
                    if on_finished is not None:
                        on_finished(1)
        finally:
            for module in training:
                module.training = True
        return [completion for completion in completions if completion is not None]

    def _check(self, prompts: Sequence[Sequence[int]], budgets: Sequence[int]) -> None:
        if len(budgets) != len(prompts) or any(budget < 1 for budget in budgets):
            raise ValueError("max_new_tokens is one positive number, or one for each prompt")
        limit = getattr(self.model.config, "max_position_embeddings", None)
        for prompt, budget in zip(prompts, budgets, strict=True):
            if not prompt:
                raise UserError("a prompt to sample from has no tokens.")
            if limit is not None and len(prompt) + budget > limit:
                raise UserError(
                    f"a prompt of {len(prompt)} tokens with a budget of {budget} does not fit into the model's context "
                    f"of {limit} tokens; shorten the prompt or lower the budget."
                )


class _Batch:
    """Sequences decoded together until the last of them has finished."""

    def __init__(
        self,
        sampler: TorchSampler,
        prompts: Sequence[Sequence[int]],
        budgets: Sequence[int],
        positions: Sequence[int],
        config: SamplingConfig,
        decode_step: DecodeStep | None,
    ) -> None:
        self.model = sampler.model
        self.decode_step = decode_step
        self.config = config
        self.device = self.model.device
        # Renamed from past_key_values during transformers 5.
        parameters = inspect.signature(type(self.model).forward).parameters
        self.cache_keyword = "cache" if "cache" in parameters else "past_key_values"
        self.stop_ids = torch.tensor(sampler.stop_token_ids, device=self.device)
        self.budgets = budgets
        self.prompt_lengths = [len(prompt) for prompt in prompts]
        longest = max(self.prompt_lengths)
        ids = np.full((len(prompts), longest), sampler.pad_token_id, dtype=np.int64)
        real = np.zeros((len(prompts), longest + max(budgets)), dtype=bool)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = prompt
            real[row, longest - len(prompt) :] = True
        self.input_ids_BT = torch.from_numpy(ids).to(self.device)
        self.real_BL = torch.from_numpy(real).to(self.device)
        """Which cache positions hold a real token (left padding does not), for all steps to come."""
        self.length = longest
        self.position_ids_BT = (self.real_BL[:, :longest].cumsum(1) - 1).clamp(min=0)
        self.cache, self.in_place = _cache(self.model, len(prompts), longest)
        self.uniforms_BT = _uniforms(config.seed, positions, max(budgets)) if config.temperature > 0 else None

    def run(self, with_log_probs: bool) -> Iterator[tuple[int, Completion]]:
        """Yields (row, completion) as sequences finish."""
        rows = list(range(len(self.budgets)))
        done = [False] * len(rows)
        tokens: list[list[int]] = [[] for _ in rows]
        log_probs: list[list[float]] = [[] for _ in rows]
        step = 0
        while True:
            logits_BV = self._decode() if step else self._prefill()
            chosen_B = self._choose(logits_BV, rows, step)
            stopped, chosen = torch.isin(chosen_B, self.stop_ids).tolist(), chosen_B.tolist()
            if with_log_probs:
                chosen_log_probs = logits_BV.float().log_softmax(-1).gather(-1, chosen_B[:, None])[:, 0].tolist()
            step += 1
            for i, row in enumerate(rows):
                if done[i]:
                    continue
                tokens[row].append(chosen[i])
                if with_log_probs:
                    log_probs[row].append(chosen_log_probs[i])
                if stopped[i] or step == self.budgets[row]:
                    done[i] = True
                    finish: Literal["stop", "length"] = "stop" if stopped[i] else "length"
                    yield row, Completion(tuple(tokens[row]), finish, tuple(log_probs[row]) if with_log_probs else None)
            going = [i for i in range(len(rows)) if not done[i]]
            if not going:
                return
            if len(going) < _COMPACT_BELOW * len(rows):
                chosen_B = self._keep(going, chosen_B)
                rows, done = [rows[i] for i in going], [False] * len(going)
            self._append(chosen_B)

    def _prefill(self) -> Tensor:
        """Read the prompts; logits of their next tokens, `logits_BV`."""
        real_BT = self.real_BL[:, : self.length]
        if not self.in_place:
            return self._forward(self.input_ids_BT, real_BT, self.position_ids_BT, self.cache)
        logits = []
        for rows in _chunks(self.prompt_lengths, _CHUNK_TOKENS.get(self.device.type, _CHUNK_TOKENS_ELSEWHERE)):
            chunk = rows, slice(self.length - self.prompt_lengths[rows.stop - 1], None)
            cache = DynamicCache(config=self.model.config)
            logits.append(self._forward(self.input_ids_BT[chunk], real_BT[chunk], self.position_ids_BT[chunk], cache))
            layers: Iterator[tuple[Any, Any]] = zip(self.cache.layers, cache.layers, strict=True)
            for layer, read in layers:
                layer.place(rows, read.keys, read.values)
        return torch.cat(logits)

    def _decode(self) -> Tensor:
        """Read the tokens just chosen; logits of the next, `logits_BV`."""
        mask = self.real_BL[:, : self.length]
        if self.decode_step is not None and self.in_place:
            # All layers attend to everything: one mask serves them, given ready-made.
            mask = mask[:, None, None]
            return self.decode_step.logits(self.input_ids_BT[:, 0], self.position_ids_BT[:, 0], mask, self.cache.layers)
        if self.in_place and _takes_ready_made_mask(self.model):
            mask = mask[:, None, None]
        return self._forward(self.input_ids_BT, mask, self.position_ids_BT, self.cache)

    def _forward(self, input_ids_BT: Tensor, mask: Tensor, position_ids_BT: Tensor, cache: DynamicCache) -> Tensor:
        """The model's own forward pass."""
        output = self.model(
            input_ids=input_ids_BT,
            attention_mask=mask,
            position_ids=position_ids_BT,
            **{self.cache_keyword: cache},
            use_cache=True,
            logits_to_keep=1,
        )
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV

    def _append(self, chosen_B: Tensor) -> None:
        self.input_ids_BT = chosen_B[:, None]
        self.position_ids_BT = self.position_ids_BT[:, -1:] + 1
        self.real_BL[:, self.length] = True
        self.length += 1

    def _keep(self, going: list[int], chosen_B: Tensor) -> Tensor:
        index = torch.tensor(going, device=self.device)
        self.cache.reorder_cache(index)  # type: ignore[arg-type]
        self.real_BL, self.position_ids_BT = self.real_BL[index], self.position_ids_BT[index]
        return chosen_B[index]

    def _choose(self, logits_BV: Tensor, rows: list[int], step: int) -> Tensor:
        if self.uniforms_BT is None:
            return logits_BV.argmax(-1)
        probs_BV = (logits_BV.double() / self.config.temperature).softmax(-1)
        sorted_BV, ids_BV = torch.sort(probs_BV, dim=-1, descending=True, stable=True)
        if self.config.top_k:
            sorted_BV[:, self.config.top_k :] = 0.0
        if self.config.top_p < 1.0:
            # A token stays if those before it do not yet hold the share top_p: the first one always does.
            sorted_BV[sorted_BV.cumsum(-1) - sorted_BV >= self.config.top_p] = 0.0
        cumulative_BV = sorted_BV.cumsum(-1)
        uniforms_B = torch.from_numpy(self.uniforms_BT[rows, step]).to(self.device)
        ranks_B = torch.searchsorted(cumulative_BV, (uniforms_B * cumulative_BV[:, -1])[:, None], right=True)
        # Rounding may carry a draw past the last token that has any probability (there is none if logits are NaN).
        last_B = ((sorted_BV > 0).sum(-1, keepdim=True) - 1).clamp(min=0)
        return ids_BV.gather(-1, torch.minimum(ranks_B, last_B))[:, 0]


def _uniforms(seed: int, positions: Sequence[int], num_steps: int) -> np.ndarray:
    """A stream of uniform numbers for each prompt, by its position: float64, (B, T)."""
    streams = (np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, p]))) for p in positions)
    return np.stack([stream.random(num_steps) for stream in streams])


def _chunks(lengths: Sequence[int], max_tokens: int) -> Iterator[slice]:
    """Cut rows of rising length so that each chunk, padded to its longest, has at most `max_tokens` (or one row)."""
    first = 0
    for row, length in enumerate(lengths):
        if row > first and (row + 1 - first) * length > max_tokens:
            yield slice(first, row)
            first = row
    yield slice(first, len(lengths))


class _InPlaceLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer, written into buffers that have room for tokens to come."""

    def __init__(self, batch_size: int, prompt_length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.batch_size, self._length = batch_size, prompt_length

    def place(self, rows: slice, keys_BKTE: Tensor, values_BKTE: Tensor) -> None:
        """Put what was read from the prompts of some rows where they end."""
        if not self.is_initialized:
            self.lazy_initialization(keys_BKTE, values_BKTE)
            # Zeros: attention gives padding no weight, but no weight times NaN would be NaN.
            self._keys, self._values = (
                states.new_zeros(self.batch_size, states.shape[1], self._length + _FIRST_ROOM, states.shape[3])
                for states in (keys_BKTE, values_BKTE)
            )
            self._show()
        first = self._length - keys_BKTE.shape[2]
        self._keys[rows, :, first : self._length] = keys_BKTE
        self._values[rows, :, first : self._length] = values_BKTE

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append and return all keys and values so far, `(B, K, L, E)`, as views."""
        return self.append(key_states, value_states)

    def append(self, key_states: Tensor, value_states: Tensor) -> tuple[Tensor, Tensor]:
        """The same, without arguments that are not used."""
        first, self._length = self._length, self._length + key_states.shape[2]
        if self._length > self._keys.shape[2]:
            room = (0, 0, 0, self._length // 2)
            self._keys, self._values = functional.pad(self._keys, room), functional.pad(self._values, room)
        self._keys[:, :, first : self._length] = key_states
        self._values[:, :, first : self._length] = value_states
        return self._show()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep some sequences."""
        self._keys, self._values = self._keys[beam_idx], self._values[beam_idx]
        self._show()

    def _show(self) -> tuple[Tensor, Tensor]:
        keys, values = self._keys[:, :, : self._length], self._values[:, :, : self._length]
        self.keys, self.values = keys, values
        return keys, values


def _takes_ready_made_mask(model: PreTrainedModel) -> bool:
    """Whether a boolean 4-D mask is right for a model's decoding steps.

    Only `sdpa` reads one as "may attend": eager attention would add it to the scores. Models with ALiBi need the 2-D
    mask to find positions from.
    """
    config = model.config
    return config._attn_implementation == "sdpa" and not getattr(config, "alibi", False)


def _cache(model: PreTrainedModel, batch_size: int, prompt_length: int) -> tuple[DynamicCache, bool]:
    """A cache for a model, and whether all of its layers are of the plain kind that can be written in place."""
    cache = DynamicCache(config=model.config)
    if not cache.layers or any(type(layer) is not DynamicLayer for layer in cache.layers):
        return cache, False
    cache.layers = [_InPlaceLayer(batch_size, prompt_length) for _ in cache.layers]
    return cache, True
