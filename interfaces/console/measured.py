"""Measurements as pages show them: bars beside each other, and what changed for each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SHARES = (("nDCG@10", "ndcg_at_10"), ("Recall@10", "recall_at_10"), ("MRR@10", "mrr"))
LEAST_CHANGE = 1e-9
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure. `share` is its length between 0 and 1, and `beyond` that of a lighter bar behind it."""

    title: str
    shown: str
    share: float
    beyond: float = 0.0


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """nDCG@10 of a question before and after."""

    question: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one to the other, the largest first."""

    before: str
    after: str
    changes: tuple[Change, ...]
    better: int
    worse: int


def plots_of(benches: Sequence[Json], run: str) -> list[Plot]:
    """Return the figures: of one measurement those of its runs, of several those of the same run."""
    named = _named(benches, run)
    if not named:
        return []
    slowest = max(each["latency_ms"]["p95"] for _, each in named) or 1.0
    latencies = tuple(
        Bar(
            title,
            f"{each['latency_ms']['p50']:.0f} ms, p95 {each['latency_ms']['p95']:.0f} ms",
            each["latency_ms"]["p50"] / slowest,
            each["latency_ms"]["p95"] / slowest,
        )
        for title, each in named
    )
    shares = [
        Plot(title, tuple(Bar(name, f"{each[measure]:.3f}", each[measure]) for name, each in named))
        for title, measure in SHARES
    ]
    return [*shares, Plot("Time of a search, median", latencies)]


def compared(benches: Sequence[Json], run: str) -> Comparison | None:
    """Return what changed by question: from the first measurement to the last, or within one from the oracle of
    meaning alone to all fused. None where there is nothing to compare."""
    if len(benches) == 1:
        names = [each["name"] for each in benches[0]["runs"]]
        if len(names) < 2:
            return None
        other = "semantic" if "semantic" in names and run != "semantic" else names[-1]
        if run not in names or other == run:
            return None
        first = {each["question"]: each["runs"][other] for each in benches[0]["questions"]}
        last = {each["question"]: each["runs"][run] for each in benches[0]["questions"]}
        return _compared(other, run, first, last)
    if not benches:
        return None
    first, last = (
        {each["question"]: each["runs"][run] for each in bench["questions"] if run in each["runs"]}
        for bench in (benches[0], benches[-1])
    )
    return _compared(_moment(benches[0]), _moment(benches[-1]), first, last)


def _compared(before: str, after: str, first: Mapping[str, Json], last: Mapping[str, Json]) -> Comparison | None:
    changes = [
        Change(question, first[question]["ndcg_at_10"], last[question]["ndcg_at_10"])
        for question in last
        if question in first
    ]
    if not changes:
        return None
    changes.sort(key=lambda each: (-abs(each.difference), each.question))
    return Comparison(
        before,
        after,
        tuple(changes),
        better=sum(each.difference > LEAST_CHANGE for each in changes),
        worse=sum(each.difference < -LEAST_CHANGE for each in changes),
    )


def _named(benches: Sequence[Json], run: str) -> list[tuple[str, Json]]:
    if len(benches) == 1:
        return [(each["name"], each) for each in benches[0]["runs"]]
    return [(_moment(bench), each) for bench in benches for each in bench["runs"] if each["name"] == run]


def _moment(bench: Json) -> str:
    return f"{bench['collection']}, {bench['created_at'][:16].replace('T', ' ')}"
