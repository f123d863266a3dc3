"""Recipes: immutable expressions over checkpoints.

`post + 0.7 * (trained - donor).protect(fisher, 0.001)` builds an expression and touches no tensor. A recipe is worked
out tensor by tensor when it is loaded into a model or written to disk (`clbench.weights.arithmetic`).

Every recipe is kept in one normal form, a linear combination with exact rational coefficients. Equal terms are
collected, so `post + 1.0 * (trained - post)` *is* `trained` and `post + 0.0 * delta` *is* `post`, bit for bit, and
merging at scale λ is WiSE-FT (2109.01903) at α = λ because both are the same expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from clbench.canonical import digest
from clbench.errors import UserError

MaskRule = Literal["fisher", "magnitude", "delta", "random"]
MASK_RULES: tuple[MaskRule, ...] = ("fisher", "magnitude", "delta", "random")
"""What orders the coordinates that a mask protects: retention Fisher, |θ_post|, |Δ|, or chance."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder of safetensors files, by source and content."""

    name: str
    """How formulas call it."""
    source: str
    """`lineage:micro/post`, `store:KEY/FOLDER`, `path:…`: where it is found again."""
    sha256: str | None
    """Hash of its weights; None for a store artefact, whose key already says what it is."""
    directory: Path
    """Where it lies on this machine. No part of its identity."""

    def identity(self) -> dict[str, Any]:
        """What stage keys are made from: content where it is known, else the key of what makes it."""
        return {"sha256": self.sha256} if self.sha256 is not None else {"source": self.source}


@dataclass(frozen=True)
class Mask:
    """Which coordinates an update may not write: the share `rho` with the highest scores, over the whole model."""

    rule: MaskRule
    rho: float
    scores: Recipe | None = None
    """The checkpoint that scores come from: Fisher values, or θ_post for `magnitude`."""
    seed: int = 0
    """For `random`."""

    def to_json(self, identity_only: bool) -> dict[str, Any]:
        """JSON of the mask; see `Recipe.to_json`."""
        value: dict[str, Any] = {"rule": self.rule, "rho": self.rho}
        if self.scores is not None:
            value["scores"] = self.scores.to_json(identity_only=identity_only)
        if self.rule == "random":
            value["seed"] = self.seed
        return value


@dataclass(frozen=True)
class Atom:
    """What a linear combination is made of: a checkpoint, or an update with a mask."""

    checkpoint: Checkpoint | None = None
    delta: Recipe | None = None
    mask: Mask | None = None

    @property
    def is_weights(self) -> bool:
        """Whether this is a model's weights (a checkpoint) and not an update."""
        return self.checkpoint is not None

    @cached_property
    def key(self) -> str:
        """SHA-256 of the atom's identity."""
        return digest(self.to_json(identity_only=True))

    def to_json(self, identity_only: bool) -> dict[str, Any]:
        """JSON of the atom; see `Recipe.to_json`."""
        if self.checkpoint is not None:
            c = self.checkpoint
            return {
                "checkpoint": c.identity() if identity_only else {"name": c.name, "source": c.source, **c.identity()}
            }
        assert self.delta is not None and self.mask is not None
        return {
            "protect": {
                "delta": self.delta.to_json(identity_only=identity_only),
                "mask": self.mask.to_json(identity_only),
            }
        }

    def formula(self) -> str:
        """The atom as a person writes it."""
        if self.checkpoint is not None:
            return self.checkpoint.name
        assert self.delta is not None and self.mask is not None
        return f"protect({self.delta.formula()}, {self.mask.rule}, {_number(self.mask.rho)})"


class Recipe:
    """A linear combination of atoms, in normal form. Build one from `Recipe.of(checkpoint)` and the operators."""

    __slots__ = ("_atoms", "_coefficients", "_key")

    def __init__(self, terms: Iterator[tuple[Fraction, Atom]]) -> None:
        coefficients: dict[str, Fraction] = {}
        atoms: dict[str, Atom] = {}
        for coefficient, atom in terms:
            atoms.setdefault(atom.key, atom)
            coefficients[atom.key] = coefficients.get(atom.key, Fraction(0)) + coefficient
        self._coefficients = {key: value for key, value in coefficients.items() if value != 0}
        self._atoms = {key: atoms[key] for key in self._coefficients}
        self._key: str | None = None

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Recipe:
        """The checkpoint itself."""
        return cls(iter([(Fraction(1), Atom(checkpoint=checkpoint))]))

    @property
    def terms(self) -> tuple[tuple[Fraction, Atom], ...]:
        """Coefficients and atoms, in the order in which they were first written."""
        return tuple((self._coefficients[key], atom) for key, atom in self._atoms.items())

    @property
    def weight(self) -> Fraction:
        """Sum of the checkpoints' coefficients: 1 for a model, 0 for an update."""
        return sum((value for value, atom in self.terms if atom.is_weights), Fraction(0))

    @property
    def single(self) -> Checkpoint | None:
        """The checkpoint that this recipe is, if it is nothing else."""
        if len(self.terms) != 1:
            return None
        coefficient, atom = self.terms[0]
        return atom.checkpoint if coefficient == 1 else None

    @property
    def key(self) -> str:
        """SHA-256 of the recipe's identity."""
        if self._key is None:
            self._key = digest(self.to_json(identity_only=True))
        return self._key

    def __add__(self, other: Recipe) -> Recipe:
        if not isinstance(other, Recipe):
            return NotImplemented
        return Recipe(iter([*self.terms, *other.terms]))

    def __sub__(self, other: Recipe) -> Recipe:
        if not isinstance(other, Recipe):
            return NotImplemented
        return self + other * -1

    def __mul__(self, factor: float | int | Fraction) -> Recipe:
        exact = _fraction(factor)
        return Recipe(iter([(coefficient * exact, atom) for coefficient, atom in self.terms]))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Recipe({self.formula()})"

    def protect(self, scores: Recipe | None, rho: float, *, rule: MaskRule = "fisher", seed: int = 0) -> Recipe:
        """M_ρ ⊙ Δ (2610.05872): this update, zero on the share ρ of coordinates with the highest scores.

        Exactly round(ρ · N) of the N floating-point coordinates are protected, over the whole model at once; among
        equal scores those of earlier tensors (by name) and lower index come first.

        Args:
            scores: where scores are read: the Fisher checkpoint, θ_post for `magnitude`; None for `delta` and `random`.
            rho: share of coordinates, 0 (no mask: the update itself) to 1 (nothing is written).
            rule: what orders the coordinates.
            seed: for `random`.

        Raises:
            UserError: for ρ outside [0, 1], or if this is a model and no update.
        """
        if not (isinstance(rho, int | float) and 0.0 <= rho <= 1.0):
            raise UserError(f"protect (ρ) is a share of coordinates between 0 and 1, got {rho!r}.")
        if self.weight != 0:
            raise UserError(f"only an update (a difference of checkpoints) can be protected, not {self.formula()}.")
        if rule in ("fisher", "magnitude") and scores is None:
            raise UserError(f"a {rule} mask needs a checkpoint of scores.")
        if rho == 0 or not self.terms:
            return self
        if rho == 1:
            return Recipe(iter(()))
        mask = Mask(rule, float(rho), scores if rule in ("fisher", "magnitude") else None, seed)
        return Recipe(iter([(Fraction(1), Atom(delta=self, mask=mask))]))

    def checkpoints(self) -> Iterator[Checkpoint]:
        """Every checkpoint that the recipe reads, masks included, each once."""
        seen: set[str] = set()
        for atom in self._walk():
            if atom.checkpoint is not None and atom.key not in seen:
                seen.add(atom.key)
                yield atom.checkpoint

    def _walk(self) -> Iterator[Atom]:
        for _, atom in self.terms:
            yield atom
            if atom.delta is not None:
                yield from atom.delta._walk()
            if atom.mask is not None and atom.mask.scores is not None:
                yield from atom.mask.scores._walk()

    def to_json(self, *, identity_only: bool = False) -> dict[str, Any]:
        """The recipe as JSON; `from_json` reads it back.

        With `identity_only`, names and places are left out: two recipes with the same identity give the same weights.
        The terms are then sorted, since their order does not matter.
        """
        terms = [[str(value), atom.to_json(identity_only)] for value, atom in self.terms]
        if identity_only:
            terms.sort(key=digest)
        return {"sum": terms}

    @classmethod
    def from_json(cls, value: dict[str, Any], locate: Callable[[dict[str, Any]], Checkpoint]) -> Recipe:
        """Read a recipe. `locate` turns a checkpoint's JSON (`name`, `source`, maybe `sha256`) into a `Checkpoint`."""

        def atom(part: dict[str, Any]) -> Atom:
            if "checkpoint" in part:
                return Atom(checkpoint=locate(part["checkpoint"]))
            inner = part["protect"]
            mask = inner["mask"]
            scores = cls.from_json(mask["scores"], locate) if "scores" in mask else None
            return Atom(
                delta=cls.from_json(inner["delta"], locate),
                mask=Mask(mask["rule"], mask["rho"], scores, mask.get("seed", 0)),
            )

        return cls((Fraction(coefficient), atom(part)) for coefficient, part in value["sum"])

    def formula(self) -> str:
        """The recipe as a person writes it, e.g. `post + 0.7 * (trained - base)`."""
        if not self.terms:
            return "0"
        groups: list[tuple[Fraction, str]] = []
        for coefficient, atom in self.terms:
            # A term taken away belongs to the last one that was added with the same factor: a delta.
            last = groups[-1] if groups else (Fraction(0), "")
            if coefficient < 0 and last[0] == -coefficient and not last[1].startswith("("):
                groups[-1] = (last[0], f"({last[1]} - {atom.formula()})")
            else:
                groups.append((coefficient, atom.formula()))
        text = ""
        for coefficient, name in groups:
            size = abs(coefficient)
            part = name if size == 1 else f"{_number(float(size))} * {name}"
            if not text:
                text = part if coefficient > 0 else f"-{part}"
            else:
                text += f" + {part}" if coefficient > 0 else f" - {part}"
        return text[1:-1] if len(groups) == 1 and text.startswith("(") else text


def _fraction(factor: float | int | Fraction) -> Fraction:
    if isinstance(factor, Fraction):
        return factor
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not math.isfinite(factor):
        raise UserError(f"a scale is a finite number, got {factor!r}.")
    # The decimal that was written, so that 1 - 0.3 and 0.7 are the same number.
    return Fraction(repr(factor))


def _number(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)
