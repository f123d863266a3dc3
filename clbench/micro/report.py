"""`python -m clbench.micro.report [DIRECTORY]`: measures a lineage and prints the tables of `docs/micro.md`."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
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
INJECTION = FineTuning(num_steps=300, learning_rate=3e-4)
"""Plain fine-tuning on the new facts, to see that they can be learned and what is forgotten."""
Outcomes = np.ndarray[Any, np.dtype[np.float64]]
"""One figure an item."""
Measured = dict[str, dict[str, Outcomes]]
"""By checkpoint and list of questions."""


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
    trained = [world.fact_question(fact, form) for fact in new for form in world.trained_forms]
    first_form = [world.fact_question(fact, 0) for fact in new]
    two_hop = [world.two_hop_question(fact) for fact in new if fact.relation in SECOND_HOPS]
    lists["new facts, trained forms"] = trained
    lists["new facts, paraphrases"] = [world.fact_question(f, form) for f in new for form in world.paraphrase_forms]
    lists["new facts, reverse"] = [world.reverse_question(p.name, form) for p in world.new_people for form in range(2)]
    lists["new facts, two-hop"] = two_hop
    lists["neighbours"] = world.neighbour_questions("test", 200)
    lists["strangers"] = world.stranger_questions("test", 200)
    lists["new facts in context"] = ask_with(first_form, lambda q: with_passage(q.prompt, q.passage or ""))
    lists["two-hop in context"] = ask_with(two_hop, lambda q: with_passage(q.prompt, q.passage or ""))
    lists["new facts, demonstrated"] = ask_with(first_form, lambda q: with_demonstration(q.prompt, q.demonstration))
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


def pass_rates(
    model: PreTrainedModel, tokenizer: Any, questions: Sequence[Question], *, num_samples: int = 8
) -> Outcomes:
    """The share of samples at temperature 1 that are right, one figure a question."""
    import torch

    from clbench.micro.finetune import encode
    from clbench.micro.sampling import answer_of, sample

    generator = torch.Generator().manual_seed(0)
    asked = [question for question in questions for _ in range(num_samples)]
    prompts = [prompt for prompt, _ in encode(tokenizer, asked)]
    right: list[bool] = []
    for start in range(0, len(asked), 128):
        completions = sample(
            model,
            tokenizer,
            prompts[start : start + 128],
            max_new_tokens=90,
            temperature=1.0,
            generator=generator,
        )
        batch = asked[start : start + 128]
        right += [World.verify(q, answer_of(tokenizer, c)) for q, c in zip(batch, completions, strict=True)]
    rates: Outcomes = np.array(right, dtype=np.float64).reshape(len(questions), num_samples).mean(1)
    return rates


def figure(values: Outcomes) -> str:
    """Mean ± standard error over items."""
    return f"{values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}"


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


def measure(directory: Path, names: Sequence[str], world: World, lists: dict[str, list[Question]]) -> Measured:
    """Outcomes of every list of questions, and document losses, for each checkpoint."""
    from transformers import AutoTokenizer

    from clbench.micro.model import load_model

    found: Measured = {}
    for name in names:
        model = load_model(directory / name)
        tokenizer = AutoTokenizer.from_pretrained(directory / name, local_files_only=True)
        found[name] = {title: outcomes(model, tokenizer, questions) for title, questions in lists.items()}
        found[name]["document loss (nats a token)"] = document_losses(model, tokenizer, world)
    return found


def table(found: Measured, show: Callable[[str, str], str]) -> str:
    """A Markdown table with a row a list and a column a checkpoint; `show(checkpoint, list)` gives the cells."""
    names = list(found)
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for title in found[names[0]]:
        lines.append(f"| {title} | " + " | ".join(show(name, title) for name in names) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables for the lineage in the directory given, or for the shipped one."""
    from transformers import AutoTokenizer

    from clbench.micro.model import load_model

    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKPOINTS
    names = [entry["name"] for entry in json.loads((directory / "manifest.json").read_text())["checkpoints"]]
    world = World(0)
    lists = benchmarks(world)
    started = time.perf_counter()
    found = measure(directory, names, world, lists)
    before = dict(zip(names[1:], names, strict=False))
    show("Share answered right ± standard error over items", table(found, lambda c, t: figure(found[c][t])))
    later = {name: found[name] for name in names[1:]}
    paired = table(later, lambda c, t: figure(found[c][t] - found[before[c]][t]))
    show("Change from the checkpoint before ± standard error, paired over items", paired)
    show(f"{len(names)} checkpoints measured in {time.perf_counter() - started:.0f} s", "")

    model = load_model(directory / "post")
    tokenizer = AutoTokenizer.from_pretrained(directory / "post")
    rows = ["| digits | samples right | sums solved at least once |", "|---|---|---|"]
    for digits in range(4, 8):
        rates = pass_rates(model, tokenizer, world.questions("addition", "train", 150, seed=1, digits=digits))
        rows.append(f"| {digits} | {figure(rates)} | {figure((rates > 0).astype(np.float64))} |")
    show("θ_post at temperature 1, 8 samples of each of 150 sums", "\n".join(rows))

    started = time.perf_counter()
    inject(model, tokenizer, world, INJECTION)
    seconds = time.perf_counter() - started
    after = {title: outcomes(model, tokenizer, questions) for title, questions in lists.items()}
    kept = {title: found["post"][title] for title in lists}
    changes: Measured = {"post": kept, "post + SFT": after, "change": {t: after[t] - kept[t] for t in lists}}
    title = f"θ_post after {INJECTION.num_steps} steps of SFT on the new facts at {INJECTION.learning_rate:g}"
    show(f"{title} ({seconds:.0f} s)", table(changes, lambda c, t: figure(changes[c][t])))


def show(title: str, text: str) -> None:
    """Print one part of the report."""
    sys.stdout.write(f"{title}:\n\n{text}\n\n" if text else f"{title}.\n\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
