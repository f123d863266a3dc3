"""From examples and items to token ids, by θ_post's own chat template.

Every model of a track is trained, sampled and scored on the ids that this module makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from clbench.canonical import digest, file_sha256
from clbench.errors import UserError
from clbench.task import Example


@dataclass(frozen=True)
class ThinkingMarks:
    """How a thinking model writes its thoughts: `open` + thoughts + `close` + answer, verbatim."""

    open: str
    close: str


@dataclass(frozen=True)
class Encoded:
    """An example as token ids: a prompt that is read and a completion that is learned (its end of turn included)."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """Prompt and completion together."""
        return len(self.prompt_ids) + len(self.completion_ids)


@dataclass(frozen=True)
class Parsed:
    """A sampled response, taken apart."""

    text: str
    """All of it, special tokens shown, without the end of turn."""
    answer: str
    """What stands after the thoughts; empty if they were not ended."""
    thinking_tokens: int
    unfinished_thought: bool


class Chat:
    """A tokenizer with its chat template, and how thoughts are marked (None: the model does not think)."""

    def __init__(self, tokenizer: Any, thinking: ThinkingMarks | None) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise UserError("the tokenizer of θ_post has no chat template; give the lineage one (`chat_template`).")
        self.tokenizer = tokenizer
        self.thinking = thinking

    @classmethod
    def load(cls, directory: Path, thinking: ThinkingMarks | None) -> Chat:
        """The tokenizer and template in a checkpoint directory. Imports transformers."""
        from transformers import AutoTokenizer

        try:
            return cls(AutoTokenizer.from_pretrained(directory, local_files_only=True), thinking)
        except (OSError, ValueError) as error:
            raise UserError(f"the tokenizer in {directory} cannot be loaded: {error}") from None

    @cached_property
    def template_sha256(self) -> str:
        """Hash of the chat template's text and the thinking marks."""
        marks = [self.thinking.open, self.thinking.close] if self.thinking else None
        return digest({"template": self.tokenizer.chat_template, "thinking": marks})

    @cached_property
    def stop_token_ids(self) -> tuple[int, ...]:
        """The ids that end a turn."""
        return (int(self.tokenizer.eos_token_id),)

    @cached_property
    def pad_token_id(self) -> int:
        """An id to fill batches with; it is never attended to."""
        pad = self.tokenizer.pad_token_id
        return int(pad if pad is not None else self.tokenizer.eos_token_id)

    def prompt_ids(self, prompt: str) -> tuple[int, ...]:
        """A user's turn, up to the point where the assistant begins to write."""
        return self._ids(self._render([{"role": "user", "content": prompt}], add_generation_prompt=True))

    def encode(self, example: Example) -> Encoded:
        """Prompt and completion of an example.

        Raises:
            UserError: if the template does not let the completion be told from the prompt, or does not end the turn:
            the
                loss mask would be wrong or empty.
        """
        user = {"role": "user", "content": example.prompt}
        prompt = self._render([user], add_generation_prompt=True)
        content = self.response_text(example)
        full = self._render([user, {"role": "assistant", "content": content}], add_generation_prompt=False)
        if not full.startswith(prompt):
            raise UserError(
                "the chat template writes an assistant's turn that does not begin with its own generation prompt, so "
                f"the response of example {example.id!r} cannot be masked; give the lineage a template that does."
            )
        prompt_ids, completion_ids = self._ids(prompt), self._ids(full[len(prompt) :])
        end = self._end_of_turn(completion_ids, example.id)
        return Encoded(prompt_ids, completion_ids[: end + 1])

    def response_text(self, example: Example) -> str:
        """What the assistant writes: thoughts in their marks, then the response."""
        if self.thinking is None or example.thoughts is None:
            return example.response
        return self.thinking.open + example.thoughts + self.thinking.close + example.response

    def parse(self, token_ids: Sequence[int]) -> Parsed:
        """Take a sampled completion apart. An answer is never looked for inside thoughts."""
        ids = [int(i) for i in token_ids]
        while ids and ids[-1] in self.stop_token_ids:
            ids.pop()
        text = str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
        if self.thinking is None:
            return Parsed(text, text.strip(), 0, False)
        opened, closed = self.thinking.open.strip(), self.thinking.close.strip()
        before, mark, after = text.rpartition(closed)
        if not mark:
            thinking = opened in text
            return Parsed(text, "" if thinking else text.strip(), len(ids) if thinking else 0, thinking)
        return Parsed(text, after.strip(), len(self._ids(before)), False)

    def _render(self, messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
        return str(
            self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)
        )

    def _ids(self, text: str) -> tuple[int, ...]:
        # The template has written every special token, a BOS included: the tokenizer must add none.
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _end_of_turn(self, completion_ids: tuple[int, ...], example_id: str) -> int:
        for position in range(len(completion_ids) - 1, -1, -1):
            if completion_ids[position] in self.stop_token_ids:
                return position
        raise UserError(
            f"the chat template does not end the assistant's turn with the tokenizer's end token "
            f"({self.tokenizer.eos_token!r}), seen at example {example_id!r}; the model would never learn to stop."
        )


def tokenizer_sha256(directory: Path) -> str:
    """One hash over the tokenizer's files in a checkpoint directory."""
    names = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")
    return digest({name: file_sha256(directory / name) for name in names if (directory / name).is_file()})
