"""The procedural world: people, facts and skills, and every question that the lineage is taught or tested on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from clbench.micro import skills
from clbench.micro.draw import Draw, split_of
from clbench.micro.facts import (
    NUM_FORMS,
    RELATIONS,
    REVERSE_PAIRS,
    REVERSE_QUESTIONS,
    SECOND_HOPS,
    Fact,
    Person,
    state,
)
from clbench.micro.lexicon import COUNTRIES, FIRST_NAMES, LAST_NAMES, TOOLS
from clbench.micro.question import Question, Split, with_demonstration, with_passage

__all__ = ["Fact", "Person", "Question", "Split", "World", "with_demonstration", "with_passage"]

NUM_OLD, NUM_RARE, NUM_NEW = 240, 80, 60
RARE_WEIGHT = 0.25
"""How often a rare old person is met, relative to a common one."""
NUM_NEW_FIRST_NAMES = NUM_NEW_LAST_NAMES = 16
"""New people take their names from this many first and last names, so that about half of the old share one."""

TRAINED_SUMS = ((2, 0.4), (3, 0.592), (4, 0.006), (5, 0.002))
"""Numbers of digits in training, with their shares."""
TESTED_SUMS = ((2, 0.15), (3, 0.35), (4, 0.35), (5, 0.15))
"""Numbers of digits that count as the addition skill."""


class World:
    """Everything that is so in the world of one seed, and what can be asked about it.

    Old people have facts that the lineage is trained on, new people have facts that it never sees, and fresh people
    appear in one passage only, so that reading cannot be replaced by remembering.
    """

    skills: tuple[str, ...] = ("addition", "recall", "reading", "format")
    """The skills that the lineage has: θ_post's old tasks."""
    new_skills: tuple[str, ...] = ("subtraction",)
    """Skills that are in no training data of the lineage."""
    trained_forms: tuple[int, ...] = (0, 1, 2)
    """Question forms that a knowledge-injection task may train on."""
    paraphrase_forms: tuple[int, ...] = (3, 4)
    """Question forms that it keeps for testing; the model knows them from old people."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        draw = Draw(seed, "world")
        names = self._names(draw)
        self._taken: set[tuple[str, str]] = set()
        self.old_people = tuple(self._person(name, draw) for name in names[:NUM_OLD])
        self.new_people = tuple(self._person(name, draw) for name in names[NUM_OLD:])
        self.rare_people = frozenset(person.name for person in self.old_people[:NUM_RARE])
        self.new_facts = tuple(fact for person in self.new_people for fact in person.facts)
        self.people = {person.name: person for person in self.old_people + self.new_people}
        self._second = {
            "city": _pair_off(RELATIONS["city"].values, COUNTRIES, draw),
            "job": _pair_off(RELATIONS["job"].values, TOOLS, draw),
        }
        weights = [RARE_WEIGHT if person.name in self.rare_people else 1.0 for person in self.old_people]
        total = sum(weights)
        self._met = tuple((p, w / total) for p, w in zip(self.old_people, weights, strict=True))
        self._cumulative = tuple(accumulate(share for _, share in self._met))
        self._samplers: dict[str, Callable[[Draw, Split], Question]] = {
            "addition": lambda draw, split: skills.addition(draw, draw.weighted(TESTED_SUMS), split),
            "subtraction": lambda draw, split: skills.subtraction(draw, draw.weighted(TESTED_SUMS), split),
            "format": skills.list_format,
            "reading": self.sample_reading,
            "recall": self._sample_recall_evenly,
        }

    # --- what is asked of the skills -------------------------------------------------------------------------------

    def questions(
        self, skill: str, split: Split, num: int, *, seed: int = 0, digits: int | None = None
    ) -> list[Question]:
        """The first `num` different questions of a skill's split; equal arguments give equal lists.

        Splits are disjoint whatever the seeds, and a longer list begins with the shorter one. `digits` fixes the
        length of the numbers in addition and subtraction.

        Raises:
            ValueError: for an unknown skill, `digits` where there are none, or more questions than there are.
        """
        if skill not in self._samplers:
            raise ValueError(f"the micro world has no skill {skill!r}; it has {', '.join(self._samplers)}")
        sample = self._samplers[skill]
        if digits is not None:
            of_length = {"addition": skills.addition, "subtraction": skills.subtraction}.get(skill)
            if of_length is None or digits < 1:
                raise ValueError(f"digits={digits} does not fit the skill {skill!r}")

            def sample(draw: Draw, split: Split) -> Question:
                return of_length(draw, digits, split)

        draw = Draw(seed, "questions", self.seed, skill, split, digits or 0)
        found: dict[str, Question] = {}
        misses = 0
        while len(found) < num:
            question = sample(draw, split)
            misses = misses + 1 if question.prompt in found else 0
            found.setdefault(question.prompt, question)
            if misses > 2000:
                raise ValueError(f"{skill} has no {num} different {split} questions, only {len(found)}")
        return list(found.values())

    @staticmethod
    def verify(question: Question, answer: str) -> bool:
        """Whether an answer (without thoughts) is the right one, white space aside."""
        return " ".join(answer.split()) == " ".join(question.answer.split())

    # --- facts -----------------------------------------------------------------------------------------------------

    def fact_question(self, fact: Fact, form: int) -> Question:
        """Asks for a fact's value, in one of the five forms of its relation."""
        return Question(
            id=f"fact/{fact.person}/{fact.relation}/{form}",
            skill="recall",
            form=f"{fact.relation} {form}",
            prompt=RELATIONS[fact.relation].questions[form].format(p=fact.person),
            thoughts=state(fact),
            answer=fact.value,
            passage=self.fact_passage(fact.person) if fact.person in self.people else None,
        )

    def reverse_question(self, person: str, form: int = 0) -> Question:
        """Asks who it is that has two values which, together, only this person has (form 0 or 1)."""
        first, second = (self.people[person].fact(relation) for relation in REVERSE_PAIRS[form])
        return Question(
            id=f"reverse/{person}/{form}",
            skill="reverse",
            form=f"{first.relation} and {second.relation}",
            prompt=REVERSE_QUESTIONS[form].format(a=first.value, b=second.value),
            thoughts=f"{state(first)} {state(second)}",
            answer=person,
            passage=self.fact_passage(person),
        )

    def two_hop_question(self, fact: Fact, form: int = 0) -> Question:
        """Asks for the country of a person's city, or the tool of a person's job (form 0 or 1).

        Raises:
            ValueError: for relations without a second hop: food and pet.
        """
        if fact.relation not in SECOND_HOPS:
            raise ValueError(f"there is no second hop from {fact.relation!r}, only from {', '.join(SECOND_HOPS)}")
        return Question(
            id=f"two-hop/{fact.person}/{fact.relation}/{form}",
            skill="two-hop",
            form=f"{fact.relation} {form}",
            prompt=SECOND_HOPS[fact.relation].questions[form].format(p=fact.person),
            thoughts=f"{state(fact)} {self.second_hop_statement(fact.relation, fact.value)}",
            answer=self.second_hop(fact.relation, fact.value),
            passage=self.fact_passage(fact.person) if fact.person in self.people else None,
        )

    def second_hop_question(self, relation: str, value: str) -> Question:
        """Asks which country a city is in, or which tool a job uses."""
        return Question(
            id=f"second-hop/{value}",
            skill="second-hop",
            form=relation,
            prompt=SECOND_HOPS[relation].direct_question.format(v=value),
            thoughts=self.second_hop_statement(relation, value),
            answer=self.second_hop(relation, value),
        )

    def neighbour_questions(self, split: Split, num: int, *, seed: int = 0) -> list[Question]:
        """Recall questions about old people who share a first or last name with a new one."""
        return self._recall_where(self.is_neighbour, split, num, seed, "neighbours")

    def stranger_questions(self, split: Split, num: int, *, seed: int = 0) -> list[Question]:
        """Recall questions about old people who share no name with a new one."""
        return self._recall_where(lambda name: not self.is_neighbour(name), split, num, seed, "strangers")

    def is_neighbour(self, person: str) -> bool:
        """Whether an old person shares a first or last name with a new one."""
        first, last = person.split()
        return any(first == f or last == n for f, n in (new.name.split() for new in self.new_people))

    def second_hop(self, relation: str, value: str) -> str:
        """The country of a city, or the tool of a job."""
        return self._second[relation][value]

    def second_hop_statement(self, relation: str, value: str) -> str:
        """The same as a sentence."""
        return SECOND_HOPS[relation].statement.format(v=value, w=self.second_hop(relation, value))

    def fact_passage(self, person: str) -> str:
        """A passage, in the style of the reading skill, that states all facts of an old or new person."""
        draw = Draw(self.seed, "passage", person)
        return " ".join(state(fact, draw.below(4)) for fact in draw.some(self.people[person].facts, len(RELATIONS)))

    # --- what training draws ---------------------------------------------------------------------------------------

    def meet(self, draw: Draw) -> Person:
        """An old person, as often as they are met in training."""
        from bisect import bisect

        return self.old_people[min(bisect(self._cumulative, draw.random()), NUM_OLD - 1)]

    def sample_recall(self, draw: Draw) -> Question:
        """A training question about an old person, as often as the person is met."""
        while True:
            fact, form = self.meet(draw).fact(draw.one(tuple(RELATIONS))), draw.below(NUM_FORMS)
            if _recall_split(fact, form) == "train":
                return self.fact_question(fact, form)

    def sample_reading(self, draw: Draw, split: Split = "train", *, asked: str = "fact") -> Question:
        """A passage about one to three fresh people and a question about one of them.

        `asked` is `fact`, or, for training only, `two-hop` or `reverse`.
        """
        people = self._fresh_people(draw, 1 + draw.weighted(((0, 0.3), (1, 0.5), (2, 0.2))), split)
        told = [draw.some(person.facts, 4 if len(people) < 3 else 3) for person in people]
        passage = " ".join(state(fact, draw.below(4)) for facts in told for fact in facts)
        which = draw.below(len(people))
        if asked == "reverse":
            facts = {fact.relation: fact for fact in people[which].facts}
            form = draw.below(2)
            if all(relation in {fact.relation for fact in told[which]} for relation in REVERSE_PAIRS[form]):
                first, second = (facts[relation] for relation in REVERSE_PAIRS[form])
                prompt = REVERSE_QUESTIONS[form].format(a=first.value, b=second.value)
                return _read(passage, "reverse", prompt, f"{state(first)} {state(second)}", people[which].name)
        hops = [fact for fact in told[which] if fact.relation in SECOND_HOPS]
        if asked == "two-hop" and hops:
            question = self.two_hop_question(draw.one(hops), draw.below(2))
        else:
            question = self.fact_question(draw.one(told[which]), draw.below(NUM_FORMS))
        return _read(passage, question.form, question.prompt, question.thoughts, question.answer)

    def _sample_recall_evenly(self, draw: Draw, split: Split) -> Question:
        while True:
            fact, form = draw.one(self.old_people).fact(draw.one(tuple(RELATIONS))), draw.below(NUM_FORMS)
            if _recall_split(fact, form) == split:
                return self.fact_question(fact, form)

    def _recall_where(
        self, wanted: Callable[[str], bool], split: Split, num: int, seed: int, purpose: str
    ) -> list[Question]:
        questions = [
            self.fact_question(fact, form)
            for person in self.old_people
            if wanted(person.name)
            for fact in person.facts
            for form in range(NUM_FORMS)
            if _recall_split(fact, form) == split
        ]
        if num > len(questions):
            raise ValueError(f"there are no {num} {split} questions about {purpose}, only {len(questions)}")
        return Draw(seed, purpose, self.seed, split).some(questions, num)

    def _fresh_people(self, draw: Draw, num: int, split: Split) -> list[Person]:
        people: dict[str, Person] = {}
        alike = draw.random() < 0.3  # people who share a first name are easily taken for one another
        first = draw.one(FIRST_NAMES)
        while len(people) < num:
            same = alike and draw.random() < 0.9  # not always: a split may hold no other of that name
            name = f"{first if same else draw.one(FIRST_NAMES)} {draw.one(LAST_NAMES)}"
            if name not in self.people and name not in people and split_of("fresh", name) == split:
                values = {relation.name: draw.one(relation.values) for relation in RELATIONS.values()}
                people[name] = Person(name, values)
        return list(people.values())

    @staticmethod
    def _names(draw: Draw) -> list[str]:
        first_names, last_names = draw.some(FIRST_NAMES, 48), draw.some(LAST_NAMES, 48)
        of_new = [f"{f} {n}" for f in first_names[:NUM_NEW_FIRST_NAMES] for n in last_names[:NUM_NEW_LAST_NAMES]]
        new = draw.some(of_new, NUM_NEW)
        others = [f"{f} {n}" for f in first_names for n in last_names if f"{f} {n}" not in set(new)]
        return draw.some(others, NUM_OLD) + new

    def _person(self, name: str, draw: Draw) -> Person:
        while True:
            values = {relation.name: draw.one(relation.values) for relation in RELATIONS.values()}
            pairs = {(values[a], values[b]) for a, b in REVERSE_PAIRS}
            if not pairs & self._taken:
                self._taken |= pairs
                return Person(name, values)


def _recall_split(fact: Fact, form: int) -> Split:
    return split_of("recall", fact.person, fact.relation, form)


def _pair_off(values: tuple[str, ...], others: tuple[str, ...], draw: Draw) -> dict[str, str]:
    return {value: others[i % len(others)] for i, value in enumerate(draw.some(values, len(values)))}


def _read(passage: str, form: str, prompt: str, thoughts: str, answer: str) -> Question:
    prompt = with_passage(prompt, passage)
    return Question(f"reading/{prompt}", "reading", form, prompt, thoughts, answer)
