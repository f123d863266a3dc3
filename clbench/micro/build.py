"""`build`: trains the whole lineage from its recipe, one restartable stage after the other."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clbench.micro.documents import CHAT_SHARE, POST_TRAINING_MIXTURE, PRETRAINING_MIXTURE, Stream
from clbench.micro.recipe import Recipe
from clbench.micro.world import World

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Progress = Callable[[str, int, int], None]
"""(stage, done, total)."""
PACKAGES = ("torch", "transformers", "tokenizers", "numpy")


def stages(recipe: Recipe) -> dict[str, str]:
    """The checkpoints' names in order, and the stage that each belongs to."""
    pretraining = {f"pretrain-{percent}": "pretraining" for percent in recipe.pretraining.keep_percent}
    return pretraining | {"base": "base", "sft": "sft", "post": "rl"}


def build(
    out: Path,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    recipe: Recipe | None = None,
    compiled: bool = True,
) -> None:
    """Train every checkpoint of the lineage into `out`, and write `manifest.json` there last.

    A build that was interrupted goes on with the first stage that is not whole. `seed` is the seed of the training;
    the world is the recipe's. `compiled` uses torch.compile for pretraining (three times as fast; needs a C++
    compiler).

    Raises:
        ValueError: if `out` holds stages of another recipe or seed.
    """
    recipe = recipe or Recipe()
    progress = progress or (lambda stage, done, total: None)
    out.mkdir(parents=True, exist_ok=True)
    _claim(out, recipe, seed)
    world = World(recipe.world_seed)
    if not _facts_of(out, "base"):
        _pretrain(out, world, recipe, seed, progress, compiled)
    for name, start in (("sft", "base"), ("post", "sft")):
        if not _facts_of(out, name):
            _post_train(out, name, start, world, recipe, seed, progress)
    _write_manifest(out, world, recipe, seed)


def _pretrain(out: Path, world: World, recipe: Recipe, seed: int, progress: Progress, compiled: bool) -> None:
    from clbench.micro.model import new_model, save_model
    from clbench.micro.pretrain import pretrain
    from clbench.micro.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(
        world, vocab_size=recipe.model.vocab_size, num_documents=recipe.tokenizer_documents, seed=recipe.world_seed
    )
    model = new_model(recipe.model, tokenizer, seed=seed)

    def keep(percent: int, state: dict[str, Any], facts: dict[str, float]) -> None:
        save_model(state, model, tokenizer, out / f"pretrain-{percent}")
        _finish(out, f"pretrain-{percent}", facts)

    facts = pretrain(
        model,
        world,
        tokenizer,
        recipe.pretraining,
        seed=seed,
        keep=keep,
        progress=lambda done, total: progress("pretraining", done, total),
        compiled=compiled,
    )
    save_model(model.state_dict(), model, tokenizer, out / "base")
    _finish(out, "base", facts)


def _post_train(out: Path, name: str, start: str, world: World, recipe: Recipe, seed: int, progress: Progress) -> None:
    from transformers import AutoTokenizer

    from clbench.micro.finetune import fine_tune
    from clbench.micro.model import load_model, save_model
    from clbench.micro.rl import reinforce

    def report(done: int, total: int) -> None:
        progress(name, done, total)

    model: PreTrainedModel = load_model(out / start)
    tokenizer = AutoTokenizer.from_pretrained(out / start)
    if name == "sft":
        facts = fine_tune(model, world, tokenizer, recipe.sft, seed=seed, progress=report)
    else:
        facts = reinforce(model, world, tokenizer, recipe.rl, seed=seed, progress=report)
    save_model(model.state_dict(), model, tokenizer, out / name)
    _finish(out, name, facts)


def _write_manifest(out: Path, world: World, recipe: Recipe, seed: int) -> None:
    distances = distances_to_post(out, tuple(stages(recipe)))
    documents = list(islice(Stream(world, seed, "pretraining").documents(), 20_000))
    manifest = {
        "recipe": dataclasses.asdict(recipe),
        "mixtures": {"pretraining": dict(PRETRAINING_MIXTURE), "sft": dict(POST_TRAINING_MIXTURE)},
        "seed": seed,
        "versions": {package: metadata.version(package) for package in PACKAGES},
        "chat_share_of_pretraining": {
            "recipe": CHAT_SHARE,
            "measured": round(sum(document.is_chat for document in documents) / len(documents), 4),
        },
        "checkpoints": [
            {"name": name, "stage": stage, "distance_to_post": round(distances[name], 5), **_facts_of(out, name)}
            for name, stage in stages(recipe).items()
        ],
        "files": {
            f"{name}/{path.name}": {
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "size": path.stat().st_size,
            }
            for name in stages(recipe)
            for path in sorted((out / name).iterdir())
        },
    }
    _write_json(out / "manifest.json", manifest)


def distances_to_post(directory: Path, names: tuple[str, ...]) -> dict[str, float]:
    """‖θ − θ_post‖ / ‖θ_post‖ of each checkpoint, tied weights counted once."""
    import torch
    from safetensors.torch import load_file

    post = {key: value.double() for key, value in load_file(directory / names[-1] / "model.safetensors").items()}
    norm = torch.stack([value.square().sum() for value in post.values()]).sum().sqrt()
    distances = {}
    for name in names:
        weights = load_file(directory / name / "model.safetensors")
        squares = [(weights[key].double() - value).square().sum() for key, value in post.items()]
        distances[name] = float(torch.stack(squares).sum().sqrt() / norm)
    return distances


def _claim(out: Path, recipe: Recipe, seed: int) -> None:
    """Note what is built here, or refuse if it is something else."""
    wanted = json.loads(json.dumps({"recipe": dataclasses.asdict(recipe), "seed": seed}))
    path = out / ".build" / "recipe.json"
    if path.exists() and json.loads(path.read_text(encoding="utf-8")) != wanted:
        raise ValueError(f"{out} holds a lineage of another recipe or seed; name an empty folder")
    path.parent.mkdir(exist_ok=True)
    _write_json(path, wanted)


def _finish(out: Path, name: str, facts: dict[str, float]) -> None:
    """Mark a stage as whole."""
    _write_json(out / ".build" / f"{name}.json", facts)


def _facts_of(out: Path, name: str) -> dict[str, float]:
    path = out / ".build" / f"{name}.json"
    facts: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return facts


def _write_json(path: Path, value: Any) -> None:
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    os.replace(aside, path)
