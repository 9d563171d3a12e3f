"""Changes of a collection, as those hear of them who keep a copy."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, final

from rag_wrapper_client.embeddings import Vector, decoded


@final
class Change(TypedDict):
    """What became of an id: `upsert` has the document in its newest state, its embedding only if that was asked for;
    `delete` has nothing but the id."""

    op: Literal["upsert", "delete"]
    revision: int
    id: str
    text: NotRequired[str | None]
    metadata: NotRequired[dict[str, Any]]
    embedding: NotRequired[Vector]
    uri: NotRequired[str]


@final
class Place(TypedDict):
    """How far a copy has come: to be kept with the copy, and given to the next `changes`. `more` says whether there
    are further changes already."""

    next: int
    as_of: NotRequired[int]
    history: str
    more: bool


def told(line: Any) -> Change | Place:
    """Return what a line of the answer says."""
    if "embedding" in line:
        line["embedding"] = decoded(line["embedding"])
    change: Change | Place = line
    return change


def asked(place: Place | None) -> dict[str, Any]:
    """Return the parameters with which to go on from a place, for None from the beginning."""
    if place is None:
        return {}
    return {"since": place["next"], "as_of": place.get("as_of"), "history": place["history"]}
