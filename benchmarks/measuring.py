"""Measurements: rows with their targets, samples by round, values as medians over the rounds."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.clients import Connection, Together, Work, plans_of

LATENCY, RATE, GROWTH = "times faster", "times the rate", "times as long"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    `target` bounds the ratio: from below, for growth from above, None for a row that only informs. `recall` is the
    least recall@10 that counts. Each of the `rounds` has at least `fewest` pieces of work.
    """

    key: str
    title: str
    unit: str
    kind: str
    target: float | None = None
    recall: float | None = None
    rounds: int = 7
    fewest: int = 5


ROWS = (
    Row("section", "section of 10 with texts, p50", "ms", LATENCY, 4.0),
    Row("half-page", "first 50 of a 50 % filter, total, p50", "ms", LATENCY, 20.0),
    Row("ten", "query k=10, filter 10 matches, p50", "ms", LATENCY, 60.0, 1.0),
    Row("thou", "query k=10, filter 1,000 matches, p50", "ms", LATENCY, 7.0, 1.0),
    Row("half", "query k=10, filter 50 % match, p50", "ms", LATENCY, 25.0, 1.0),
    Row("alone", "query k=10, no filter, one client, p50", "ms", LATENCY, 1.2, 1.0),
    Row("unfiltered", "query k=10, no filter, 8 clients", "requests/s", RATE, 2.0, 1.0),
    Row("written", "the same while 20 documents a second are added", "requests/s", RATE, 1.8, rounds=5),
    Row("add-100", "add, batches of 100, one client", "docs/s", RATE, 1.0),
    Row("add-20-alone", "add, batches of 20, one client", "docs/s", RATE, 1.0),
    Row("add-20", "add, batches of 20, 8 clients", "docs/s", RATE, 1.2),
    Row("gather", "query k=10 with whole sections : query, one get a section, p50", "ms", LATENCY),
    Row("facets", "facets of four fields : read all metadata, p50", "ms", LATENCY, rounds=2, fewest=2),
    Row("mixed", "mixed load: 2 add 100s, 2 read sections, 4 query 1 %: reads p95", "ms", LATENCY, 2.0, rounds=5),
    Row("growth", "section p50, all documents : a tenth", "ms", GROWTH, 1.5),
    Row("rebuild", "index rebuilt from the catalogue : documents added again", "docs/s", RATE, rounds=1),
    Row("restart", "SIGTERM, start, first section and vector query", "ms", LATENCY, rounds=3),
)
READS = ("section", "half-page", "ten", "thou", "half", "alone", "gather", "facets")
BY_KEY = {row.key: row for row in ROWS}


@dataclass
class Samples:
    """The samples of one side of one row.

    They are a value for each round, the milliseconds of every single request, the processor time that `done` requests
    (documents, where documents are added) took the side's processes, and the plans that its answers name.
    """

    rounds: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    recall: float | None = None
    done: int = 0
    cpu_seconds: float = 0.0
    plans: Counter[str] = field(default_factory=Counter)

    @property
    def cpu_ms(self) -> float:
        return self.cpu_seconds * 1e3 / max(1, self.done)

    @property
    def value(self) -> float:
        return statistics.median(self.rounds)

    @property
    def p95_ms(self) -> float:
        return _percentile(self.latencies_ms, 0.95)

    def add_latencies(self, together: Together, cpu_seconds: float) -> None:
        """Add a round whose value is the median latency in milliseconds."""
        self._add(len(together.latencies_seconds), together, cpu_seconds)
        self.rounds.append(statistics.median(together.latencies_seconds) * 1e3)

    def add_p95(self, latencies_seconds: list[float], together: Together, cpu_seconds: float) -> None:
        """Add a round whose value is the 95th percentile of some of its latencies, in milliseconds."""
        self._add(len(together.latencies_seconds), together, cpu_seconds)
        self.rounds.append(_percentile(latencies_seconds, 0.95) * 1e3)

    def add_rate(self, done: int, together: Together, cpu_seconds: float, settling_seconds: float = 0.0) -> None:
        """Add a round whose value is a number per second."""
        self._add(done, together, cpu_seconds)
        self.rounds.append(done / (together.elapsed_seconds + settling_seconds))

    def _add(self, done: int, together: Together, cpu_seconds: float) -> None:
        self.latencies_ms += [seconds * 1e3 for seconds in together.latencies_seconds]
        self.plans += together.plans
        self.done += done
        self.cpu_seconds += cpu_seconds


@dataclass(frozen=True, slots=True)
class Result:
    """A measured row. For growth `ours` is all documents and `theirs` a tenth of them, both in this service."""

    row: Row
    ours: Samples
    theirs: Samples

    @property
    def ratio(self) -> float:
        return self._ratio(self.ours.value, self.theirs.value)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and highest ratio of a round of one side to the same round of the other."""
        # A run that was broken off has measured one side once more than the other.
        ratios = [self._ratio(*pair) for pair in zip(self.ours.rounds, self.theirs.rounds, strict=False)]
        return min(ratios), max(ratios)

    @property
    def met(self) -> bool | None:
        """Return whether the target is met, None without a target."""
        if self.row.target is None:
            return None
        if self.row.recall is not None and (self.ours.recall is None or self.ours.recall < self.row.recall):
            return False
        return self.ratio <= self.row.target if self.row.kind == GROWTH else self.ratio >= self.row.target

    def _ratio(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.row.kind == LATENCY else ours / theirs

    def as_json(self) -> dict[str, Any]:
        return {
            "row": self.row.key,
            "title": self.row.title,
            "unit": self.row.unit,
            "ratio": self.ratio,
            "ratio_spread": self.spread,
            "target": self.row.target,
            "target_recall": self.row.recall,
            "met": self.met,
            **{
                side: {
                    "value": samples.value,
                    "p95_ms": samples.p95_ms if samples.latencies_ms else None,
                    "cpu_ms": samples.cpu_ms,
                    "requests": len(samples.latencies_ms),
                    "rounds": samples.rounds,
                    "recall": samples.recall,
                    "plans": dict(samples.plans),
                }
                for side, samples in (("ours", self.ours), ("theirs", self.theirs))
            },
        }


def in_turn(number: int) -> tuple[int, int]:
    """Return the places of both sides in the order of a round; the order changes with every round."""
    return (0, 1) if number % 2 == 0 else (1, 0)


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def work_for(connection: Connection, works: Iterable[Work], seconds: float, fewest: int = 5) -> Together:
    """Let one client work for `seconds`, but on at least `fewest` pieces of work."""
    latencies: list[float] = []
    plans: Counter[str] = Counter()
    for work in works:
        answers, taken = connection.do(work)
        latencies.append(taken)
        plans.update(plans_of(answers))
        if sum(latencies) >= seconds and len(latencies) >= fewest:
            break
    return Together([latencies], sum(latencies), plans)
