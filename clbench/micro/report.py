"""`python -m clbench.micro.report [DIRECTORY]`: measures a lineage and prints the tables of `docs/micro.md`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clbench.micro.documents import Stream, two_hop_split
from clbench.micro.draw import Draw
from clbench.micro.facts import SECOND_HOPS
from clbench.micro.question import Question, with_demonstration, with_passage
from clbench.micro.recipe import FineTuning
from clbench.micro.world import World

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHECKPOINTS = Path(__file__).parent / "checkpoints"
NUM_ITEMS = 400
Outcomes = np.ndarray[Any, np.dtype[np.float64]]


def ask_with(questions: Sequence[Question], context: Callable[[Question], str]) -> list[Question]:
    """The same questions with something more in their prompts."""
    return [dataclasses.replace(question, prompt=context(question)) for question in questions]


def benchmarks(world: World) -> dict[str, list[Question]]:
    """Every list of test questions that the report asks, by name."""
    lists = {skill: world.questions(skill, "test", NUM_ITEMS) for skill in world.skills}
    lists |= {f"sums of {n} digits": world.questions("addition", "test", 200, digits=n) for n in range(2, 8)}
    common = [q for q in lists["recall"] if q.id.split("/")[1] not in world.rare_people]
    lists["recall, common people"] = common
    lists["recall, rare people"] = [q for q in lists["recall"] if q not in common]
    unseen = [p for p in world.old_people if two_hop_split(p.name) == "test"]
    lists["two-hop, old people"] = [
        world.two_hop_question(p.fact(r), form) for p in unseen for r in SECOND_HOPS for form in range(2)
    ]
    new = world.new_facts
    trained = [world.fact_question(fact, form) for fact in new for form in world.trained_forms[:1]]
    two_hop = [world.two_hop_question(fact) for fact in new if fact.relation in SECOND_HOPS]
    lists["new facts, trained form"] = trained
    lists["new facts, paraphrase"] = [world.fact_question(fact, form) for fact in new for form in (3,)]
    lists["new facts, reverse"] = [world.reverse_question(p.name, form) for p in world.new_people for form in range(2)]
    lists["new facts, two-hop"] = two_hop
    lists["neighbours"] = world.neighbour_questions("test", 200)
    lists["strangers"] = world.stranger_questions("test", 200)
    lists["new facts in context"] = ask_with(trained, lambda q: with_passage(q.prompt, q.passage or ""))
    lists["two-hop in context"] = ask_with(two_hop, lambda q: with_passage(q.prompt, q.passage or ""))
    lists["new facts, demonstrated"] = ask_with(trained, lambda q: with_demonstration(q.prompt, q.demonstration))
    for n in (5, 6, 7):
        sums = lists[f"sums of {n} digits"]
        lists[f"{n} digits, demonstrated"] = ask_with(sums, lambda q: with_demonstration(q.prompt, q.demonstration))
        lists[f"{n} digits, answer shown"] = ask_with(sums, lambda q: with_demonstration(q.prompt, q.answer))
    differences = world.questions("subtraction", "test", 200)
    lists["subtraction"] = differences
    lists["subtraction, demonstrated"] = ask_with(differences, lambda q: with_demonstration(q.prompt, q.demonstration))
    return lists


def outcomes(model: PreTrainedModel, tokenizer: Any, questions: Sequence[Question]) -> Outcomes:
    """1 for each question that is answered right, else 0. Greedy."""
    from clbench.micro.sampling import answers

    found = answers(model, tokenizer, [q.prompt for q in questions])
    return np.array([World.verify(q, a) for q, a in zip(questions, found, strict=True)], dtype=np.float64)


def document_losses(model: PreTrainedModel, tokenizer: Any, world: World, num: int = 600) -> Outcomes:
    """Mean loss a token of held-out documents, in nats, one figure a document."""
    import torch
    from torch.nn.functional import cross_entropy

    from clbench.micro.pretrain import IGNORED, document_text

    texts = [document_text(d) for d in islice(Stream(world, 1_000_003, "held out").documents(), num)]
    losses = []
    with torch.inference_mode():
        for text in texts:
            ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
            logits = model(input_ids=ids, use_cache=False).logits
            losses.append(cross_entropy(logits[0, :-1], ids[0, 1:], ignore_index=IGNORED).item())
    return np.array(losses)


def figure(values: Outcomes) -> str:
    """Mean ± standard error over items."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


def difference(after: Outcomes, before: Outcomes) -> str:
    """Mean difference ± standard error, paired over items."""
    return figure(after - before)


def inject(model: PreTrainedModel, tokenizer: Any, world: World, recipe: FineTuning, *, seed: int = 0) -> None:
    """Plain fine-tuning of `model` on the new people's facts in their trained forms."""
    from clbench.micro.finetune import train_on

    questions = [world.fact_question(fact, form) for fact in world.new_facts for form in world.trained_forms]
    draw = Draw(seed, "injection")

    def batches() -> Iterator[list[Question]]:
        while True:
            order = draw.some(questions, len(questions))
            yield from (order[i : i + recipe.batch_size] for i in range(0, len(order), recipe.batch_size))

    train_on(model, tokenizer, batches(), recipe, lambda done, total: None)
