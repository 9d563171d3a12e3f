"""Results of tools as text, for people and for models without structured content."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from interfaces.passages.places import heading_of, percentage, place_of, source_of
from interfaces.passages.shortfalls import shortfalls
from retrieval.quoting import excerpt, quoted
from schemas.plurals import counted

Json = dict[str, Any]


def readable(name: str, result: Json) -> str:
    """Return a text for a tool's result: JSON for tools that have no writer here, else with the warnings at the end."""
    write = _WRITERS.get(name)
    if write is None:
        return orjson.dumps(result).decode()
    return "\n\n".join([write(result), *(f"({each})" for each in result.get("warnings", ()))])


def _query(result: Json) -> str:
    found = [_result(number, each) for number, each in enumerate(result["results"], start=1)]
    return "\n\n".join([*(found or [_nothing(result["receipt"])]), *shortfalls(result["receipt"])])


def _nothing(receipt: Json) -> str:
    asked = [name for name, each in receipt["collections"].items() if each["status"] == "asked"]
    sentence = f"Nothing was found. Asked: {', '.join(asked) or 'no collection'}."
    below = receipt.get("below_min_relevance")
    return f"{sentence} Not relevant enough, below {receipt['min_relevance']:g}: {below}." if below else sentence


def _result(number: int, result: Json) -> str:
    """Return a result below a line that says where it stands, how relevant it is, and how to read on from there."""
    stands = " › ".join(filter(None, (place_of(source_of(result), result["metadata"]), heading_of(result["metadata"]))))
    found_by = ", ".join(f"{name} #{place['rank']}" for name, place in result["provenance"].items())
    chunk = f"collection {result['collection']}, chunk_id {result['chunk_id']}"
    told = "; ".join(filter(None, (percentage(result.get("relevance")), found_by, chunk)))
    return f"[{number}] {stands} ({told})\n{quoted(excerpt(result['content']))}"


def _gather(result: Json) -> str:
    text: str = result["text"]
    return text


def _collections(result: Json) -> str:
    found = [f"{each['name']}: {each['count']} chunks" for each in result["collections"]]
    return "\n".join(found) or "There are no collections yet."


def _session_end(result: Json) -> str:
    return f"Session '{result['name']}' is ended. It has {counted(result['notes'], 'note')}."


_WRITERS: Mapping[str, Callable[[Json], str]] = {
    "rag_query": _query,
    "rag_context": lambda result: "\n\n".join([result["context"], *shortfalls(result["receipt"])]),
    "rag_gather": _gather,
    "rag_collections": _collections,
    "session_start": lambda result: f"Session '{result['name']}' is started: session_id {result['session_id']}.",
    "session_note": lambda result: f"Noted: note_id {result['note_id']}.",
    "session_end": _session_end,
}
