"""Knowledge injection: facts about new people, taught to a model that knows facts about others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pydantic

from clbench import Benchmark, Config, Example, Item, Split, Suite, Task, Tools, UserError
from clbench.micro.facts import NUM_FORMS, REVERSE_PAIRS, SECOND_HOPS
from clbench.micro.world import Fact, Question, World, with_passage

SKILLS = ("addition", "recall", "reading", "format")
BUDGETS = {"addition": 96, "format": 96}
"""Tokens an answer may take, thoughts included: more than twice the longest right answer. Else `FACT_BUDGET`."""
FACT_BUDGET = 64


class KnowledgeInjectionConfig(Config):
    """How much is taught, in how many phrasings, and how many items measure it."""

    num_people: int = pydantic.Field(default=60, ge=6)
    """New people, with four facts each."""
    trained_forms: tuple[int, ...] = (0, 1, 2)
    """Question forms (of five) that each fact is taught in. One phrasing teaches little; the others are the
    paraphrases."""
    thoughts: bool = True
    """Teach answers with thoughts (the fact as a sentence), or answers alone."""
    num_test_items: int = pydantic.Field(default=200, ge=1)
    """Items a benchmark on the test split; validation has half as many."""
    num_retention_examples: int = pydantic.Field(default=300, ge=1)
    """Examples of old skills, drawn from their training split, for Fisher information and replay."""

    @pydantic.field_validator("trained_forms")
    @classmethod
    def _some_forms_are_left(cls, forms: tuple[int, ...]) -> tuple[int, ...]:
        if not forms or len(set(forms)) != len(forms) or any(not 0 <= form < NUM_FORMS for form in forms):
            raise ValueError(f"different forms from 0 to {NUM_FORMS - 1}, at least one")
        if len(forms) == NUM_FORMS:
            raise ValueError("one form at least must be left to ask for a paraphrase")
        return forms


class KnowledgeInjection(Task[KnowledgeInjectionConfig]):
    """Knowledge injection: four facts about each of 60 people whom the model has never heard of.

    Acquisition is the mean of questions in the trained phrasing and in phrasings that no new fact was taught in.
    Diagnostics beside it (2409.07431's kind of test): the reverse question, two-hop questions that need an old fact
    too, and old people who share a name with a new one. The ceiling asks θ_post the same questions with the facts in
    context. Retention is the mean of the micro lineage's four old skills.
    """

    name = "knowledge-injection"
    Config = KnowledgeInjectionConfig

    def examples(self, tools: Tools) -> Sequence[Example]:
        """Every fact in every trained form."""
        world = self._world(tools)
        return [
            self._example(world.fact_question(fact, form), world.fact_passage(fact.person))
            for fact in self._facts(world, None)
            for form in self.config.trained_forms
        ]

    def retention_examples(self, tools: Tools) -> Sequence[Example]:
        """Old skills in equal parts, from the split that the lineage was trained on."""
        world, num = self._world(tools), self.config.num_retention_examples
        per_skill = [num // len(SKILLS) + (i < num % len(SKILLS)) for i in range(len(SKILLS))]
        questions = [q for skill, n in zip(SKILLS, per_skill, strict=True) for q in world.questions(skill, "train", n)]
        return [self._example(question, question.passage) for question in questions]

    def acquisition(self, tools: Tools, split: Split) -> Suite:
        """Trained phrasing and paraphrase count; on the test split, diagnostics stand beside them."""
        world = self._world(tools)
        facts = self._facts(world, split)
        others = [form for form in range(NUM_FORMS) if form not in self.config.trained_forms]
        benchmarks = [
            self._benchmark(
                "direct", split, (world.fact_question(f, i) for f in facts for i in self.config.trained_forms)
            ),
            self._benchmark("paraphrase", split, (world.fact_question(f, i) for f in facts for i in others)),
        ]
        if split == "test":
            people = dict.fromkeys(fact.person for fact in facts)
            diagnostics: dict[str, Iterable[Question]] = {
                "two-hop": (
                    world.two_hop_question(f, form) for f in facts if f.relation in SECOND_HOPS for form in (0, 1)
                ),
                "reverse": (
                    world.reverse_question(person, form) for person in people for form in range(len(REVERSE_PAIRS))
                ),
                "neighbours": world.neighbour_questions(split, self._num_items(split)),
            }
            benchmarks += [self._benchmark(n, split, q, headline=False) for n, q in diagnostics.items()]
        return Suite(benchmarks=tuple(benchmarks))

    def retention(self, tools: Tools, split: Split) -> Suite:
        """The four old skills."""
        world = self._world(tools)
        return Suite(
            benchmarks=tuple(
                self._benchmark(skill, split, world.questions(skill, split, self._num_items(split))) for skill in SKILLS
            )
        )

    def ceiling(self, tools: Tools, split: Split) -> Suite:
        """The questions of `direct` and `paraphrase`, with a passage that states the person's facts in context."""
        world = self._world(tools)
        facts = self._facts(world, split)
        questions = [world.fact_question(fact, form) for fact in facts for form in range(NUM_FORMS)]
        return Suite(
            benchmarks=(
                self._benchmark(
                    "in context",
                    split,
                    questions,
                    prompt=lambda question: with_passage(question.prompt, question.passage or ""),
                ),
            )
        )

    def facts(self) -> dict[str, Any]:
        """Counts for the record."""
        return {"num_facts": 4 * self.config.num_people}

    def _world(self, tools: Tools) -> World:
        if tools.lineage.manifest.world != "micro":
            raise UserError(
                f"the facts of {self.name!r} belong to the micro world, and lineage {tools.lineage.name} was not "
                "trained on it: its old skills cannot be measured with them. Use --lineage micro."
            )
        return World()

    def _facts(self, world: World, split: Split | None) -> list[Fact]:
        """Facts of all the new people that are taught, or of those whose questions make up a split: a third, the
        rest."""
        people = list(dict.fromkeys(fact.person for fact in world.new_facts))
        if self.config.num_people > len(people):
            raise UserError(f"num_people = {self.config.num_people}: the world has {len(people)} new people.")
        chosen = {
            person
            for index, person in enumerate(people[: self.config.num_people])
            if split is None or (index % 3 == 0) == (split == "validation")
        }
        return [fact for fact in world.new_facts if fact.person in chosen]

    def _num_items(self, split: Split) -> int:
        return self.config.num_test_items if split == "test" else (self.config.num_test_items + 1) // 2

    def _benchmark(
        self,
        name: str,
        split: Split,
        questions: Iterable[Question],
        *,
        headline: bool = True,
        prompt: Callable[[Question], str] = lambda question: question.prompt,
    ) -> Benchmark:
        """As many of the questions as the split has items, chosen by a fixed seed."""
        chosen = list(questions)
        if len(chosen) > self._num_items(split):
            order = np.random.Generator(np.random.Philox(0)).permutation(len(chosen))
            chosen = [chosen[i] for i in sorted(order[: self._num_items(split)])]
        items = tuple(Item(id=q.id, prompt=prompt(q), target=q.answer, form=q.form) for q in chosen)
        return Benchmark(name=name, items=items, max_new_tokens=BUDGETS.get(name, FACT_BUDGET), headline=headline)

    def _example(self, question: Question, passage: str | None) -> Example:
        return Example(
            id=question.id,
            prompt=question.prompt,
            thoughts=question.thoughts if self.config.thoughts else None,
            response=question.answer,
            demonstration=question.demonstration,
            passage=passage,
            answer=question.answer,
        )
