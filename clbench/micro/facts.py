"""People and what is so about them: relations, how they are stated and asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clbench.micro.lexicon import CITIES, FOODS, JOBS, PETS


@dataclass(frozen=True)
class Relation:
    """One kind of fact: its possible values and its phrasings. `{p}` is the person, `{v}` the value."""

    name: str
    values: tuple[str, ...]
    statements: tuple[str, ...]
    """The first one is also how the model states the fact in its thoughts."""
    questions: tuple[str, ...]


@dataclass(frozen=True)
class Fact:
    """One value of one person."""

    person: str
    relation: str
    value: str


@dataclass(frozen=True)
class Person:
    """A name and a value for every relation."""

    name: str
    values: Mapping[str, str] = field(hash=False)

    def fact(self, relation: str) -> Fact:
        """The person's fact of that relation."""
        return Fact(self.name, relation, self.values[relation])

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All of the person's facts, in the order of `RELATIONS`."""
        return tuple(self.fact(relation) for relation in RELATIONS)


@dataclass(frozen=True)
class SecondHop:
    """What is known of a relation's values: cities lie in countries, jobs use tools."""

    relation: str
    statement: str
    """`{v}` is the first hop's value, `{w}` the second's."""
    direct_question: str
    """Asks `{w}` for `{v}`."""
    questions: tuple[str, ...]
    """Ask `{w}` for a person."""


_RELATIONS = (
    Relation(
        "city",
        CITIES,
        ("{p} lives in {v}.", "the home of {p} is in {v}.", "{p} has a house in {v}.", "{v} is where {p} lives."),
        (
            "where does {p} live?",
            "which city is the home of {p}?",
            "in which city does {p} have a house?",
            "what is the city of {p}?",
            "name the place where {p} lives.",
        ),
    ),
    Relation(
        "job",
        JOBS,
        ("{p} works as {v}.", "the job of {p} is {v}.", "{p} earns money as {v}.", "{v} is the work of {p}."),
        (
            "what does {p} work as?",
            "what is the job of {p}?",
            "how does {p} earn money?",
            "which work does {p} do?",
            "name the job that {p} has.",
        ),
    ),
    Relation(
        "food",
        FOODS,
        ("{p} likes to eat {v}.", "the best food for {p} is {v}.", "{p} eats {v} each day.", "{v} is what {p} eats."),
        (
            "what does {p} like to eat?",
            "what is the best food for {p}?",
            "what does {p} eat each day?",
            "which food does {p} like?",
            "name the food that {p} eats.",
        ),
    ),
    Relation(
        "pet",
        PETS,
        ("{p} keeps one {v}.", "the pet of {p} is {v}.", "{p} has {v} as pet.", "{v} is the pet that {p} keeps."),
        (
            "which pet does {p} keep?",
            "what is the pet of {p}?",
            "what does {p} have as pet?",
            "which animal does {p} keep?",
            "name the animal that {p} has.",
        ),
    ),
)
RELATIONS: dict[str, Relation] = {relation.name: relation for relation in _RELATIONS}
NUM_FORMS = 5
"""Question forms of a relation."""

SECOND_HOPS: dict[str, SecondHop] = {
    "city": SecondHop(
        "city",
        "{v} is in {w}.",
        "which country is {v} in?",
        ("which country does {p} live in?", "in which country is the home of {p}?"),
    ),
    "job": SecondHop(
        "job",
        "one who works as {v} uses the {w}.",
        "which tool does one who works as {v} use?",
        ("which tool does {p} use at work?", "what is the tool of {p}?"),
    ),
}
REVERSE_PAIRS = (("city", "job"), ("food", "pet"))
"""Pairs of relations whose values, taken together, belong to one person only."""
REVERSE_QUESTIONS = ("who lives in {a} and works as {b}?", "who likes to eat {a} and keeps one {b}?")


def state(fact: Fact, form: int = 0) -> str:
    """The fact as a sentence."""
    return RELATIONS[fact.relation].statements[form].format(p=fact.person, v=fact.value)
