"""Measuring a model on suites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from clbench.chat import Chat
from clbench.errors import RunError
from clbench.evaluation.scoring import contains
from clbench.records import ItemOutcome, Measurement, Score, estimate, mean_of_scores
from clbench.sampling.interface import Sampler, SamplingConfig
from clbench.task import Benchmark, Split, Suite

SuiteName = Literal["acquisition", "retention", "ceiling"]


@dataclass(frozen=True)
class Placed:
    """A benchmark with the suite and the split that it stands in."""

    suite: SuiteName
    split: Split
    benchmark: Benchmark


def placed(suite: SuiteName, split: Split, content: Suite | None) -> list[Placed]:
    """The benchmarks of a suite, placed."""
    return [Placed(suite, split, benchmark) for benchmark in content.benchmarks] if content else []


def evaluate(
    sampler: Sampler,
    chat: Chat,
    benchmarks: Sequence[Placed],
    *,
    config: SamplingConfig,
    advance: Callable[[int], None] = lambda n: None,
) -> list[ItemOutcome]:
    """Every item's outcome, benchmark after benchmark, in their order; `model` is left for the caller to fill in.

    All items are sampled in one go.

    Raises:
        RunError: if a verifier raises or returns what is no score, naming benchmark and item.
    """
    questions = [(place, item) for place in benchmarks for item in place.benchmark.items]
    completions = sampler.sample(
        [chat.prompt_ids(item.prompt) for _, item in questions],
        max_new_tokens=[place.benchmark.max_new_tokens for place, _ in questions],
        config=config,
        on_finished=advance,
    )
    verifiers = {place.benchmark.verifier: place.benchmark.load_verifier() for place in benchmarks}
    outcomes = []
    for (place, item), completion in zip(questions, completions, strict=True):
        parsed = chat.parse(completion.token_ids)
        outcome = lenient = 0.0
        if not parsed.unfinished_thought:
            try:
                outcome = float(verifiers[place.benchmark.verifier](parsed.answer, item))
            except Exception as error:
                raise RunError(
                    f"the verifier of benchmark {place.benchmark.name!r} raised at item {item.id!r}: "
                    f"{type(error).__name__}: {error}"
                ) from error
            if not 0.0 <= outcome <= 1.0:
                raise RunError(
                    f"the verifier of benchmark {place.benchmark.name!r} gave {outcome!r} at item {item.id!r}; a score "
                    "lies between 0 and 1."
                )
            lenient = contains(parsed.answer, item)
        outcomes.append(
            ItemOutcome(
                model="",
                suite=place.suite,
                split=place.split,
                benchmark=place.benchmark.name,
                item=item.id,
                form=item.form,
                outcome=outcome,
                lenient=lenient,
                response_tokens=len(completion.token_ids),
                thinking_tokens=parsed.thinking_tokens,
                finish=completion.finish,
                unfinished_thought=parsed.unfinished_thought,
                response=parsed.text,
            )
        )
    return outcomes


def scores(benchmarks: Iterable[Placed], outcomes: Iterable[ItemOutcome]) -> list[Score]:
    """Each benchmark's outcomes, summed up."""
    by_place: dict[tuple[str, str, str], list[ItemOutcome]] = {}
    for o in outcomes:
        by_place.setdefault((o.suite, o.split, o.benchmark), []).append(o)
    return [_score(place, by_place[place.suite, place.split, place.benchmark.name]) for place in benchmarks]


def _score(place: Placed, own: list[ItemOutcome]) -> Score:
    mean = estimate(o.outcome for o in own)
    return Score(
        suite=place.suite,
        benchmark=place.benchmark.name,
        metric=place.benchmark.metric,
        headline=place.benchmark.headline,
        num_items=len(own),
        mean=mean.mean,
        standard_error=mean.standard_error,
        lenient_mean=estimate(o.lenient for o in own).mean,
        num_truncated=sum(o.finish == "length" for o in own),
        num_unfinished_thoughts=sum(o.unfinished_thought for o in own),
        mean_response_tokens=estimate(o.response_tokens for o in own).mean,
        mean_thinking_tokens=estimate(o.thinking_tokens for o in own).mean,
    )


def measure(
    benchmarks: Sequence[Placed],
    split: Split,
    outcomes: Sequence[ItemOutcome],
    post_outcomes: Sequence[ItemOutcome] | None = None,
) -> Measurement:
    """A model's measurement on one split; with θ_post's outcomes, also the items forgotten and gained."""
    here = [place for place in benchmarks if place.split == split and place.suite != "ceiling"]
    here_scores = scores(here, outcomes)
    forgotten = gained = None
    if post_outcomes is not None:
        headline = {place.benchmark.name for place in here if place.suite == "retention" and place.benchmark.headline}
        before, after = (
            {(o.benchmark, o.item): o.outcome for o in side if o.suite == "retention" and o.split == split}
            for side in (post_outcomes, outcomes)
        )
        pairs = [(before[key], after[key]) for key in before if key[0] in headline]
        forgotten = sum(was > is_now for was, is_now in pairs)
        gained = sum(was < is_now for was, is_now in pairs)
    return Measurement(
        acquisition=mean_of_scores(s for s in here_scores if s.suite == "acquisition"),
        retention=mean_of_scores(s for s in here_scores if s.suite == "retention"),
        scores=tuple(here_scores),
        forgotten=forgotten,
        gained=gained,
    )
