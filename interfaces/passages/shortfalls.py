"""What a search could not ask, as sentences for whoever reads its answer without the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schemas.contracts.chat import ChatTurn
    from schemas.contracts.search import CollectionsReceipt

Json = Mapping[str, Any]

MOST_NAMED = 5
SHORTENED = "The question is long: its first and last sentences were asked"
UNJUDGED = "No relevance could be told: scores are those of the ranking, and the threshold left nothing out"


def shortfalls(receipt: Json, *, least: float | None = None) -> list[str]:
    """Return a sentence for a question that was not asked whole, for each oracle that failed, for collections that an
    oracle or nobody could ask, and for a threshold of relevance, `least`, by which nothing could be judged. `receipt`
    is that of the answer of `/api/search`, or one that tells of collections alone."""
    from schemas.contracts.search import ASKED, CollectionsReceipt  # which imports numpy

    said: list[str] = [SHORTENED] if "asked_text" in receipt else []
    told: set[str] = set()
    for oracle, each in receipt.get("oracles", {}).items():
        if each["status"] == "failed":
            said.append(f"The {oracle} oracle did not answer: {each.get('error')}")
        left_out = each.get("left_out", {})
        told.update(left_out)
        said += _by_reason(f"The {oracle} oracle did not ask", left_out)
    collections = receipt["collections"]
    asked = tuple(name for name, each in collections.items() if each["status"] == ASKED)
    others = {name: each["reason"] for name, each in collections.items() if name not in (*asked, *told)}
    said += unasked(CollectionsReceipt(asked, others))
    return [*said, UNJUDGED] if least and "min_relevance" not in receipt else said


def shortfalls_of(turn: ChatTurn) -> list[str]:
    """Return the same of the search for an answer of the chat model, and what the answer itself lacks."""
    from schemas.wire.search import search_receipt

    return [*([] if turn.search is None else shortfalls(search_receipt(turn.search.receipt))), *turn.notes]


def unasked(receipt: CollectionsReceipt | None) -> list[str]:
    """Return a sentence for each reason for which collections were not asked that might have an answer."""
    return [] if receipt is None else _by_reason("The question was not put to", receipt.missed)


def _by_reason(beginning: str, left_out: Mapping[str, str]) -> list[str]:
    """Return a sentence for each reason, with the collections that were left out for it."""
    by_reason: dict[str, list[str]] = {}
    for collection, reason in left_out.items():
        by_reason.setdefault(reason, []).append(collection)
    return [f"{beginning} {_some(names)}: {reason}" for reason, names in by_reason.items()]


def _some(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
