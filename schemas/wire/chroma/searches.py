"""Searches of Chroma's protocol: filtered, ranked and grouped, several in one request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from schemas.errors import InvalidInputError
from schemas.records import Document
from schemas.where import Where
from schemas.wire.chroma.ranking import Rank, parse_rank
from schemas.wire.chroma.records import METADATA_NONE, columns, filter_of

Json = dict[str, Any]

MAX_SEARCHES = 100
MAX_RESULTS = 1_000
"""The most documents of one search; more are cut off, as Chroma's cloud cuts what is beyond a quota."""
DOCUMENT, EMBEDDING, METADATA, SCORE = "#document", "#embedding", "#metadata", "#score"


@dataclass(frozen=True, slots=True)
class Grouping:
    """At most `most` documents of each group of equal `fields`: those with the least `by`, or the greatest."""

    fields: tuple[str, ...]
    by: tuple[str, ...]
    most: int
    greatest: bool


@dataclass(frozen=True, slots=True)
class Search:
    """One search. Without a `rank` documents come in the order of insertion."""

    where: Where
    rank: Rank | None
    grouping: Grouping | None
    offset: int
    limit: int
    select: tuple[str, ...]

    @property
    def wants_embeddings(self) -> bool:
        return EMBEDDING in self.select


Scored = tuple[Document, float | None]


def searches_of(body: Json) -> list[Search]:
    """Return the searches of a request. Raises InvalidInputError, and UnsupportedError as `parse_rank` does."""
    given = body.get("searches")
    if not isinstance(given, list) or len(given) > MAX_SEARCHES:
        raise _wrong(f"searches must be an array of at most {MAX_SEARCHES}", "/searches")
    return [_search(each, f"/searches/{place}") for place, each in enumerate(given)]


def grouped(scored: Sequence[Scored], grouping: Grouping) -> list[Scored]:
    """Return what a grouping leaves of documents that are in the order of their scores, in that order."""
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    metadatas = [document.metadata for document, _ in scored]
    for place, metadata in enumerate(metadatas):
        groups[tuple(_sortable(metadata.get(field)) for field in grouping.fields)].append(place)

    def ranking(place: int) -> tuple[Any, ...]:
        metadata, score = metadatas[place], scored[place][1]
        return tuple(_sortable(score if key == SCORE else metadata.get(key)) for key in grouping.by)

    left = [
        place
        for places in groups.values()
        for place in sorted(places, key=ranking, reverse=grouping.greatest)[: grouping.most]
    ]
    return [scored[place] for place in sorted(left)]


def search_answer(found: Sequence[Sequence[Scored]], searches: Sequence[Search]) -> Json:
    """Spell the documents of each search, column by column; columns that it does not select are null."""
    answers = [_columns(scored, search.select) for scored, search in zip(found, searches, strict=True)]
    return {
        part: [each[part] for each in answers] for part in ("ids", "documents", "embeddings", "metadatas", "scores")
    } | {"select": [list(search.select) for search in searches]}


def _columns(scored: Sequence[Scored], select: tuple[str, ...]) -> Json:
    documents = [document for document, _ in scored]
    fields = [each for each in select if not each.startswith("#")]
    metadatas: list[Any] | None = None
    if METADATA in select:
        metadatas = columns(documents, "metadatas")
    elif fields:
        metadatas = [_chosen(each, fields) for each in documents]
    return {
        "ids": [each.id for each in documents],
        "documents": columns(documents, "documents") if DOCUMENT in select else None,
        "embeddings": columns(documents, "embeddings") if EMBEDDING in select else None,
        "metadatas": metadatas,
        "scores": [score for _, score in scored] if SCORE in select else None,
    }


def _chosen(document: Document, fields: Sequence[str]) -> Json | None:
    if document.metadata_json == METADATA_NONE:
        return None
    metadata = document.metadata
    return {field: metadata[field] for field in fields if field in metadata} or None


def _search(given: Any, pointer: str) -> Search:
    if not isinstance(given, dict):
        raise _wrong("a search must be an object", pointer)
    filter_name = "filter" if given.get("filter") is not None else "where"
    rank, group_by = given.get("rank"), given.get("group_by")
    if group_by and not rank:
        raise _wrong("group_by needs a rank", f"{pointer}/group_by")
    offset, limit = _page(given.get("limit"), f"{pointer}/limit")
    return Search(
        filter_of(given.get(filter_name), filter_name),
        parse_rank(rank, f"{pointer}/rank") if rank else None,
        _grouping(group_by, f"{pointer}/group_by") if group_by else None,
        offset,
        limit,
        _select(given.get("select"), f"{pointer}/select"),
    )


def _page(given: Any, pointer: str) -> tuple[int, int]:
    """Return (offset, limit) of `{"offset": …, "limit": …}`, where each may be missing."""
    given = {} if given is None else given
    if not isinstance(given, dict):
        raise _wrong("limit must be an object with offset and limit", pointer)
    offset = _whole(given.get("offset") or 0, f"{pointer}/offset", least=0)
    limit = given.get("limit")
    return offset, MAX_RESULTS if limit is None else min(MAX_RESULTS, _whole(limit, f"{pointer}/limit", least=1))


def _select(given: Any, pointer: str) -> tuple[str, ...]:
    keys = (given or {}).get("keys", []) if isinstance(given, dict | None) else None
    if not isinstance(keys, list) or not all(isinstance(each, str) for each in keys):
        raise _wrong("select must be an object with keys, an array of strings", pointer)
    return tuple(dict.fromkeys(keys))


def _grouping(given: Any, pointer: str) -> Grouping:
    if not isinstance(given, dict):
        raise _wrong("group_by must be an object with keys and aggregate", pointer)
    aggregate = given.get("aggregate")
    if not isinstance(aggregate, dict) or len(aggregate) != 1 or set(aggregate) - {"$min_k", "$max_k"}:
        raise _wrong("aggregate of group_by must be an object with $min_k or $max_k", f"{pointer}/aggregate")
    [(operator, operand)] = aggregate.items()
    here = f"{pointer}/aggregate/{operator}"
    if not isinstance(operand, dict):
        raise _wrong(f"{operator} must be an object with keys and k", here)
    return Grouping(
        _fields(given.get("keys"), f"{pointer}/keys"),
        _fields(operand.get("keys"), f"{here}/keys", (SCORE,)),
        _whole(operand.get("k"), f"{here}/k", least=1),
        operator == "$max_k",
    )


def _fields(given: Any, pointer: str, beside: tuple[str, ...] = ()) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise _wrong("keys must be an array of at least one", pointer)
    for each in given:
        if not isinstance(each, str) or (each.startswith("#") and each not in beside):
            raise _wrong("keys must be fields of the metadata", pointer)
    return tuple(given)


def _whole(given: Any, pointer: str, *, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given < 2**63:
        raise _wrong(f"{pointer.rpartition('/')[2]} must be a whole number of at least {least}", pointer)
    return given


def _sortable(value: Any) -> tuple[int, Any]:
    """Return what sorts values of any kind: none, booleans, numbers, strings, then lists and objects."""
    if value is None:
        return 0, 0
    for order, kind in ((1, bool), (2, int | float), (3, str)):
        if isinstance(value, kind):
            return order, value
    return 4, orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _wrong(sentence: str, pointer: str) -> InvalidInputError:
    return InvalidInputError(
        sentence, code="invalid_field", field=pointer.split("/")[-1] or "searches", pointer=pointer
    )
