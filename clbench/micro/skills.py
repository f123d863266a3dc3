"""The skills that need no facts: sums, list formats, and a kind of sum that the lineage has not learned."""

from __future__ import annotations

from clbench.micro.draw import Draw, split_of
from clbench.micro.lexicon import LIST_WORDS
from clbench.micro.question import Question, Split

SUM_QUESTIONS = ("what is {a} plus {b}?", "add {a} and {b}.")
DIFFERENCE_QUESTIONS = ("what is {a} minus {b}?", "subtract {b} from {a}.")

ORDERS = ("", "backwards", "last first")
MARKS = {"": " ", "with commas": ", ", "with dashes": " - ", "with slashes": " / "}
MAX_LIST_WORDS = 8


def operands(draw: Draw, num_digits: int, split: Split) -> tuple[int, int]:
    """Two numbers of that many digits whose pair, in either order, belongs to the split."""
    low, high = 10 ** (num_digits - 1), 10**num_digits
    while True:
        a, b = low + draw.below(high - low), low + draw.below(high - low)
        if split_of("numbers", min(a, b), max(a, b)) == split:
            return a, b


def addition(draw: Draw, num_digits: int, split: Split) -> Question:
    """A sum of two numbers of equal length, worked out digit by digit from the units."""
    a, b = operands(draw, num_digits, split)
    steps, carry = [], 0
    for digit_a, digit_b in zip(reversed(str(a)), reversed(str(b)), strict=True):
        total = int(digit_a) + int(digit_b) + carry
        steps.append(f"{digit_a}+{digit_b}+{carry}={total:02d}")
        carry = total // 10
    form = draw.below(len(SUM_QUESTIONS))
    return Question(
        id=f"addition/{a}+{b}/{form}",
        skill="addition",
        form=f"{num_digits} digits",
        prompt=SUM_QUESTIONS[form].format(a=a, b=b),
        thoughts=",".join(steps),
        answer=str(a + b),
    )


def subtraction(draw: Draw, num_digits: int, split: Split) -> Question:
    """A difference ≥ 0, never in the lineage's training; its thoughts are an expert's, not in the model's own style."""
    a, b = sorted(operands(draw, num_digits, split), reverse=True)
    names = ("units", "tens")
    steps, borrow = [], 0
    for place, (digit_a, digit_b) in enumerate(zip(reversed(str(a)), reversed(str(b)), strict=True)):
        left = int(digit_a) - int(digit_b) - borrow
        name = f"{names[place]} " if place < len(names) else ""
        less = f"{digit_a} less {digit_b}" + (f" less {borrow}" if borrow else "")
        borrow = int(left < 0)
        steps.append(f"{name}{less}" + (" borrow" if borrow else "") + f" is {left % 10}")
    form = draw.below(len(DIFFERENCE_QUESTIONS))
    return Question(
        id=f"subtraction/{a}-{b}/{form}",
        skill="subtraction",
        form=f"{num_digits} digits",
        prompt=DIFFERENCE_QUESTIONS[form].format(a=a, b=b),
        thoughts="; ".join(steps),
        answer=str(a - b),
    )


def list_format(draw: Draw, split: Split) -> Question:
    """A list of words to be written in another order, with marks between them, once or twice."""
    while True:
        num_words = 2 + draw.below(MAX_LIST_WORDS - 1)
        words = draw.some(LIST_WORDS, num_words)
        if split_of("list", *words) == split:
            break
    order, mark = draw.one(ORDERS), draw.one(tuple(MARKS))
    twice = "twice" if num_words <= 4 and draw.random() < 0.25 else ""
    wanted = " ".join(part for part in (order, mark, twice) if part) or "once"
    ordered = {"": words, "backwards": words[::-1], "last first": [words[-1], *words[:-1]]}[order]
    return Question(
        id=f"format/{' '.join(words)}/{wanted}",
        skill="format",
        form=f"{num_words} words",
        prompt=f"write {' '.join(words)} {wanted}.",
        thoughts=" ".join(ordered),
        answer=MARKS[mark].join(ordered * 2 if twice else ordered),
    )
