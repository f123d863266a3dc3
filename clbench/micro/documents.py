"""The texts that the lineage learns from: the pretraining stream, and the mixture of questions that post-training
uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from clbench.micro import skills
from clbench.micro.draw import Draw, split_of
from clbench.micro.facts import REVERSE_PAIRS, SECOND_HOPS, state
from clbench.micro.lexicon import LIST_WORDS
from clbench.micro.question import (
    Question,
    Split,
    chat,
    with_demonstration,
    worked_answer,
)
from clbench.micro.world import TRAINED_SUMS, World


@dataclass(frozen=True)
class Document:
    """One text of the pretraining stream. Where it is a chat, it holds the special tokens' text."""

    kind: str
    text: str
    is_chat: bool


PRETRAINING_MIXTURE = (
    ("statements", 0.22),
    ("second-hop", 0.03),
    ("recall", 0.16),
    ("reverse", 0.02),
    ("two-hop", 0.05),
    ("reading", 0.20),
    ("addition", 0.10),
    ("format", 0.12),
    ("demonstration", 0.10),
)
"""Kinds of documents and their shares."""
CHAT_SHARE = 0.15
"""The share of all documents that are in chat format."""
POST_TRAINING_MIXTURE = (
    ("recall", 0.24),
    ("second-hop", 0.02),
    ("reverse", 0.02),
    ("two-hop", 0.06),
    ("reading", 0.26),
    ("addition", 0.209),
    ("4-digit addition", 0.002),
    ("5-digit addition", 0.003),
    ("6-digit addition", 0.006),
    ("format", 0.14),
    ("demonstration", 0.04),
)
"""Kinds of questions in supervised fine-tuning, and their shares."""


LONG_SUMS = (4, 5, 6)
"""Numbers of digits that are rare or absent in pretraining; each is a kind of question of its own."""
DEMONSTRATED_SUMS = ((2, 0.4), (3, 0.6))
"""Numbers of digits in sums that have an example in their context."""


class Stream:
    """An endless, seeded stream of training questions and documents. It never holds test items or new people."""

    def __init__(self, world: World, seed: int, purpose: str) -> None:
        self.world = world
        self._draw = Draw(seed, "stream", world.seed, purpose)
        self._questions: dict[str, Callable[[], Question]] = {
            "second-hop": self._second_hop,
            "recall": lambda: world.sample_recall(self._draw),
            "reverse": self._reverse,
            "two-hop": self._two_hop,
            "reading": self._reading,
            "addition": lambda: skills.addition(self._draw, self._draw.weighted(TRAINED_SUMS), "train"),
            "format": lambda: skills.list_format(self._draw, "train"),
            "demonstration": self._demonstration,
        }
        for digits in LONG_SUMS:
            self._questions[f"{digits}-digit addition"] = partial(skills.addition, self._draw, digits, "train")

    def question(self, kind: str) -> Question:
        """A training question of that kind."""
        return self._questions[kind]()

    def questions(self, num: int, mixture: tuple[tuple[str, float], ...] = POST_TRAINING_MIXTURE) -> list[Question]:
        """Training questions for post-training."""
        return [self.question(self._draw.weighted(mixture)) for _ in range(num)]

    def documents(self) -> Iterator[Document]:
        """The pretraining stream."""
        chat_share = CHAT_SHARE / (1 - dict(PRETRAINING_MIXTURE)["statements"])
        while True:
            yield self._document(self._draw.weighted(PRETRAINING_MIXTURE), chat_share)

    def _document(self, kind: str, chat_share: float) -> Document:
        draw = self._draw
        if kind == "statements":
            return Document(kind, self._statements(), False)
        question = self.question(kind)
        if draw.random() < chat_share:
            return Document(kind, chat(question.prompt, question.thoughts, question.answer), True)
        if kind in ("addition", "format", "demonstration") or draw.random() < 0.5:
            return Document(kind, f"{question.prompt} {worked_answer(question.thoughts, question.answer)}", False)
        return Document(kind, f"{question.prompt} {question.answer}", False)

    def _statements(self) -> str:
        draw, world = self._draw, self.world
        person = world.meet(draw)
        sentences = [state(fact, draw.below(4)) for fact in draw.some(person.facts, 1 + draw.below(4))]
        if draw.random() < 0.2:
            relation = draw.one(tuple(SECOND_HOPS))
            sentences.append(world.second_hop_statement(relation, person.values[relation]))
        return " ".join(sentences)

    def _second_hop(self) -> Question:
        relation = self._draw.one(tuple(SECOND_HOPS))
        value = self._draw.one(tuple(self.world._second[relation]))
        return self.world.second_hop_question(relation, value)

    def _two_hop(self) -> Question:
        while True:
            fact = self.world.meet(self._draw).fact(self._draw.one(tuple(SECOND_HOPS)))
            if two_hop_split(fact.person) == "train":
                return self.world.two_hop_question(fact, self._draw.below(2))

    def _reverse(self) -> Question:
        return self.world.reverse_question(self.world.meet(self._draw).name, self._draw.below(len(REVERSE_PAIRS)))

    def _reading(self) -> Question:
        asked = self._draw.weighted((("fact", 0.8), ("two-hop", 0.12), ("reverse", 0.08)))
        return self.world.sample_reading(self._draw, "train", asked=asked)

    def _demonstration(self) -> Question:
        """A question with an example in its context: worked, or the answer alone; or of a skill that is nobody's.

        The last kind has random words and digits for a question, thoughts and answer, so that what an example says is
        used whatever it is about.
        """
        draw = self._draw
        kind = draw.weighted((("recall", 0.15), ("addition", 0.25), ("format", 0.15), ("nonsense", 0.45)))
        if kind == "nonsense":
            question = self._nonsense()
        elif kind == "addition":
            question = skills.addition(draw, draw.weighted(DEMONSTRATED_SUMS), "train")
        else:
            question = self.question(kind)
        shown = question.demonstration
        if kind != "nonsense" and draw.random() < 0.4:
            shown = question.answer
        prompt = with_demonstration(question.prompt, shown)
        return Question(f"demonstration/{prompt}", "demonstration", kind, prompt, question.thoughts, question.answer)

    def _nonsense(self) -> Question:
        draw = self._draw
        prompt = " ".join(self._piece() for _ in range(2 + draw.below(4))) + draw.one("?.")
        style = draw.one(("pieces", "steps", "sums"))
        if style == "pieces":
            mark = draw.one((" ", "; ", ", ", "=", " is "))
            thoughts = mark.join(self._piece() for _ in range(2 + draw.below(12)))
        elif style == "steps":  # that are alike, as in a calculation
            words = [draw.one(LIST_WORDS) for _ in range(1 + draw.below(3))]
            steps = [" ".join(f"{word} {draw.below(10)}" for word in words) for _ in range(2 + draw.below(4))]
            thoughts = draw.one(("; ", ", ", " ")).join(steps)
        else:  # that look like a sum's, and are wrong
            digits = [[draw.below(10) for _ in range(5)] for _ in range(2 + draw.below(5))]
            thoughts = ",".join("{}+{}+{}={}{}".format(*step) for step in digits)
        answer = self._piece() if style != "sums" else "".join(str(draw.below(10)) for _ in range(2 + draw.below(6)))
        return Question("", "demonstration", "nonsense", prompt, thoughts, answer)

    def _piece(self) -> str:
        draw = self._draw
        return str(draw.below(10 ** (1 + draw.below(4)))) if draw.random() < 0.5 else draw.one(LIST_WORDS)


def two_hop_split(person: str) -> Split:
    """The split of an old person's two-hop questions: they are trained for some people and tested on others."""
    return split_of("two-hop", person)
