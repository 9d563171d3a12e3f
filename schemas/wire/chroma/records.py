"""Records in Chroma's protocol: columns of ids, embeddings, documents, metadatas and URIs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from schemas.documents import check_uri, parse_embedding
from schemas.errors import InvalidFilterError, InvalidInputError, UnsupportedError
from schemas.field_names import Names, Unknown, check_names
from schemas.metadata import SHOWN_CHARACTERS, check_metadata
from schemas.records import Document, DocumentChanges, Match, Metadata, Vector
from schemas.storage.outcomes import EarlierAnswer, WriteOutcome
from schemas.where import CHROMA_NAMES, HasId, In, Where, all_of, parse_where
from schemas.wire.chroma.index_schema import leaves
from schemas.wire.chroma.metadata_keys import check_keys

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
OF_DELETION = Names(dict.fromkeys(("ids", "where", "where_document", "limit")))


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
    """Which documents are to be deleted, at most `limit` of them; `where` is None when none is named."""

    where: Where | None
    limit: int | None


def changes_of(body: Json, *, needs_embeddings: bool, merges: bool) -> DocumentChanges:
    """Return the changes that an `add`, `upsert` or `update` asks for. Raises InvalidInputError.

    Null removes a field from what it is merged into. In an `add` it would be lost: clients write NaN as null.
    """
    ids = _ids(body.get("ids"))
    if ids is None:
        raise _wrong("ids is required", "ids")
    if "" in ids:
        raise _wrong("Empty ID, ID must have at least one character", "ids", ids.index(""))
    embeddings = _column(body, EMBEDDINGS, ids, _embedding)
    if len({isinstance(each, str) for each in body.get(EMBEDDINGS) or () if each is not None}) > 1:
        raise _wrong("embeddings must be all in base64, or none", EMBEDDINGS)
    if needs_embeddings and (embeddings is None or any(each is None for each in embeddings)):
        raise _wrong("embeddings is required, one for each id", EMBEDDINGS)
    texts, uris = _column(body, DOCUMENTS, ids, _text), _column(body, URIS, ids, _uri)
    # The last one, because it may say that a body which is right is not supported.
    metadatas = _column(body, METADATAS, ids, _metadata if merges else _new_metadata)
    return DocumentChanges(ids, embeddings, texts, metadatas, uris)


def selection_of(body: Json, default: tuple[str, ...] = OF_GET) -> Selection:
    """Return the selection of a `get` or `query`. Raises InvalidInputError."""
    where, ids = _selected(body)
    return Selection(
        where,
        ids,
        _include(body.get("include"), default),
        _number(body, "offset") or 0,
        _number(body, "limit"),
    )


def _selected(body: Json) -> tuple[Where, list[str] | None]:
    """Return the filter of all that a body says, and the ids that it names."""
    ids = _ids(body.get("ids"))
    parts = [filter_of(body.get("where")), document_filter(body.get("where_document"))]
    if ids is not None:
        parts.append(HasId(tuple(dict.fromkeys(ids))))
    return all_of(*parts), ids


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
    """Return what a `delete` asks for. Raises InvalidInputError, also for what nearly names a part of it: ignored, it
    would let more be deleted than was asked for."""
    check_names(body, OF_DELETION, Unknown())
    limit = _number(body, "limit")
    where, ids = _selected(body)
    filters = {name: body[name] for name in ("where", "where_document") if body.get(name) is not None}
    if limit is not None and not filters:
        raise _wrong("limit can only be specified when a where clause is provided", "limit")
    if ids == [] and not filters:
        raise _wrong("Either ids or where must be specified", "ids")
    if ids is None and not filters:
        return Deletion(None, None)
    for name, source in filters.items() if ids is None else ():
        if _has_empty(source):
            raise _wrong_filter("it is empty, or has an empty part, which names nothing", name)
    return Deletion(where, limit)


def filter_of(source: Any, name: str = "where") -> Where:
    """Return the tree of a filter. An empty list is refused, as a stock server does, because none of no values means
    all; and so is a name that means no part of a record here and is none of a field: Chroma's own begin so."""
    where = parse_where(source, name)
    for leaf in leaves(where):
        field = getattr(leaf, "field", "")
        if field.startswith("chroma:"):
            known = " and ".join(CHROMA_NAMES)
            raise _wrong_filter(f"'{field[:SHOWN_CHARACTERS]}' is no field; beside fields there are {known}", name)
        if leaf in (In(field, ()), HasId(())):
            raise _wrong_filter("the list of $in or $nin is empty", name)
    return where


def _has_empty(source: Any) -> bool:
    """Return whether a filter is `{}`, or has that as a part of it."""
    left = [source]
    while left:
        part = left.pop()
        if part == {}:
            return True
        left.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
    return False


def document_filter(source: Any) -> Where:
    """Return the tree of a `where_document`. Raises InvalidFilterError."""
    try:
        return parse_where(source if source in (None, {}) else _about_texts(source), "where_document")
    except InvalidFilterError as error:
        error.details["pointer"] = error.details["pointer"].replace("/#document", "", 1)
        raise


def _about_texts(source: Any) -> Any:
    """Return a filter of texts as one of records, which names what its conditions are about."""
    whole = [source]
    left = [whole]
    while left:
        parts = left.pop()
        for place, part in enumerate(parts):
            [(operator, operand)] = part.items() if isinstance(part, dict) and len(part) == 1 else [("", None)]
            if operator in ("$and", "$or") and isinstance(operand, list):
                parts[place] = {operator: [*operand]}
                left.append(parts[place][operator])
            else:
                parts[place] = {"#document": part}
    return whole[0]


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
                # Chroma keeps a URI with the metadata, which then is an object, if an empty one.
                None
                if each.metadata_json == METADATA_NONE and each.extras.uri is None
                else orjson.Fragment(each.metadata_json)
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
    metadata = check_keys(check_metadata(value, field=METADATAS, index=row), METADATAS, row)
    for key, each in metadata.items():
        if isinstance(each, dict) and each.get("#type") == "sparse_vector":
            raise UnsupportedError(f"Sparse vector is not supported for local chroma: {key[:SHOWN_CHARACTERS]}")
    return metadata


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
    return tuple(given)


def _number(body: Json, name: str) -> int | None:
    given = body.get(name)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**63:
        raise _wrong(f"{name} must be a whole number from 0 to {2**63 - 1:,}", name)
    return given


def _wrong_filter(reason: str, name: str) -> InvalidFilterError:
    return InvalidFilterError(f"Invalid '{name}' filter: {reason}", field=name)


def _wrong(sentence: str, field: str, index: int | None = None) -> InvalidInputError:
    where = {} if index is None else {"index": index}
    return InvalidInputError(sentence, code="invalid_field", field=field, **where)
