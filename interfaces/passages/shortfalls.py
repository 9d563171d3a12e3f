"""What a search could not ask, as sentences for whoever reads its answer without the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]

MOST_NAMED = 5
UNJUDGED = "No relevance could be told: scores are those of the ranking, and the threshold left nothing out"


def shortfalls(receipt: Json, *, least: float | None = None) -> list[str]:
    """Return a sentence for each oracle that failed, for collections that an oracle could not ask, and for a threshold
    of relevance, `least`, by which nothing could be judged. `receipt` is that of the answer of `/api/search`."""
    said: list[str] = []
    for oracle, each in receipt["oracles"].items():
        if each["status"] == "failed":
            said.append(f"The {oracle} oracle did not answer: {each.get('error')}")
        said += unasked(each.get("left_out", {}), oracle)
    return [*said, UNJUDGED] if least and "min_relevance" not in receipt else said


def unasked(left_out: Mapping[str, str], oracle: str = "semantic") -> list[str]:
    """Return a sentence for each reason for which an oracle could not ask collections."""
    by_reason: dict[str, list[str]] = {}
    for collection, reason in left_out.items():
        by_reason.setdefault(reason, []).append(collection)
    return [f"The {oracle} oracle did not ask {_some(names)}: {reason}" for reason, names in by_reason.items()]


def _some(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
