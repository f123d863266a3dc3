"""The record: the published result of one run, and the per-item outcomes that it can be recomputed from.

A run folder holds `record.json` (this schema) and `items.jsonl.gz` (one `ItemOutcome` a line).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import pydantic

from clbench.canonical import digest
from clbench.errors import UserError
from clbench.files import write_atomically
from clbench.method import Knob
from clbench.task import Split

SCHEMA_VERSION = 1
RECORD_NAME = "record.json"
ITEMS_NAME = "items.jsonl.gz"


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ItemOutcome(_Model):
    """What one model answered to one item. One line of `items.jsonl.gz`."""

    model: str
    """`post` for the unedited model, else the index of the point."""
    suite: Literal["acquisition", "retention", "ceiling"]
    split: Split
    benchmark: str
    item: str
    form: str = ""
    outcome: float
    """Score in [0, 1] by the benchmark's metric, on the answer without thoughts."""
    lenient: float
    """1 if the target occurs anywhere in the answer, else 0."""
    response_tokens: int
    thinking_tokens: int
    finish: Literal["stop", "length"]
    """`length`: the budget ended the answer (truncated)."""
    unfinished_thought: bool = False
    """Thinking was begun and not ended; there is no answer, the outcome is 0."""
    response: str
    """The raw text that the model wrote, thoughts included."""


class Estimate(_Model):
    """A mean with its standard error over items (not over seeds)."""

    mean: float
    standard_error: float = pydantic.Field(ge=0)


class Score(_Model):
    """One benchmark on one split."""

    suite: Literal["acquisition", "retention", "ceiling"]
    benchmark: str
    metric: str
    headline: bool
    num_items: int
    mean: float
    standard_error: float
    lenient_mean: float
    num_truncated: int
    num_unfinished_thoughts: int
    mean_response_tokens: float
    mean_thinking_tokens: float

    @property
    def truncated_share(self) -> float:
        """Share of the answers that the budget cut off."""
        return self.num_truncated / self.num_items


class Measurement(_Model):
    """One model on one split. Acquisition and retention are plain means over their suites' headline benchmarks."""

    acquisition: Estimate
    retention: Estimate
    scores: tuple[Score, ...]
    forgotten: int | None = None
    """Retention items that θ_post answers and this model does not (1 → 0); None for θ_post itself."""
    gained: int | None = None
    """Retention items that this model answers and θ_post does not (0 → 1)."""

    def score(self, benchmark: str) -> Score:
        """The score of a benchmark. Raises `KeyError`."""
        for score in self.scores:
            if score.benchmark == benchmark:
                return score
        raise KeyError(benchmark)

    @property
    def truncated_share(self) -> float:
        """The largest share of truncated answers over the benchmarks."""
        return max(score.truncated_share for score in self.scores)


class DeltaStatistics(_Model):
    """How far a candidate lies from θ_post. Δ here is candidate − θ_post, in float32, after rounding."""

    norm: float
    """‖Δ‖₂ over all floating-point coordinates."""
    relative_norm: float
    """‖Δ‖₂ / ‖θ_post‖₂."""
    changed_share: float
    """Share of coordinates in which the candidate differs from θ_post after rounding to θ_post's dtype."""
    fisher_weighted_top: float | None = None
    """Σ_j F_ret(j) Δ_j² over the 1 % of coordinates with the largest retention Fisher (2610.05872, Fig. 8 right)."""


class Cost(_Model):
    """What it took to make a candidate: all stages that its weights rest on, shared ones counted in full.

    Seconds are those of the machine that worked the stages out, whenever that was; they do not count as part of a
    record's identity.
    """

    train_seconds: float = 0.0
    sample_seconds: float = 0.0
    fisher_seconds: float = 0.0
    train_tokens: int = 0
    sample_tokens: int = 0
    train_steps: int = 0
    flops: float = 0.0
    """6 · parameters · tokens for training, 2 · parameters · tokens for sampling, 6 · … for a Fisher estimate."""
    peak_memory_bytes: int = 0


class Point(_Model):
    """A candidate, measured."""

    index: int
    knobs: dict[str, Knob]
    formula: str
    """The recipe as a person writes it."""
    recipe: dict[str, Any]
    """The recipe as JSON; see `clbench.weights.recipe`."""
    weights_sha256: str
    """Hash over the candidate's rounded tensors, by name."""
    validation: Measurement
    test: Measurement
    on_frontier: bool
    """Not dominated by another point of this record on *validation*."""
    delta: DeltaStatistics
    cost: Cost
    stages: tuple[str, ...]
    """Keys of the stages that the weights rest on."""
    evaluation_seconds: float = 0.0


class Reference(_Model):
    """θ_post, measured with the same suites, and the ceiling: its answers with the source in context."""

    validation: Measurement
    test: Measurement
    ceiling_validation: tuple[Score, ...] = ()
    ceiling_test: tuple[Score, ...] = ()


class PluginFacts(_Model):
    """Which method or task, from where, with which config."""

    name: str
    origin: str
    """`distribution version` or `file PATH-NAME sha256:…`."""
    config: dict[str, Any]
    facts: dict[str, Any] = {}


class CheckpointFacts(_Model):
    """A checkpoint of the lineage that the run used."""

    name: str
    source: str
    sha256: str


class LineageFacts(_Model):
    """The lineage, with hashes of all that talks to the model."""

    name: str
    post: str
    dtype: str
    template_sha256: str
    tokenizer_sha256: str
    checkpoints: tuple[CheckpointFacts, ...]


class DataFacts(_Model):
    """How many examples there were, and the hashes of their canonical lists."""

    num_examples: int
    examples_sha256: str
    num_retention_examples: int
    retention_examples_sha256: str


class BenchmarkFacts(_Model):
    """A benchmark, with the hash of everything that decides its score."""

    suite: Literal["acquisition", "retention", "ceiling"]
    split: Split
    name: str
    definition: str
    num_items: int
    max_new_tokens: int
    metric: str
    headline: bool


class StageFacts(_Model):
    """A stage that the run needed; its seconds are of the time when it was worked out."""

    key: str
    kind: str
    seconds: float


class Provenance(_Model):
    """When, with what and on what the record was made."""

    created: str
    """UTC, ISO 8601."""
    command: str
    packages: dict[str, str]
    python: str
    platform: str
    device: str
    num_threads: int
    hardware: str


class Record(_Model):
    """The result of one run: method × task × lineage × seed."""

    schema_version: int = SCHEMA_VERSION
    method: PluginFacts
    task: PluginFacts
    lineage: LineageFacts
    seed: int
    data: DataFacts
    sampling: dict[str, Any]
    benchmarks: tuple[BenchmarkFacts, ...]
    reference: Reference
    points: tuple[Point, ...]
    stages: tuple[StageFacts, ...]
    provenance: Provenance
    items_sha256: str
    """SHA-256 of the uncompressed item outcomes."""
    warnings: tuple[str, ...] = ()

    @property
    def frontier(self) -> tuple[Point, ...]:
        """The points that are non-dominated on validation, by increasing test acquisition."""
        return tuple(sorted((p for p in self.points if p.on_frontier), key=lambda p: p.test.acquisition.mean))

    @property
    def label(self) -> str:
        """Method, task, lineage and seed in one line."""
        return f"{self.method.name} × {self.task.name} × {self.lineage.name}, seed {self.seed}"

    def fingerprint(self) -> str:
        """SHA-256 of all that must come out the same when the run is repeated on one machine.

        Left out: seconds, peak memory, and the provenance of the moment (date, command, hardware names).
        """
        value = self.model_dump(mode="json")
        del value["provenance"]
        for stage in value["stages"]:
            del stage["seconds"]
        for point in value["points"]:
            del point["evaluation_seconds"]
            for name in [key for key in point["cost"] if key.endswith("_seconds")] + ["peak_memory_bytes"]:
                del point["cost"][name]
        return digest(value)


def estimate(values: Iterable[float]) -> Estimate:
    """Mean and standard error of the mean, s/√n with the n−1 variance (0 for a single value).

    Raises:
        ValueError: for no value, or one that is not finite.
    """
    values = list(values)
    if not values or not all(math.isfinite(value) for value in values):
        raise ValueError("an estimate needs at least one value, all finite")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Estimate(mean=mean, standard_error=0.0)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Estimate(mean=mean, standard_error=math.sqrt(variance / len(values)))


def mean_of_scores(scores: Iterable[Score]) -> Estimate:
    """The plain mean over headline benchmarks, its standard error from theirs (items of benchmarks independent).

    A suite without a headline benchmark has no mean: `ValueError`.
    """
    headline = [score for score in scores if score.headline]
    if not headline:
        raise ValueError("a suite needs at least one headline benchmark")
    mean = math.fsum(score.mean for score in headline) / len(headline)
    variance = math.fsum(score.standard_error**2 for score in headline) / len(headline) ** 2
    return Estimate(mean=mean, standard_error=math.sqrt(variance))


def encode_items(outcomes: Iterable[ItemOutcome]) -> bytes:
    """The outcomes as JSON lines (uncompressed), in the order given."""
    return b"".join(outcome.model_dump_json().encode() + b"\n" for outcome in outcomes)


def write_run(folder: Path, record: Record, items: bytes) -> None:
    """Write `items.jsonl.gz`, then `record.json`: a folder with a record is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
        file.write(items)
    write_atomically(folder / ITEMS_NAME, buffer.getvalue())
    write_atomically(folder / RECORD_NAME, (record.model_dump_json(indent=1) + "\n").encode())


def read_record(folder: Path) -> Record:
    """The record of a run folder (or of a path to its `record.json`).

    Raises:
        UserError: if this is not a run folder, or the record is damaged or from a newer clbench.
    """
    path = folder if folder.name == RECORD_NAME else folder / RECORD_NAME
    if not path.is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RECORD_NAME}. `clbench run` writes one under runs/.")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        version = value["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(
            f"{path} is damaged: it is not the JSON of a record. Repeat the run to write it anew."
        ) from None
    if version != SCHEMA_VERSION:
        raise UserError(f"{path} has schema version {version!r}; this clbench reads {SCHEMA_VERSION}.")
    try:
        return Record.model_validate(value)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path} is damaged: {place}: {first['msg']}.") from None


def read_items(folder: Path) -> Iterator[ItemOutcome]:
    """The per-item outcomes of a run folder, one at a time.

    Raises:
        UserError: if the file is damaged, or (after the last item) is not the one that the record was made
            with.
    """
    expected = read_record(folder).items_sha256
    sha256 = hashlib.sha256()
    try:
        with gzip.open(folder / ITEMS_NAME, "rb") as file:
            for line in file:
                sha256.update(line)
                yield ItemOutcome.model_validate_json(line)
    except (gzip.BadGzipFile, EOFError, zlib.error, pydantic.ValidationError) as error:
        raise UserError(f"{folder / ITEMS_NAME} is damaged: {str(error).splitlines()[0]}. Repeat the run.") from None
    if sha256.hexdigest() != expected:
        raise UserError(f"{folder / ITEMS_NAME} is not the file that {RECORD_NAME} beside it was made with.")
