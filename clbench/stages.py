"""The stages of a run: what is expensive, worked out once and kept by the key of its spec.

This is where the engines meet: recipes are loaded into the one live model, which is then trained, sampled or
differentiated. In a dry run nothing is worked out; the stages that would be are listed instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clbench.canonical import digest
from clbench.chat import Chat, Encoded, ThinkingMarks, tokenizer_sha256
from clbench.errors import RunError, UserError
from clbench.lineage import Lineage
from clbench.progress import Progress, Silent
from clbench.records import ItemOutcome
from clbench.sampling.interface import SamplingConfig
from clbench.store import Stage, Store
from clbench.task import Example
from clbench.training.config import ResolvedTraining
from clbench.weights.recipe import Checkpoint, Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from clbench.evaluation.evaluate import Placed
    from clbench.training.objectives import Objective
    from clbench.weights.arithmetic import WeightArithmetic

EXAMPLES_NAME = "examples.jsonl"
OUTCOMES_NAME = "outcomes.jsonl"
LOG_NAME = "log.jsonl"
FINAL = "final"


@dataclass(frozen=True)
class Planned:
    """A stage that a run needs."""

    kind: str
    key: str
    what: str
    cached: bool


class Stages:
    """Works out stages on one lineage, in one store."""

    def __init__(
        self, store: Store, lineage: Lineage, *, progress: Progress | None = None, dry_run: bool = False
    ) -> None:
        self.store = store
        self.lineage = lineage
        self.progress = progress or Silent()
        self.dry_run = dry_run
        self.planned: dict[str, Planned] = {}
        """Every stage asked for so far, by key."""

    def dry(self) -> Stages:
        """The same, but nothing is worked out: stages that would be are listed in `planned`."""
        stages = Stages(self.store, self.lineage, dry_run=True)
        stages.chat = self.chat
        return stages

    @cached_property
    def chat(self) -> Chat:
        """θ_post's tokenizer and template."""
        self.lineage.checkpoint("post")
        marks = self.lineage.manifest.thinking
        return Chat.load(self.lineage.post_directory, ThinkingMarks(marks.open, marks.close) if marks else None)

    @cached_property
    def model(self) -> PreTrainedModel:
        """The one live model: θ_post's architecture, float32 on a CPU. Whoever uses it loads weights first."""
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self.lineage.checkpoint("post")
        try:
            model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
                self.lineage.post_directory, dtype=torch.float32, local_files_only=True
            )
        except (OSError, ValueError) as error:
            raise UserError(f"θ_post in {self.lineage.post_directory} cannot be loaded: {error}") from None
        return model

    @cached_property
    def arithmetic(self) -> WeightArithmetic:
        """Works out recipes against θ_post."""
        from clbench.weights.arithmetic import WeightArithmetic

        return WeightArithmetic(self.lineage.post)

    @cached_property
    def numerics(self) -> dict[str, str]:
        """What decides the last bits of a result beside its inputs."""
        return {"torch": version("torch"), "transformers": version("transformers"), "device": "cpu", "dtype": "float32"}

    def examples(self, examples: Sequence[Example]) -> str:
        """Keep examples as JSON lines, by their content; returns their hash.

        Raises:
            UserError: for no examples, or two with one id.
        """
        if not examples:
            raise UserError("there are no examples to train on.")
        if len({example.id for example in examples}) != len(examples):
            raise UserError("two examples have the same id; ids must differ.")
        lines = [example.model_dump_json() for example in examples]
        spec = {"stage": "examples", "version": 1, "sha256": digest(lines)}

        def work(folder: Path) -> dict[str, Any]:
            (folder / EXAMPLES_NAME).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            return {"kind": "examples", "num_examples": len(lines), "inputs": []}

        self._make(spec, work, f"{len(lines)} examples")
        return str(spec["sha256"])

    def train(
        self,
        start: Recipe,
        examples: Sequence[Example],
        objective: Objective,
        config: ResolvedTraining,
        *,
        seed: int,
        name: str,
    ) -> dict[float, Recipe]:
        """Train from `start`; the weights at each snapshot's share of the steps, and at the end (1.0)."""
        steps = config.snapshot_steps
        spec = {
            "stage": "train",
            "version": 1,
            "start": start.to_json(identity_only=True),
            "examples": self.examples(examples),
            "template": self.chat.template_sha256,
            "tokenizer": self.tokenizer_sha256,
            "objective": objective.spec,
            "training": config.model_dump(mode="json"),
            "seed": seed,
            "numerics": self.numerics,
        }

        def work(folder: Path) -> dict[str, Any]:
            return self._train(folder, start, examples, objective, config, seed, set(steps.values()), name)

        what = f"train {name} from {start.formula()}: {config.num_steps} steps, learning rate {config.learning_rate:g}"
        key = self._make(spec, work, what)
        return {
            share: self._artefact(key, _step_name(step, config), name if share == 1.0 else f"{name}@{share:g}")
            for share, step in steps.items()
        }

    def fisher(self, at: Recipe, examples: Sequence[Example], *, name: str) -> Recipe:
        """Diagonal Fisher information of a model on examples, as a checkpoint of its own."""
        spec = {
            "stage": "fisher",
            "version": 1,
            "at": at.to_json(identity_only=True),
            "examples": self.examples(examples),
            "template": self.chat.template_sha256,
            "tokenizer": self.tokenizer_sha256,
            "estimator": "diagonal, empirical, per sequence",
            "numerics": self.numerics,
        }

        def work(folder: Path) -> dict[str, Any]:
            return self._fisher(folder, at, examples)

        key = self._make(spec, work, f"Fisher information of {at.formula()} on {len(examples)} examples")
        return self._artefact(key, FINAL, name)

    def evaluate(
        self, recipe: Recipe, benchmarks: Sequence[Placed], config: SamplingConfig, *, name: str
    ) -> tuple[list[ItemOutcome], Stage] | None:
        """A model's outcomes on benchmarks; None in a dry run."""
        spec = {
            "stage": "evaluate",
            "version": 1,
            "model": recipe.to_json(identity_only=True),
            "rounded_to": self.lineage.post.to_json(identity_only=True),
            "benchmarks": [[p.suite, p.split, p.benchmark.definition] for p in benchmarks],
            "template": self.chat.template_sha256,
            "tokenizer": self.tokenizer_sha256,
            "sampling": config.model_dump(mode="json"),
            "numerics": self.numerics,
        }

        def work(folder: Path) -> dict[str, Any]:
            return self._evaluate(folder, recipe, benchmarks, config, name)

        key = self._make(spec, work, f"evaluate {name}: {sum(len(p.benchmark.items) for p in benchmarks)} items")
        if self.dry_run:
            return None
        stage = self.store.open(key)
        with (stage.folder / OUTCOMES_NAME).open(encoding="utf-8") as file:
            return [ItemOutcome.model_validate_json(line) for line in file], stage

    def behind(self, recipe: Recipe) -> dict[str, Stage]:
        """The stages that a recipe's weights rest on, by key, each once."""
        stages: dict[str, Stage] = {}
        todo = [c.source.split(":", 1)[1].split("/")[0] for c in recipe.checkpoints() if c.source.startswith("store:")]
        while todo:
            key = todo.pop()
            if key not in stages:
                stages[key] = self.store.open(key)
                todo.extend(stages[key].facts["inputs"])
        return stages

    @cached_property
    def tokenizer_sha256(self) -> str:
        """Hash of θ_post's tokenizer files."""
        return tokenizer_sha256(self.lineage.post_directory)

    def _make(self, spec: dict[str, Any], work: Any, what: str) -> str:
        key, cached = self.store.find(spec)
        self.planned.setdefault(key, Planned(str(spec["stage"]), key, what, cached))
        if not self.dry_run:
            self.store.make(spec, work, on_wait=self.progress.say)
        return key

    def _artefact(self, key: str, folder: str, name: str) -> Recipe:
        return Recipe.of(Checkpoint(name, f"store:{key}/{folder}", None, self.store.path(key) / folder))

    def _inputs(self, recipe: Recipe) -> dict[str, list[str]]:
        """What a stage rests on: keys of other stages, and checkpoints of the lineage."""
        sources = (checkpoint.source for checkpoint in recipe.checkpoints())
        used = sorted(source.rpartition("/")[2] for source in sources if source.startswith("lineage:"))
        return {"inputs": sorted(self.behind(recipe)), "lineage": used}

    def _encode(self, examples: Sequence[Example]) -> list[Encoded]:
        encoded = [self.chat.encode(example) for example in examples]
        limit = int(self.model.config.max_position_embeddings)
        for example, sequence in zip(examples, encoded, strict=True):
            if sequence.num_tokens > limit:
                raise UserError(f"example {example.id!r} has {sequence.num_tokens} tokens; the model takes {limit}.")
        return encoded

    def _train(
        self,
        folder: Path,
        start: Recipe,
        examples: Sequence[Example],
        objective: Objective,
        config: ResolvedTraining,
        seed: int,
        snapshot_steps: set[int],
        name: str,
    ) -> dict[str, Any]:
        from clbench.training.loop import StepLog, train
        from clbench.weights.files import unique_state, write_weights

        encoded = self._encode(examples)
        self.arithmetic.load_into(self.model, start)
        with (
            self.progress.track(f"train {name}", config.num_steps) as advance,
            (folder / LOG_NAME).open("w", encoding="utf-8") as log_file,
        ):

            def after_step(log: StepLog) -> None:
                log_file.write(json.dumps(log.__dict__) + "\n")
                if log.step in snapshot_steps:
                    write_weights(folder / _step_name(log.step, config), dict(unique_state(self.model)))
                advance(1)

            try:
                facts = train(
                    self.model,
                    encoded,
                    objective=objective,
                    config=config,
                    seed=seed,
                    pad_token_id=self.chat.pad_token_id,
                    after_step=after_step,
                )
            except RunError as error:
                raise RunError(f"{name}: {error}") from None
        return {"kind": "train", **facts.__dict__, "peak_memory_bytes": _peak_memory(), **self._inputs(start)}

    def _fisher(self, folder: Path, at: Recipe, examples: Sequence[Example]) -> dict[str, Any]:
        from clbench.training.batches import collate, completion_logits
        from clbench.weights.files import write_weights
        from clbench.weights.fisher import diagonal_fisher

        def log_likelihood(model: PreTrainedModel, sequence: Encoded) -> Any:
            batch = collate([sequence], self.chat.pad_token_id)
            log_probs = completion_logits(model, batch).log_softmax(-1)
            return log_probs.gather(-1, batch.targets_N[:, None]).sum()

        encoded = self._encode(examples)
        self.arithmetic.load_into(self.model, at)
        start = time.perf_counter()
        with self.progress.track("Fisher information", len(encoded)) as advance:
            values = diagonal_fisher(self.model, encoded, log_likelihood, advance=advance)
        write_weights(folder / FINAL, values)
        num_tokens = sum(sequence.num_tokens for sequence in encoded)
        return {
            "kind": "fisher",
            "num_tokens": num_tokens,
            "seconds": time.perf_counter() - start,
            "flops": 6.0 * sum(value.numel() for value in values.values()) * num_tokens,
            "peak_memory_bytes": _peak_memory(),
            **self._inputs(at),
        }

    def _evaluate(
        self, folder: Path, recipe: Recipe, benchmarks: Sequence[Placed], config: SamplingConfig, name: str
    ) -> dict[str, Any]:
        from clbench.evaluation.evaluate import evaluate
        from clbench.records import encode_items
        from clbench.sampling import TorchSampler

        weights_sha256 = self.arithmetic.load_into(self.model, recipe)
        sampler = TorchSampler(self.model, stop_token_ids=self.chat.stop_token_ids, pad_token_id=self.chat.pad_token_id)
        num_items = sum(len(place.benchmark.items) for place in benchmarks)
        with self.progress.track(f"evaluate {name}", num_items) as advance:
            outcomes = evaluate(sampler, self.chat, benchmarks, config=config, advance=advance)
        (folder / OUTCOMES_NAME).write_bytes(encode_items(outcomes))
        return {
            "kind": "evaluate",
            "weights_sha256": weights_sha256,
            "num_tokens": sum(outcome.response_tokens for outcome in outcomes),
            **self._inputs(recipe),
        }


def _step_name(step: int, config: ResolvedTraining) -> str:
    return FINAL if step == config.num_steps else f"step-{step:06d}"


def _peak_memory() -> int:
    """Peak resident memory of this process so far, in bytes."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
