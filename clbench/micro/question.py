"""A question with its gold thoughts and answer, and the plain-text forms that questions take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "validation", "test"]

USER, ASSISTANT, END_OF_TURN, PAD = "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
SPECIAL_TOKENS = (PAD, END_OF_TURN, USER, ASSISTANT, THINK_OPEN, THINK_CLOSE)


@dataclass(frozen=True)
class Question:
    """One question of the world."""

    id: str
    skill: str
    form: str
    prompt: str
    thoughts: str
    answer: str
    passage: str | None = None
    """Privileged text from which it can be answered; None where the prompt holds it already or there is none."""

    @property
    def demonstration(self) -> str:
        """Privileged: the question's own thoughts and answer as plain text."""
        return worked_answer(self.thoughts, self.answer)


def worked_answer(thoughts: str, answer: str) -> str:
    """Thoughts and answer outside a chat, as demonstrations and plain documents write them."""
    return f"{thoughts} so {answer}"


def with_passage(question: str, passage: str) -> str:
    """A question with a passage in its context."""
    return f"{passage}\n{question}"


def with_demonstration(question: str, demonstration: str) -> str:
    """A question with an example (a worked answer, or an answer alone) in its context."""
    return f"{question}\nexample: {demonstration}\nnow you:"


def response(thoughts: str, answer: str) -> str:
    """What the assistant writes."""
    return f"{THINK_OPEN} {thoughts} {THINK_CLOSE} {answer}"


def chat(prompt: str, thoughts: str, answer: str) -> str:
    """A whole conversation of one turn, as the chat template renders it."""
    return f"{USER} {prompt}{ASSISTANT}{response(thoughts, answer)}{END_OF_TURN}"
