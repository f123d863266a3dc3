"""The lineage's tokenizer: byte-level BPE that is trained on the world, digits one by one, with a chat template."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from clbench.micro.documents import Stream
from clbench.micro.question import (
    ASSISTANT,
    END_OF_TURN,
    PAD,
    SPECIAL_TOKENS,
    THINK_CLOSE,
    THINK_OPEN,
    USER,
)
from clbench.micro.world import World

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}"
    f"{{{{- '{ASSISTANT}' + message['content'] + '{END_OF_TURN}' -}}}}"
    "{%- elif message['role'] in ('user', 'system') -%}"
    f"{{{{- '{USER} ' + message['content'] -}}}}"
    "{%- else -%}"
    "{{- raise_exception('unknown role: ' + message['role']) -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    f"{{%- if add_generation_prompt -%}}{{{{- '{ASSISTANT}' -}}}}{{%- endif -%}}"
)
"""No BOS; a system message is one more user's turn; the assistant's words, thoughts included, pass as they are."""


def train_tokenizer(world: World, *, vocab_size: int, num_documents: int, seed: int) -> PreTrainedTokenizerFast:
    """A tokenizer for the world's texts; it takes any other text byte by byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    documents = islice(Stream(world, seed, "tokenizer").documents(), num_documents)
    tokenizer.train_from_iterator((" " + d.text for d in documents if not d.is_chat), trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END_OF_TURN,
        additional_special_tokens=[USER, ASSISTANT, THINK_OPEN, THINK_CLOSE],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
