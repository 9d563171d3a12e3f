"""Why a passage was found: its place with each oracle, and how fusion and smoothing moved it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interfaces.console.wire import Wire
from schemas.ways import RRF, SCORES, SMOOTHED

MOST = 100
Json = Mapping[str, Any]
Identity = tuple[str | None, str]


@dataclass(frozen=True, slots=True)
class Step:
    """A place of a passage in one ranking. `share` is its score between the ranking's lowest, 0, and highest, 1."""

    name: str
    rank: int | None
    score: float | None
    share: float


def receipts_of(wire: Wire, answer: Json, body: Mapping[str, Any]) -> dict[Identity, list[Step]]:
    """Return for each result the steps that led to its place: the oracles, the fusion of ranks, that of scores, and the
    answer as it is."""
    again = {name: value for name, value in body.items() if name not in ("gather", "explain")}
    again |= {"limit": MOST, "min_relevance": 0}
    fusions = [each for each in (RRF, SCORES) if each != answer["receipt"]["fusion"]]
    others = {each: _places(wire.post("/api/search", {**again, "fusion": each})["results"], each) for each in fusions}
    final = _places(answer["results"], answer["receipt"]["fusion"])
    highest = _highest_of_oracles(answer["results"])
    receipts = {}
    for hit in answer["results"]:
        identity = hit["collection"], hit["doc_id"]
        steps = [
            Step(name, place["rank"], place["score"], _share(place["score"], highest[name]))
            for name, place in hit["provenance"].items()
        ]
        steps += [places.get(identity, Step(_NAMES[each], None, None, 0)) for each, places in others.items()]
        receipts[identity] = [*steps, final[identity]]
    return receipts


PLANS = {
    "memory": "every vector, from memory",
    "exact": "every vector that matches",
    "scan": "every vector that matches, without the index",
    "index": "the index, then the vectors that it names",
    "index+filter": "the index, then those of its vectors that match",
    "empty": "nothing to search",
}
"""The plans of a vector query in words."""
_NAMES = {RRF: "fused by rank", SCORES: "fused by score", SMOOTHED: "smoothed by neighbours"}


def _places(results: list[Json], fusion: str) -> dict[Identity, Step]:
    of_score = "rrf_score" if fusion == RRF else "score"
    highest = max((each[of_score] for each in results), default=0.0)
    return {
        (each["collection"], each["doc_id"]): Step(
            _NAMES[fusion], rank, each[of_score], _share(each[of_score], highest)
        )
        for rank, each in enumerate(results, start=1)
    }


def _highest_of_oracles(results: list[Json]) -> dict[str, float]:
    highest: dict[str, float] = {}
    for each in results:
        for name, place in each["provenance"].items():
            highest[name] = max(highest.get(name, 0.0), place["score"])
    return highest


def _share(score: float, highest: float) -> float:
    return min(max(score / highest, 0.0), 1.0) if highest > 0 else 0.0
