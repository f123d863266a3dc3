from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clbench.micro
from clbench.micro.documents import Stream
from clbench.micro.question import SPECIAL_TOKENS, THINK_CLOSE, THINK_OPEN, chat, response
from clbench.micro.world import World

CHECKPOINTS = Path(clbench.micro.__file__).parent / "checkpoints"
NAMES = ("pretrain-50", "pretrain-75", "pretrain-90", "base", "sft", "post")


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((CHECKPOINTS / "manifest.json").read_text(encoding="utf-8"))
    return value


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(CHECKPOINTS / "post")


def test_manifest_names_every_file_with_its_hash_and_size(manifest: dict[str, Any]) -> None:
    files = {str(path.relative_to(CHECKPOINTS)): path for path in CHECKPOINTS.glob("*/*")}
    assert set(manifest["files"]) == set(files)
    for name, path in files.items():
        content = path.read_bytes()
        assert manifest["files"][name] == {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    assert sum(entry["size"] for entry in manifest["files"].values()) < 25e6


def test_manifest_lists_the_checkpoints_in_order_with_falling_distance(manifest: dict[str, Any]) -> None:
    assert [entry["name"] for entry in manifest["checkpoints"]] == list(NAMES)
    distances = [entry["distance_to_post"] for entry in manifest["checkpoints"]]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] == 0


@pytest.mark.parametrize("name", NAMES)
def test_checkpoint_loads_tied_in_bfloat16(name: str) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    stored = load_file(CHECKPOINTS / name / "model.safetensors")
    assert "lm_head.weight" not in stored
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINTS / name)
    assert model.dtype == torch.bfloat16
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    loaded = AutoTokenizer.from_pretrained(CHECKPOINTS / name)
    assert len(loaded) == model.config.vocab_size
    assert model.generation_config.eos_token_id == loaded.eos_token_id


def test_distances_in_the_manifest_are_those_of_the_weights(manifest: dict[str, Any]) -> None:
    import numpy as np
    from safetensors.torch import load_file

    def flat(name: str) -> Any:
        weights = load_file(CHECKPOINTS / name / "model.safetensors")
        return np.concatenate([weights[key].double().numpy().ravel() for key in sorted(weights)])

    post = flat("post")
    for entry in manifest["checkpoints"]:
        distance = np.linalg.norm(flat(entry["name"]) - post) / np.linalg.norm(post)
        assert entry["distance_to_post"] == pytest.approx(distance, abs=1e-4)


@given(st.text())
@settings(max_examples=150, deadline=None)
def test_any_text_round_trips(tokenizer: Any, text: str) -> None:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_are_single_tokens(tokenizer: Any) -> None:
    for token in SPECIAL_TOKENS:
        assert len(tokenizer(token, add_special_tokens=False)["input_ids"]) == 1
    assert tokenizer.bos_token is None


@given(st.text("0123456789", min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_digits_are_split_singly(tokenizer: Any, digits: str) -> None:
    assert len(tokenizer(digits, add_special_tokens=False)["input_ids"]) == len(digits)


def test_words_of_the_world_are_single_tokens(tokenizer: Any) -> None:
    from clbench.micro import lexicon

    for words in (lexicon.FIRST_NAMES, lexicon.LAST_NAMES, lexicon.CITIES, lexicon.COUNTRIES, lexicon.LIST_WORDS):
        assert [word for word in words if len(tokenizer(f" {word}")["input_ids"]) != 1] == []


@given(st.text(max_size=40), st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_template_of_a_whole_chat_begins_with_its_generation_prompt(tokenizer: Any, prompt: str, reply: str) -> None:
    user, assistant = {"role": "user", "content": prompt}, {"role": "assistant", "content": reply}
    opened = tokenizer.apply_chat_template([user], add_generation_prompt=True, tokenize=False)
    whole = tokenizer.apply_chat_template([user, assistant], tokenize=False)
    assert whole == opened + reply + tokenizer.eos_token


def test_template_writes_what_pretraining_chats_hold(tokenizer: Any) -> None:
    question = World(0).questions("addition", "train", 1)[0]
    messages = [
        {"role": "user", "content": question.prompt},
        {"role": "assistant", "content": response(question.thoughts, question.answer)},
    ]
    written = tokenizer.apply_chat_template(messages, tokenize=False)
    assert written == chat(question.prompt, question.thoughts, question.answer)


def test_chat_share_in_the_manifest_is_that_of_the_stream(manifest: dict[str, Any]) -> None:
    stream = Stream(World(0), 11, "pretraining").documents()
    share = sum(next(stream).is_chat for _ in range(10_000)) / 10_000
    assert share == pytest.approx(manifest["chat_share_of_pretraining"]["measured"], abs=0.02)


def test_post_thinks_before_it_answers(tokenizer: Any) -> None:
    from clbench.micro.finetune import prompt_text
    from clbench.micro.model import load_model
    from clbench.micro.sampling import sample

    world, model = World(0), load_model(CHECKPOINTS / "post")
    questions = world.questions("reading", "validation", 10)
    prompts = [tokenizer(prompt_text(q.prompt), add_special_tokens=False)["input_ids"] for q in questions]
    for completion in sample(model, tokenizer, prompts, max_new_tokens=64):
        text = tokenizer.decode(completion)
        assert text.startswith(THINK_OPEN)
        assert text.count(THINK_CLOSE) == 1
        assert completion[-1] == tokenizer.eos_token_id


def test_the_samplers_greedy_answers_are_those_of_generate(tokenizer: Any) -> None:
    import torch

    from clbench.micro.finetune import prompt_text
    from clbench.micro.model import load_model
    from clbench.micro.sampling import sample

    world, model = World(0), load_model(CHECKPOINTS / "post")
    questions = world.questions("addition", "validation", 4) + world.questions("reading", "validation", 4)
    prompts = [tokenizer(prompt_text(q.prompt), add_special_tokens=False)["input_ids"] for q in questions]
    for prompt, completion in zip(prompts, sample(model, tokenizer, prompts, max_new_tokens=64), strict=True):
        whole = model.generate(torch.tensor([prompt]), max_new_tokens=64, do_sample=False)[0].tolist()
        assert whole[len(prompt) :] == completion
