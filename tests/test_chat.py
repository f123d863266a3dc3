"""Token ids and loss masks, on templates of the kinds that are met in the wild."""

from __future__ import annotations

from typing import Any

import pytest

from clbench.chat import Chat, ThinkingMarks
from clbench.errors import UserError
from clbench.task import Example
from tests.toys import toy_tokenizer

THINKING = ThinkingMarks("<think>\n", "\n</think>\n\n")
CHATML = (
    "{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|user|>assistant\n{% endif %}"
)


def chat(template: str | None = None, thinking: ThinkingMarks | None = THINKING) -> Chat:
    tokenizer: Any = toy_tokenizer()
    if template is not None:
        tokenizer.chat_template = template
    return Chat(tokenizer, thinking)


EXAMPLE = Example(id="e", prompt="What is 2 + 2?", thoughts="Two and two.", response="It is 4.")


@pytest.mark.parametrize("template", [None, CHATML])
def test_prompt_and_completion_together_are_the_rendered_conversation(template: str | None) -> None:
    c = chat(template)
    encoded = c.encode(EXAMPLE)
    text = c.tokenizer.decode(encoded.prompt_ids + encoded.completion_ids)
    messages = [
        {"role": "user", "content": EXAMPLE.prompt},
        {"role": "assistant", "content": "<think>\nTwo and two.\n</think>\n\nIt is 4."},
    ]
    rendered = c.tokenizer.apply_chat_template(messages, tokenize=False)
    assert rendered.rstrip("\n") == text
    assert encoded.prompt_ids == c.prompt_ids(EXAMPLE.prompt)


def test_the_loss_mask_covers_thoughts_answer_and_one_end_of_turn() -> None:
    c = chat()
    completion = c.tokenizer.decode(c.encode(EXAMPLE).completion_ids)
    assert completion == "<think>\nTwo and two.\n</think>\n\nIt is 4.<|end|>"


def test_an_example_without_thoughts_has_no_marks() -> None:
    c = chat()
    completion = c.encode(EXAMPLE.model_copy(update={"thoughts": None})).completion_ids
    assert c.tokenizer.decode(completion) == "It is 4.<|end|>"


def test_a_bos_that_the_template_writes_is_there_exactly_once() -> None:
    c = chat("<|pad|>" + CHATML)
    assert list(c.encode(EXAMPLE).prompt_ids).count(c.tokenizer.convert_tokens_to_ids("<|pad|>")) == 1
    assert c.tokenizer.convert_tokens_to_ids("<|pad|>") not in chat(CHATML).encode(EXAMPLE).prompt_ids


def test_a_template_that_never_ends_the_turn_is_refused() -> None:
    with pytest.raises(UserError, match="does not end the assistant's turn"):
        chat("{% for m in messages %}{{ m.content }}{% endfor %}").encode(EXAMPLE)


def test_a_template_whose_generation_prompt_is_no_prefix_is_refused() -> None:
    template = CHATML.replace("<|user|>assistant\n{% endif", "<|user|>assistant: {% endif")
    with pytest.raises(UserError, match="cannot be masked"):
        chat(template).encode(EXAMPLE)


def test_a_tokenizer_without_a_template_is_refused() -> None:
    tokenizer: Any = toy_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(UserError, match="no chat template"):
        Chat(tokenizer, None)


def parse(text: str, thinking: ThinkingMarks | None = THINKING) -> Any:
    c = chat(thinking=thinking)
    return c.parse(c.tokenizer(text, add_special_tokens=False)["input_ids"])


def test_the_answer_is_what_stands_after_the_thoughts() -> None:
    parsed = parse("<think>\nIs it 5? No.\n</think>\n\n4<|end|>")
    assert (parsed.answer, parsed.unfinished_thought) == ("4", False)
    assert parsed.thinking_tokens == len("<think>\nIs it 5? No.\n")


def test_an_answer_is_never_picked_out_of_unfinished_thoughts() -> None:
    parsed = parse("<think>\nIt is 4")
    assert (parsed.answer, parsed.unfinished_thought) == ("", True)
    assert parsed.text == "<think>\nIt is 4"


def test_a_response_without_thoughts_is_an_answer() -> None:
    parsed = parse("4<|end|>")
    assert (parsed.answer, parsed.unfinished_thought, parsed.thinking_tokens) == ("4", False, 0)


def test_a_model_that_does_not_think_is_not_searched_for_thoughts() -> None:
    assert parse("<think> is a tag", thinking=None).answer == "<think> is a tag"
