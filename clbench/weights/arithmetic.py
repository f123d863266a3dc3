"""Working out recipes: float32 arithmetic, tensor by tensor, rounded once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

from clbench.errors import UserError
from clbench.records import DeltaStatistics
from clbench.weights.files import CheckpointReader
from clbench.weights.masks import Selection, select_highest
from clbench.weights.recipe import Atom, Checkpoint, Mask, Recipe

TOP_SHARE = 0.01
"""The share of coordinates that Fig. 8 (right) of 2610.05872 sums over."""


class WeightArithmetic:
    """Works out recipes against θ_post, whose names, shapes and dtypes every result has.

    Files stay open (mapped) and mask selections are remembered for the lifetime; use it as a context manager.
    """

    def __init__(self, post: Recipe) -> None:
        checkpoint = post.single
        if checkpoint is None:
            raise ValueError("θ_post must be a checkpoint")
        self.post = post
        self._stack = ExitStack()
        self._readers: dict[str, CheckpointReader] = {}
        self._selections: dict[str, Selection] = {}
        self._like = self._reader(checkpoint)

    def __enter__(self) -> WeightArithmetic:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Tensor names, sorted: the order of everything that goes over the whole model."""
        return self._like.names

    def tensors(self, recipe: Recipe) -> Iterator[tuple[str, Tensor]]:
        """The model that `recipe` describes, tensor by tensor, in θ_post's dtypes.

        Floating-point tensors are worked out in float32 and rounded once, to nearest; others are θ_post's.

        Raises:
            UserError: if the recipe is an update and not a model, or a checkpoint does not fit θ_post.
        """
        if recipe.weight != 1:
            raise UserError(
                f"{recipe.formula()} is no model: its checkpoints' coefficients sum to {float(recipe.weight):g}, "
                "not to 1."
            )
        for checkpoint in recipe.checkpoints():
            self._check_fits(checkpoint)
        for name in self.names:
            like = self._like.tensor(name)
            yield name, self._value(recipe, name).to(like.dtype) if like.is_floating_point() else like

    def load_into(self, model: torch.nn.Module, recipe: Recipe) -> str:
        """Overwrite a model's parameters in place; returns SHA-256 over the rounded tensors.

        The model may hold another dtype than θ_post (float32 for arithmetic on a CPU): values are rounded to θ_post's
        dtype first, so that what is measured is what would be saved.
        """
        state = model.state_dict()
        sha256 = hashlib.sha256()
        with torch.no_grad():
            for name, tensor in self.tensors(recipe):
                if name not in state:
                    raise UserError(f"the model has no tensor {name!r}, which {self.post.formula()} has.")
                state[name].copy_(tensor)
                _update_hash(sha256, name, tensor)
        return sha256.hexdigest()

    def delta_statistics(self, recipe: Recipe, fisher: Recipe | None) -> DeltaStatistics:
        """How far the (rounded) candidate lies from θ_post, in float64 sums."""
        squares = post_squares = weighted = 0.0
        changed = total = 0
        selection = self._selection(Mask("fisher", TOP_SHARE, fisher), None) if fisher is not None else None
        for name, tensor in self.tensors(recipe):
            if not tensor.is_floating_point():
                continue
            post = self._like.tensor(name).to(torch.float32)
            delta = tensor.to(torch.float32) - post
            squares += float(delta.double().square().sum())
            post_squares += float(post.double().square().sum())
            changed += int((delta != 0).sum())
            total += delta.numel()
            if fisher is not None and selection is not None:
                scores = self._value(fisher, name)
                top = selection.mask(name, scores)
                weighted += float((scores.double() * delta.double().square())[top].sum())
        return DeltaStatistics(
            norm=math.sqrt(squares),
            relative_norm=math.sqrt(squares / post_squares) if post_squares else 0.0,
            changed_share=changed / total,
            fisher_weighted_top=weighted if fisher is not None else None,
        )

    def _value(self, recipe: Recipe, name: str) -> Tensor:
        """One tensor of a recipe in float32.

        A combination of checkpoints is taken relative to the first of them, Σ c_i θ_i = (Σ c_i) θ_1 + Σ c_i (θ_i −
        θ_1): differences of near-by weights are exact or nearly so, sums of whole weights are not.
        """
        if recipe.single is not None:
            return self._reader(recipe.single).tensor(name).to(torch.float32)
        weights = [(float(c), atom) for c, atom in recipe.terms if atom.is_weights]
        updates = [(float(c), atom) for c, atom in recipe.terms if not atom.is_weights]
        result: Tensor | None = None
        if weights:
            anchor = self._atom(weights[0][1], name)
            total = float(recipe.weight)
            result = anchor.clone() if total == 1 else anchor * total
            for coefficient, atom in weights[1:]:
                result.add_(self._atom(atom, name) - anchor, alpha=coefficient)
        for coefficient, atom in updates:
            update = self._atom(atom, name)
            result = update.mul_(coefficient) if result is None else result.add_(update, alpha=coefficient)
        return torch.zeros(self._like.shape(name)) if result is None else result

    def _atom(self, atom: Atom, name: str) -> Tensor:
        if atom.checkpoint is not None:
            return self._reader(atom.checkpoint).tensor(name).to(torch.float32)
        assert atom.delta is not None and atom.mask is not None
        delta = self._value(atom.delta, name)
        scores = delta.abs() if atom.mask.rule == "delta" else self._scores(atom.mask, atom.delta, name)
        return delta.masked_fill_(self._selection(atom.mask, atom.delta).mask(name, scores), 0.0)

    def _scores(self, mask: Mask, delta: Recipe | None, name: str) -> Tensor:
        if mask.rule == "random":
            shape = self._like.shape(name)
            entropy = int.from_bytes(hashlib.sha256(f"{mask.seed}/{name}".encode()).digest()[:16], "big")
            return torch.from_numpy(np.random.Generator(np.random.Philox(entropy)).random(shape, dtype=np.float32))
        if mask.rule == "delta":
            assert delta is not None
            return self._value(delta, name).abs()
        assert mask.scores is not None
        return self._value(mask.scores, name).abs()

    def _selection(self, mask: Mask, delta: Recipe | None) -> Selection:
        about = (
            delta.key if mask.rule == "delta" and delta is not None else mask.scores.key if mask.scores else mask.seed
        )
        key = f"{mask.rule}/{mask.rho!r}/{about}"
        if key not in self._selections:
            floating = [name for name in self.names if self._like.tensor(name).is_floating_point()]
            self._selections[key] = select_highest(
                lambda: ((name, self._scores(mask, delta, name)) for name in floating), mask.rho
            )
        return self._selections[key]

    def _reader(self, checkpoint: Checkpoint) -> CheckpointReader:
        key = str(checkpoint.directory)
        if key not in self._readers:
            self._readers[key] = self._stack.enter_context(CheckpointReader(checkpoint.directory))
        return self._readers[key]

    def _check_fits(self, checkpoint: Checkpoint) -> None:
        reader = self._reader(checkpoint)
        if reader.names != self.names:
            odd = sorted(set(reader.names) ^ set(self.names))
            raise UserError(
                f"{checkpoint.name} and {self.post.formula()} have different tensors: {len(reader.names)} and "
                f"{len(self.names)}, the first that only one of them has is {odd[0]!r}."
            )
        for name in self.names:
            if reader.shape(name) != self._like.shape(name):
                raise UserError(
                    f"{checkpoint.name} and {self.post.formula()} differ in the shape of {name!r}: "
                    f"{list(reader.shape(name))} and {list(self._like.shape(name))}."
                )


def _update_hash(sha256: hashlib._Hash, name: str, tensor: Tensor) -> None:
    sha256.update(name.encode() + b"\0" + str(tensor.dtype).encode() + str(list(tensor.shape)).encode())
    sha256.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
