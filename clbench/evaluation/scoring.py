"""Verifiers: how right an answer is."""

from __future__ import annotations

from clbench.task import Item


def normalised(text: str) -> str:
    """Lower case, white space runs made one space, no final full stop."""
    return " ".join(text.lower().split()).removesuffix(".").rstrip()


def exact_match(answer: str, item: Item) -> float:
    """1 if the answer is the target, up to case, white space and a final full stop."""
    return float(normalised(answer) == normalised(item.target))


def contains(answer: str, item: Item) -> float:
    """1 if the target stands in the answer as whole words (the lenient reading of `exact_match`)."""
    return float(f" {normalised(item.target)} " in f" {normalised(answer)} ")
