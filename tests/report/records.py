"""Made-up records, valid and small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clbench.records import (
    BenchmarkFacts,
    CheckpointFacts,
    Cost,
    DataFacts,
    DeltaStatistics,
    Estimate,
    LineageFacts,
    Measurement,
    PluginFacts,
    Point,
    Provenance,
    Record,
    Reference,
    Score,
)

NUM_ITEMS = 100


def score(suite: Any, mean: float) -> Score:
    return Score(
        suite=suite,
        benchmark={"acquisition": "new", "retention": "old", "ceiling": "in context"}[suite],
        metric="exact match",
        headline=True,
        num_items=NUM_ITEMS,
        mean=mean,
        standard_error=0.02,
        lenient_mean=mean,
        num_truncated=1,
        num_unfinished_thoughts=0,
        mean_response_tokens=12.0,
        mean_thinking_tokens=7.0,
    )


def measurement(acquisition: float, retention: float, **changes: Any) -> Measurement:
    values: dict[str, Any] = {
        "acquisition": Estimate(mean=acquisition, standard_error=0.02),
        "retention": Estimate(mean=retention, standard_error=0.02),
        "scores": (score("acquisition", acquisition), score("retention", retention)),
    }
    return Measurement(**{**values, **changes})


def point(
    index: int, test: tuple[float, float], validation: tuple[float, float], frontier: bool, **knobs: Any
) -> Point:
    return Point(
        index=index,
        knobs=knobs or {"scale": 0.25 * (index + 1)},
        formula=f"post + {index} * delta",
        recipe={"sum": []},
        weights_sha256="0" * 64,
        validation=measurement(*validation),
        test=measurement(*test, forgotten=3, gained=1),
        on_frontier=frontier,
        delta=DeltaStatistics(norm=1.0, relative_norm=0.05, changed_share=0.5, fisher_weighted_top=0.1),
        cost=Cost(train_seconds=20.0, train_steps=300),
        stages=(),
    )


def a_record(points: Sequence[Point], *, method: str = "graft", seed: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "method": PluginFacts(name=method, origin="test", config={"scale": [0.5]}),
        "task": PluginFacts(name="knowledge-injection", origin="test", config={}),
        "lineage": LineageFacts(
            name="micro",
            post="post",
            dtype="bfloat16",
            template_sha256="t",
            tokenizer_sha256="t",
            checkpoints=(CheckpointFacts(name="post", source="lineage:micro/post", sha256="p"),),
        ),
        "seed": seed,
        "data": DataFacts(num_examples=1, examples_sha256="e", num_retention_examples=1, retention_examples_sha256="r"),
        "sampling": {},
        "benchmarks": tuple(
            BenchmarkFacts(
                suite=suite,
                split=split,
                name=name,
                definition=name,
                num_items=NUM_ITEMS,
                max_new_tokens=8,
                metric="exact match",
                headline=True,
            )
            for suite, name in (("acquisition", "new"), ("retention", "old"))
            for split in ("validation", "test")
        ),
        "reference": Reference(
            validation=measurement(0.02, 0.9), test=measurement(0.02, 0.9), ceiling_test=(score("ceiling", 0.98),)
        ),
        "points": tuple(points),
        "stages": (),
        "provenance": Provenance(
            created="2026-01-01T00:00:00+00:00",
            command="clbench run",
            packages={},
            python="3.11",
            platform="Linux",
            device="cpu",
            num_threads=1,
            hardware="a machine",
        ),
        "items_sha256": "i",
    }
    return Record(**{**values, **changes})


def a_sweep(method: str = "graft", seed: int = 0, shift: float = 0.0) -> Record:
    """Three points, the middle one off the frontier."""
    return a_record(
        [
            point(0, (0.30 + shift, 0.90), (0.31, 0.90), True),
            point(1, (0.60 + shift, 0.50), (0.60, 0.50), False),
            point(2, (0.80 + shift, 0.86), (0.79, 0.87), True),
        ],
        method=method,
        seed=seed,
    )
