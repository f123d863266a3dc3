"""The runner: method × task × lineage × seed → record."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from clbench.bench import Bench, Tools
from clbench.canonical import digest
from clbench.errors import RunError, UserError
from clbench.evaluation.evaluate import Placed, measure, placed, scores
from clbench.frontier import frontier_mask
from clbench.lineage import Lineage
from clbench.method import Candidate, Method
from clbench.progress import Progress
from clbench.records import (
    BenchmarkFacts,
    CheckpointFacts,
    Cost,
    DataFacts,
    ItemOutcome,
    LineageFacts,
    Measurement,
    PluginFacts,
    Point,
    Provenance,
    Record,
    Reference,
    StageFacts,
    encode_items,
)
from clbench.sampling.interface import SamplingConfig
from clbench.stages import Planned, Stages
from clbench.store import Stage, Store
from clbench.task import SPLITS, Example, Task
from clbench.weights.recipe import Recipe

TRUNCATION_WARNING = 0.01
"""Share of truncated answers above which a run warns: the budget may be what is measured."""
PACKAGES = ("accelerate", "clbench", "datasets", "numpy", "safetensors", "tokenizers", "torch", "transformers")


@dataclass(frozen=True)
class Result:
    """A finished run: its record and the per-item outcomes beside it (JSON lines)."""

    record: Record
    items: bytes


@dataclass(frozen=True)
class _Measured:
    candidate: Candidate
    outcomes: Sequence[ItemOutcome]
    stage: Stage


class Run:
    """One run, set up: method and task built from their configs, a lineage, a seed and a store."""

    def __init__(
        self,
        method: Method[Any],
        task: Task[Any],
        lineage: Lineage,
        *,
        seed: int = 0,
        store: Store,
        progress: Progress | None = None,
        origins: tuple[str, str] = ("", ""),
        command: str = "",
    ) -> None:
        self.method = method
        self.task = task
        self.lineage = lineage
        self.seed = seed
        self.origins = origins
        self.command = command
        self.stages = Stages(store, lineage, progress=progress)
        self.sampling = SamplingConfig(seed=0)

    def plan(self) -> list[Planned]:
        """The stages that the run needs, in order, and which are there already. Nothing is worked out."""
        stages = self.stages.dry()
        bench = self._bench(stages)
        stages.evaluate(self.lineage.post, self._benchmarks, self.sampling, name="post")
        bench.fisher(self.lineage.post, bench.retention_examples)
        for index, candidate in enumerate(self._candidates(bench)):
            name = _point_name(index, candidate)
            stages.evaluate(candidate.weights, _without_ceiling(self._benchmarks), self.sampling, name=name)
        return list(stages.planned.values())

    def execute(self) -> Result:
        """Work out every stage that is not there yet, and write up the record.

        Raises:
            UserError: for what the caller can put right.
            RunError: for a run that failed; its finished stages stay in the store.
        """
        bench, benchmarks = self._bench(self.stages), self._benchmarks
        post_outcomes, _ = self._evaluated(self.lineage.post, benchmarks, "post")
        fisher = bench.fisher(self.lineage.post, bench.retention_examples)
        measured = []
        for index, candidate in enumerate(self._candidates(bench)):
            name = _point_name(index, candidate)
            outcomes, stage = self._evaluated(candidate.weights, _without_ceiling(benchmarks), name)
            measured.append(_Measured(candidate, outcomes, stage))
        if not measured:
            raise RunError(f"method {self.method.name!r} yielded no candidate.")
        items = encode_items(
            outcome.model_copy(update={"model": model})
            for model, outcomes in [("post", post_outcomes), *((str(i), m.outcomes) for i, m in enumerate(measured))]
            for outcome in outcomes
        )
        points = self._points(measured, benchmarks, post_outcomes, fisher)
        record = Record(
            method=PluginFacts(
                name=self.method.name, origin=self.origins[0], config=self.method.config.model_dump(mode="json")
            ),
            task=PluginFacts(
                name=self.task.name,
                origin=self.origins[1],
                config=self.task.config.model_dump(mode="json"),
                facts=self.task.facts(),
            ),
            lineage=self._lineage_facts(measured),
            seed=self.seed,
            data=_data_facts(bench),
            sampling=self.sampling.model_dump(mode="json"),
            benchmarks=tuple(_benchmark_facts(place) for place in benchmarks),
            reference=_reference(benchmarks, post_outcomes),
            points=points,
            stages=self._stage_facts(),
            provenance=self._provenance(),
            items_sha256=hashlib.sha256(items).hexdigest(),
            warnings=tuple(_warnings(points, _reference(benchmarks, post_outcomes))),
        )
        return Result(record, items)

    def _bench(self, stages: Stages) -> Bench:
        tools = Tools(stages, self.seed)
        examples = self.task.examples(tools)
        retention_examples = self.task.retention_examples(tools)
        if not examples:
            raise UserError(f"task {self.task.name!r} has no examples.")
        return Bench(stages, self.seed, examples=examples, retention_examples=retention_examples)

    def _candidates(self, bench: Bench) -> Iterator[Candidate]:
        for candidate in self.method.candidates(bench):
            if not isinstance(candidate, Candidate):
                kind = type(candidate).__name__
                raise UserError(f"method {self.method.name!r} yielded a {kind}, not a clbench.Candidate.")
            if candidate.weights.weight != 1:
                raise UserError(
                    f"method {self.method.name!r} yielded {candidate.weights.formula()}, which is an update and no "
                    "model; add it to a checkpoint."
                )
            yield candidate

    @cached_property
    def _benchmarks(self) -> list[Placed]:
        tools = Tools(self.stages, self.seed)
        benchmarks = []
        for split in SPLITS:
            acquisition, retention = self.task.acquisition(tools, split), self.task.retention(tools, split)
            for suite, content in (("acquisition", acquisition), ("retention", retention)):
                if not any(benchmark.headline for benchmark in content.benchmarks):
                    raise UserError(
                        f"task {self.task.name!r} has no {suite} benchmark that counts on the {split} split; "
                        "a run measures both what is learned and what is kept."
                    )
            benchmarks += placed("acquisition", split, acquisition) + placed("retention", split, retention)
            benchmarks += placed("ceiling", split, self.task.ceiling(tools, split))
        return benchmarks

    def _evaluated(self, recipe: Recipe, benchmarks: Sequence[Placed], name: str) -> tuple[list[ItemOutcome], Stage]:
        result = self.stages.evaluate(recipe, benchmarks, self.sampling, name=name)
        assert result is not None, "only a dry run measures nothing"
        return result

    def _points(
        self,
        measured: Sequence[_Measured],
        benchmarks: Sequence[Placed],
        post_outcomes: Sequence[ItemOutcome],
        fisher: Recipe,
    ) -> tuple[Point, ...]:
        here = _without_ceiling(benchmarks)
        measurements = [{split: measure(here, split, m.outcomes, post_outcomes) for split in SPLITS} for m in measured]
        on_frontier = frontier_mask(
            [(m["validation"].acquisition.mean, m["validation"].retention.mean) for m in measurements]
        )
        points = []
        with self.stages.progress.track("measure updates", len(measured)) as advance:
            for index, m in enumerate(measured):
                weights = m.candidate.weights
                behind = self.stages.behind(weights)
                points.append(
                    Point(
                        index=index,
                        knobs=dict(m.candidate.knobs),
                        formula=weights.formula(),
                        recipe=weights.to_json(),
                        weights_sha256=m.stage.facts["weights_sha256"],
                        validation=measurements[index]["validation"],
                        test=measurements[index]["test"],
                        on_frontier=bool(on_frontier[index]),
                        delta=self.stages.arithmetic.delta_statistics(weights, fisher),
                        cost=_cost(behind.values()),
                        stages=tuple(sorted(behind)),
                        evaluation_seconds=m.stage.seconds,
                    )
                )
                advance(1)
        return tuple(points)

    def _lineage_facts(self, measured: Sequence[_Measured]) -> LineageFacts:
        manifest = self.lineage.manifest
        used = {self.lineage.names[-1]: self.lineage.checkpoint("post")}
        for key in {key for m in measured for key in self.stages.behind(m.candidate.weights)}:
            for name in self.stages.store.open(key).facts.get("lineage", ()):
                used[name] = self.lineage.checkpoint(name)
        for m in measured:
            for checkpoint in m.candidate.weights.checkpoints():
                if checkpoint.source.startswith("lineage:"):
                    used[checkpoint.name] = checkpoint
        return LineageFacts(
            name=self.lineage.name,
            post=self.lineage.names[-1],
            dtype=manifest.dtype,
            template_sha256=self.stages.chat.template_sha256,
            tokenizer_sha256=self.stages.tokenizer_sha256,
            checkpoints=tuple(
                CheckpointFacts(name=name, source=used[name].source, sha256=used[name].sha256 or "")
                for name in self.lineage.names
                if name in used
            ),
        )

    def _stage_facts(self) -> tuple[StageFacts, ...]:
        stages = [self.stages.store.open(key) for key in self.stages.planned]
        return tuple(StageFacts(key=s.key, kind=s.facts["kind"], seconds=round(s.seconds, 3)) for s in stages)

    def _provenance(self) -> Provenance:
        import torch

        packages = {}
        for name in PACKAGES:
            try:
                packages[name] = version(name)
            except PackageNotFoundError:
                continue
        return Provenance(
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            command=self.command,
            packages=packages,
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            device=self.stages.numerics["device"],
            num_threads=torch.get_num_threads(),
            hardware=_hardware(),
        )


def run(
    method: Method[Any],
    task: Task[Any],
    lineage: Lineage,
    *,
    seed: int = 0,
    store: Store,
    progress: Progress | None = None,
) -> Result:
    """Run a method on a task and return its record. See `Run`."""
    return Run(method, task, lineage, seed=seed, store=store, progress=progress).execute()


def _point_name(index: int, candidate: Candidate) -> str:
    knobs = ", ".join(f"{name} {value}" for name, value in candidate.knobs.items() if value is not None)
    return f"candidate {index} ({knobs})"


def _without_ceiling(benchmarks: Sequence[Placed]) -> list[Placed]:
    return [place for place in benchmarks if place.suite != "ceiling"]


def _cost(stages: Iterable[Stage]) -> Cost:
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for stage in stages:
        by_kind.setdefault(stage.facts["kind"], []).append(stage.facts)

    def total(kind: str, fact: str) -> float:
        return float(sum(facts[fact] for facts in by_kind.get(kind, [])))

    return Cost(
        train_seconds=round(total("train", "seconds"), 3),
        fisher_seconds=round(total("fisher", "seconds"), 3),
        train_tokens=int(total("train", "num_tokens")),
        train_steps=int(total("train", "num_steps")),
        flops=total("train", "flops") + total("fisher", "flops"),
        peak_memory_bytes=max(
            (f["peak_memory_bytes"] for k in ("train", "fisher") for f in by_kind.get(k, [])), default=0
        ),
    )


def _reference(benchmarks: Sequence[Placed], outcomes: Sequence[ItemOutcome]) -> Reference:
    def split_measurement(split: Any) -> Measurement:
        return measure(_without_ceiling(benchmarks), split, outcomes)

    def ceiling(split: Any) -> tuple[Any, ...]:
        return tuple(scores((p for p in benchmarks if p.suite == "ceiling" and p.split == split), outcomes))

    return Reference(
        validation=split_measurement("validation"),
        test=split_measurement("test"),
        ceiling_validation=ceiling("validation"),
        ceiling_test=ceiling("test"),
    )


def _data_facts(bench: Bench) -> DataFacts:
    def sha256(examples: Sequence[Example]) -> str:
        return digest([example.model_dump_json() for example in examples])

    return DataFacts(
        num_examples=len(bench.examples),
        examples_sha256=sha256(bench.examples),
        num_retention_examples=len(bench.retention_examples),
        retention_examples_sha256=sha256(bench.retention_examples),
    )


def _benchmark_facts(place: Placed) -> BenchmarkFacts:
    return BenchmarkFacts(
        suite=place.suite,
        split=place.split,
        name=place.benchmark.name,
        definition=place.benchmark.definition,
        num_items=len(place.benchmark.items),
        max_new_tokens=place.benchmark.max_new_tokens,
        metric=place.benchmark.metric,
        headline=place.benchmark.headline,
    )


def _warnings(points: Sequence[Point], reference: Reference) -> Iterable[str]:
    for name, measurement in [("post", reference.test), *((f"point {p.index}", p.test) for p in points)]:
        for s in measurement.scores:
            if s.truncated_share > TRUNCATION_WARNING:
                yield (
                    f"{name}: {s.truncated_share:.1%} of the answers to {s.benchmark} were cut off by the token "
                    "budget; a lower score may only mean that"
                )


def _hardware() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or "unknown processor"
    return f"{model}, {os.cpu_count()} cores"
