"""Records in Chroma's protocol: columns of ids, embeddings, documents, metadatas and URIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from schemas.documents import check_uri, parse_embedding
from schemas.errors import InvalidInputError
from schemas.metadata import SHOWN_CHARACTERS, check_metadata
from schemas.records import Document, DocumentChanges, Match, Metadata, Vector
from schemas.storage.outcomes import EarlierAnswer, WriteOutcome
from schemas.where import (
    EVERYTHING,
    MAX_DEPTH,
    And,
    HasId,
    In,
    Not,
    Or,
    TextContains,
    TextMatches,
    Where,
    all_of,
    parse_where,
)
from schemas.words.regular_expressions import BadPatternError, compiled

Json = dict[str, Any]
T = TypeVar("T")

DOCUMENTS, METADATAS, EMBEDDINGS, URIS, DISTANCES = "documents", "metadatas", "embeddings", "uris", "distances"
PARTS = (DOCUMENTS, METADATAS, EMBEDDINGS, URIS, DISTANCES)
OF_GET = (DOCUMENTS, METADATAS)
OF_QUERY = (DOCUMENTS, METADATAS, DISTANCES)
DEFAULT_RESULTS = 10
MAX_RESULTS = 100_000
INCONSISTENT = "Inconsistent number of IDs, embeddings, documents, URIs and metadatas"
METADATA_NONE = "{}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which documents are meant, and which parts of them are asked for. `ids` are also in `where`; None means any."""

    where: Where
    ids: list[str] | None
    include: tuple[str, ...] = OF_GET
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    embeddings: list[Vector]
    n_results: int
    selection: Selection


@dataclass(frozen=True, slots=True)
class Deletion:
    """Which documents are to be deleted, at most `limit` of them; `selection` is None when none is named."""

    selection: Selection | None
    limit: int | None


def changes_of(body: Json, *, needs_embeddings: bool, merges: bool) -> DocumentChanges:
    """Return the changes that an `add`, `upsert` or `update` asks for. Raises InvalidInputError.

    Null removes a field from what it is merged into. In an `add` it would be lost: clients write NaN as null.
    """
    ids = _ids(body.get("ids"))
    if ids is None:
        raise _wrong("ids is required", "ids")
    embeddings = _column(body, EMBEDDINGS, ids, _embedding)
    if embeddings is None and needs_embeddings:
        raise _wrong("embeddings is required", EMBEDDINGS)
    return DocumentChanges(
        ids,
        embeddings,
        _column(body, DOCUMENTS, ids, _text),
        _column(body, METADATAS, ids, _metadata if merges else _new_metadata),
        _column(body, URIS, ids, _uri),
    )


def selection_of(body: Json, default: tuple[str, ...] = OF_GET) -> Selection:
    """Return the selection of a `get` or `query`. Raises InvalidInputError."""
    ids = _ids(body.get("ids"))
    parts = [_filter(body.get("where")), document_filter(body.get("where_document"))]
    if ids is not None:
        parts.append(HasId(tuple(dict.fromkeys(ids))))
    return Selection(
        all_of(*parts),
        ids,
        _include(body.get("include"), default),
        _number(body, "offset") or 0,
        _number(body, "limit"),
    )


def query_of(body: Json) -> Query:
    given = body.get("query_embeddings")
    if not isinstance(given, list):
        raise _wrong("query_embeddings must be an array of vectors", "query_embeddings")
    results = _number(body, "n_results")
    return Query(
        [parse_embedding(each, field="query_embeddings", index=row) for row, each in enumerate(given)],
        min(DEFAULT_RESULTS if results is None else results, MAX_RESULTS),
        selection_of(body, OF_QUERY),
    )


def deletion_of(body: Json) -> Deletion:
    limit = _number(body, "limit")
    if body.get("ids") == []:
        raise _wrong("Either ids or where must be specified", "ids")
    if all(body.get(name) is None for name in ("ids", "where", "where_document")):
        return Deletion(None, limit)
    selection = selection_of(body)
    if selection.ids is None and _means_all(selection.where):
        raise InvalidInputError("Invalid where clause: it names nothing", code="invalid_where", field="where")
    return Deletion(selection, limit)


def _filter(source: Any) -> Where:
    """Return the tree of a `where`. An empty list is refused, as a stock server does: none of no values means all."""
    where = parse_where(source)
    if _has_empty_list(where):
        raise InvalidInputError(
            "Invalid where clause: the list of $in or $nin is empty", code="invalid_where", field="where"
        )
    return where


def _has_empty_list(where: Where) -> bool:
    match where:
        case And(parts) | Or(parts):
            return any(_has_empty_list(part) for part in parts)
        case Not(part):
            return _has_empty_list(part)
        case In(_, values):
            return not values
        case HasId(ids):
            return not ids
        case _:
            return False


def _means_all(where: Where) -> bool:
    """Return whether a filter lets everything in without a condition, as `{}` does, also as a branch of `$or`."""
    match where:
        case And(parts):
            return all(_means_all(part) for part in parts)
        case Or(parts):
            return any(_means_all(part) for part in parts)
        case _:
            return False


def document_filter(source: Any, pointer: str = "", depth: int = 0) -> Where:
    """Return the tree of a `where_document`. Raises InvalidInputError whose `details.pointer` locates what is wrong."""
    if source is None:
        return EVERYTHING
    if not isinstance(source, dict) or len(source) > 1 or depth > MAX_DEPTH:
        raise _wrong_filter(pointer)
    if not source:
        return EVERYTHING
    [(operator, operand)] = source.items()
    here = f"{pointer}/{operator}"
    if operator in ("$and", "$or") and isinstance(operand, list) and operand:
        parts = tuple(document_filter(each, f"{here}/{place}", depth + 1) for place, each in enumerate(operand))
        return And(parts) if operator == "$and" else Or(parts)
    if not isinstance(operand, str):
        raise _wrong_filter(here)
    match operator:
        case "$contains":
            return TextContains(operand)
        case "$not_contains":
            return Not(TextContains(operand))
        case "$regex" | "$not_regex":
            try:
                compiled(operand)
            except BadPatternError as error:
                raise _wrong_filter(here, f": not a regular expression: {error}") from None
            return TextMatches(operand) if operator == "$regex" else Not(TextMatches(operand))
    raise _wrong_filter(here)


def deleted_answer(outcome: WriteOutcome | EarlierAnswer) -> Json:
    return {"deleted": outcome.deleted if isinstance(outcome, WriteOutcome) else outcome.answer.get("count", 0)}


def get_answer(documents: Sequence[Document], include: tuple[str, ...]) -> Json:
    return {
        "ids": [each.id for each in documents],
        **{part: columns(documents, part) if part in include else None for part in PARTS[:4]},
        "include": include,
    }


def get_stream(
    read: Callable[[bool], Iterator[Sequence[Document]]], include: tuple[str, ...], encode: Callable[[Any], bytes]
) -> Iterator[bytes]:
    """Spell what `get_answer` spells, column by column: `read` reads the documents for each."""
    yield b'{"ids":'
    yield from _array(([each.id for each in block] for block in read(False)), encode)
    for part in PARTS[:4]:
        yield b',"' + part.encode() + b'":'
        if part in include:
            yield from _array((columns(block, part) for block in read(part == EMBEDDINGS)), encode)
        else:
            yield b"null"
    yield b',"include":' + encode(include) + b"}"


def query_answer(found: Sequence[Sequence[Match]], include: tuple[str, ...]) -> Json:
    documents = [[each.document for each in matches] for matches in found]
    distances = [[each.distance for each in matches] for matches in found]
    return {
        "ids": [[each.id for each in matches] for matches in documents],
        **{part: [columns(matches, part) for matches in documents] if part in include else None for part in PARTS[:4]},
        "distances": distances if DISTANCES in include else None,
        "include": include,
    }


def columns(documents: Sequence[Document], part: str) -> list[Any]:
    """Return one part of each document."""
    match part:
        case "documents":
            return [None if each.extras.textless else each.text for each in documents]
        case "metadatas":
            return [
                None if each.metadata_json == METADATA_NONE else orjson.Fragment(each.metadata_json)
                for each in documents
            ]
        case "embeddings":
            return [each.embedding for each in documents]
        case _:
            return [each.extras.uri for each in documents]


def _array(blocks: Iterator[Sequence[Any]], encode: Callable[[Any], bytes]) -> Iterator[bytes]:
    yield b"["
    comma = b""
    for block in blocks:
        if block:
            yield comma + encode(block)[1:-1]
            comma = b","
    yield b"]"


def _column(body: Json, name: str, ids: list[str], parse: Callable[[Any, int], T]) -> list[T | None] | None:
    given = body.get(name)
    if given is None:
        return None
    if not isinstance(given, list):
        raise _wrong(f"{name} must be an array", name)
    if len(given) != len(ids):
        raise _wrong(INCONSISTENT, name)
    return [None if each is None else parse(each, row) for row, each in enumerate(given)]


def _ids(given: Any) -> list[str] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise _wrong("ids must be an array of strings", "ids")
    for row, each in enumerate(given):
        if not isinstance(each, str):
            raise _wrong("ids must be an array of strings", "ids", row)
        if not each:
            raise _wrong("Empty ID, ID must have at least one character", "ids", row)
    return given


def _embedding(value: Any, row: int) -> Vector:
    return parse_embedding(value, field=EMBEDDINGS, index=row)


def _text(value: Any, row: int) -> str:
    if not isinstance(value, str):
        raise _wrong("documents must be strings", DOCUMENTS, row)
    return value


def _uri(value: Any, row: int) -> str:
    return str(check_uri(value, index=row))


def _metadata(value: Any, row: int) -> Metadata:
    return check_metadata(value, field=METADATAS, index=row)


def _new_metadata(value: Any, row: int) -> Metadata:
    metadata = _metadata(value, row)
    for key, each in metadata.items():
        if each is None:
            raise _wrong(f"metadatas must not be null, or NaN, in '{key[:SHOWN_CHARACTERS]}'", METADATAS, row)
    return metadata


def _include(given: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return default
    if not isinstance(given, list) or any(each not in PARTS for each in given):
        raise _wrong(f"include must be of {', '.join(PARTS)}", "include")
    return tuple(dict.fromkeys(given))


def _number(body: Json, name: str) -> int | None:
    given = body.get(name)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**63:
        raise _wrong(f"{name} must be a whole number of at least 0", name)
    return given


def _wrong_filter(pointer: str, why: str = "") -> InvalidInputError:
    return InvalidInputError(
        f"Invalid where document clause{why}", code="invalid_where", field="where_document", pointer=pointer
    )


def _wrong(sentence: str, field: str, index: int | None = None) -> InvalidInputError:
    where = {} if index is None else {"index": index}
    return InvalidInputError(sentence, code="invalid_field", field=field, **where)
