"""What `search --explain` says: who found what, what smoothing changed, what was cut and who was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interfaces.passages.places import place_of, source_of
from interfaces.terminal.services import RunningService
from schemas.ways import SCORES, SMOOTHED

MOST = 100

Json = Mapping[str, Any]


def without_smoothing(service: RunningService, answer: Json, body: Json) -> Sequence[Json]:
    """Return the candidates of an answered question as they would be ranked without smoothing."""
    fusion = answer["receipt"]["fusion"]
    again = {name: value for name, value in body.items() if name not in ("gather", "explain")}
    again |= {"fusion": SCORES if fusion == SMOOTHED else fusion, "limit": MOST, "min_relevance": 0}
    results: Sequence[Json] = json.loads(service.post("/api/search", again))["results"]
    return results


def found_by(hit: Json, rank: int, plain: Sequence[Json], *, fusion: str) -> Iterator[str]:
    """Yield who found a hit at which rank with which score, and what smoothing changed."""
    places = [f"{name} #{place['rank']} ({place['score']:.3f})" for name, place in hit["provenance"].items()]
    yield f"found by {', '.join(places)}"
    said = f"#{rank} with score {hit['score']:.3f}, rrf {hit['rrf_score']:.4f}"
    before = [place for place, each in enumerate(plain, start=1) if _identity(each) == _identity(hit)]
    if fusion == SMOOTHED and before:
        score = plain[before[0] - 1]["score"]
        said += f"; without smoothing #{before[0]} with score {score:.3f}"
    yield said


def about_the_search(answer: Json, plain: Sequence[Json]) -> Iterator[str]:
    """Yield what was cut and why, and how the answer came about: its fusion, oracles and collections."""
    receipt = answer["receipt"]
    names = {_identity(each): place_of(source_of(each), each["metadata"]) for each in plain}
    for cut in answer["explanations"]:
        yield f"{names.get(_identity(cut), cut['doc_id'])}: {cut['reason']}"
    compared = receipt.get("compared_by")
    yield f"fusion: {receipt['fusion']}{f', candidates compared by {compared}' if compared else ''}"
    for name, oracle in receipt["oracles"].items():
        is_ok = oracle["status"] == "ok"
        yield (
            f"{name}: {oracle['count']} found"
            if is_ok
            else f"{name}: {oracle['status']}{_because(oracle.get('error'))}"
        )
        for collection, reason in oracle.get("left_out", {}).items():
            yield f"{name}: {collection} was left out{_because(reason)}"
    for collection, each in receipt["collections"].items():
        yield f"collection {collection}: {each['status'].replace('_', ' ')}{_because(each.get('reason'))}"


def _identity(found: Json) -> tuple[str | None, str]:
    return found["collection"], found["doc_id"]


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""
