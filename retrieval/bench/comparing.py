"""Compare two measurements of the same queries: what got better, what got worse, and whether that may be chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

SAMPLES = 10_000
SEED = 20261121
CONFIDENCE = 0.95
LEAST_CHANGE = 1e-9


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one measure: the means before and after, and bounds of the true difference with `CONFIDENCE`.

    When both bounds have the same sign, the change is hardly chance.
    """

    measure: str
    before: float
    after: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run compared with an earlier one of the same name, over the queries of both.

    `better` and `worse`: the difference of nDCG@10 by query, greatest first.
    """

    name: str
    queries: int
    changes: tuple[Change, ...]
    better: Mapping[str, float]
    worse: Mapping[str, float]


PerQuery = Mapping[str, Mapping[str, float]]
"""The measures of each query, by name."""


def compare(name: str, before: PerQuery, after: PerQuery, measures: tuple[str, ...]) -> Comparison | None:
    """Compare two runs; return None when they share no query."""
    shared = [query for query in after if query in before]
    if not shared:
        return None
    differences = {query: after[query]["ndcg_at_10"] - before[query]["ndcg_at_10"] for query in shared}
    by_size = sorted(differences.items(), key=lambda each: (-abs(each[1]), each[0]))
    return Comparison(
        name,
        len(shared),
        tuple(
            _change(
                measure,
                np.array([before[query][measure] for query in shared]),
                np.array([after[query][measure] for query in shared]),
            )
            for measure in measures
        ),
        better={query: difference for query, difference in by_size if difference > LEAST_CHANGE},
        worse={query: difference for query, difference in by_size if difference < -LEAST_CHANGE},
    )


def _change(measure: str, before: np.ndarray, after: np.ndarray) -> Change:
    """Estimate the interval by the paired bootstrap: queries are drawn again and again, each with both its values."""
    difference = after - before
    drawn = np.random.default_rng(SEED).integers(0, len(difference), (SAMPLES, len(difference)))
    tail = (1.0 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(difference[drawn].mean(axis=1), [tail, 100 - tail])
    return Change(measure, float(before.mean()), float(after.mean()), float(low), float(high))
