"""`/v1/vector_stores` as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields, validate

from schemas.contracts.vector_stores import (
    COMPLETED,
    EXPIRED,
    IN_PROGRESS,
    MAX_BATCH,
    FileCounts,
    FileToAttach,
    StoreFacts,
)
from schemas.errors import InvalidInputError
from schemas.field_names import LONGEST_NAME
from schemas.wire.body import Body
from schemas.wire.fields import Choice, Count, Text
from schemas.wire.openai.attributes import Attributes, Pairs
from schemas.wire.openai.paging import seconds

Json = dict[str, Any]

MAX_NAME_CHARACTERS, MAX_DAYS = 512, 365
LAST_ACTIVE_AT = "last_active_at"
LEAST_TOKENS, MOST_TOKENS = 100, 4_096
UNKNOWN_TIME = 0
"""When a store was made of which nobody knows it, and clients want a number."""


class ExpiresAfter(Body):
    anchor = Choice((LAST_ACTIVE_AT,), required=True)
    days = Count(least=1, most=MAX_DAYS, required=True)


class Windows(Body):
    max_chunk_size_tokens = Count(least=LEAST_TOKENS, most=MOST_TOKENS, required=True)
    chunk_overlap_tokens = Count(least=0, required=True)


class ChunkingStrategy(fields.Field[tuple[int, int] | None]):
    """How files are split: as the service does by itself, or into windows (most tokens, overlap)."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[int, int] | None:
        kind = value.get("type") if isinstance(value, dict) else None
        if kind not in ("auto", "static"):
            raise ValidationError("must have a type of auto or static")
        if strange := value.keys() - {"type", "static"}:
            raise ValidationError({min(strange)[:LONGEST_NAME]: "is not known beside type and static"})
        given = value.get("static")
        if kind == "auto" and given is None:
            return None
        try:
            told = Windows().load(given if isinstance(given, dict) else {})
        except ValidationError as error:
            raise ValidationError({"static": error.messages}) from None
        if kind == "auto":
            return None
        most, shared = told["max_chunk_size_tokens"], told["chunk_overlap_tokens"]
        if shared > most // 2:
            raise ValidationError("must have an overlap of at most half of max_chunk_size_tokens")
        return most, shared


class FileIds(fields.Field[list[str]]):
    """Ids of files, each counted once."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise ValidationError("must be a list of ids of files")
        if len(value) > MAX_BATCH:
            raise ValidationError(f"must have at most {MAX_BATCH:,} elements")
        return list(dict.fromkeys(value))


class OfStore(Body):
    name = Text(load_default=None, validate=validate.Length(max=MAX_NAME_CHARACTERS))
    metadata = Pairs(load_default=None)
    expires_after = fields.Nested(ExpiresAfter, load_default=None)


class NewStore(OfStore):
    description = Text(load_default=None, validate=validate.Length(max=MAX_NAME_CHARACTERS))
    file_ids = FileIds(load_default=list)
    chunking_strategy = ChunkingStrategy(load_default=None)


class NewStoreFile(Body):
    file_id = Text(required=True)
    attributes = Attributes(load_default=dict)
    chunking_strategy = ChunkingStrategy(load_default=None)


class NewBatch(Body):
    file_ids = FileIds(load_default=None)
    files = fields.List(fields.Nested(NewStoreFile), load_default=None, validate=validate.Length(max=MAX_BATCH))
    attributes = Attributes(load_default=dict)
    chunking_strategy = ChunkingStrategy(load_default=None)


class ChangedFile(Body):
    attributes = Attributes(load_default=dict)


OF_STORE, NEW_STORE, NEW_STORE_FILE, NEW_BATCH, CHANGED_FILE = (
    OfStore(),
    NewStore(),
    NewStoreFile(),
    NewBatch(),
    ChangedFile(),
)


def new_facts(asked: Json) -> Json:
    """Return what the body of a new store says of it, by the names of `StoreFacts`."""
    expires = asked["expires_after"]
    return {
        "name": asked["name"],
        "description": asked["description"],
        "metadata": asked["metadata"] or {},
        "expires_days": None if expires is None else expires["days"],
    }


def changed_facts(source: Mapping[str, Any], asked: Json) -> Json:
    """Return what a body changes of a store; null takes metadata and the end away."""
    changes: Json = {"name": asked["name"]} if asked["name"] is not None else {}
    if "metadata" in source:
        changes["metadata"] = asked["metadata"] or {}
    if "expires_after" in source:
        changes["expires_days"] = None if asked["expires_after"] is None else asked["expires_after"]["days"]
    return changes


def to_attach(asked: Json) -> FileToAttach:
    return FileToAttach(asked["file_id"], asked["attributes"], asked["chunking_strategy"])


def batch_to_attach(asked: Json) -> list[FileToAttach]:
    """Return the files of a batch. Raises InvalidInputError unless it names some, in one of the two ways, and for what
    is said of all of them beside `files`, each of which says it of itself."""
    if bool(asked["file_ids"]) == bool(asked["files"]):
        sentence = "Either file_ids or files must name the files of the batch"
        raise InvalidInputError(sentence, code="invalid_field", field="file_ids")
    if asked["files"]:
        for name in ("attributes", "chunking_strategy"):
            if asked[name]:
                sentence = f"{name} is for file_ids: beside files, each of these has its own"
                raise InvalidInputError(sentence, code="invalid_field", field=name)
        return [to_attach(each) for each in asked["files"]]
    return [FileToAttach(each, asked["attributes"], asked["chunking_strategy"]) for each in asked["file_ids"]]


def vector_store(
    store_id: str,
    collection: str,
    counts: FileCounts,
    *,
    usage_bytes: int,
    facts: StoreFacts | None,
    has_expired: bool,
) -> Json:
    """Spell a collection as a vector store; `facts` are None where no client said anything of it."""
    status = EXPIRED if has_expired else IN_PROGRESS if counts.in_progress else COMPLETED
    created_at_ms = None if facts is None else facts.created_at_ms
    expires_at_ms = None if facts is None else facts.expires_at_ms
    return {
        "id": store_id,
        "object": "vector_store",
        "created_at": UNKNOWN_TIME if created_at_ms is None else seconds(created_at_ms),
        "name": collection if facts is None or facts.name is None else facts.name,
        "description": None if facts is None else facts.description,
        "usage_bytes": usage_bytes,
        "file_counts": file_counts(counts),
        "status": status,
        "expires_after": None
        if facts is None or facts.expires_days is None
        else {"anchor": LAST_ACTIVE_AT, "days": facts.expires_days},
        "expires_at": None if expires_at_ms is None else seconds(expires_at_ms),
        "last_active_at": None if facts is None else seconds(facts.last_active_at_ms),
        "metadata": {} if facts is None else facts.metadata,
        "collection": collection,
    }


def file_counts(counts: FileCounts) -> Json:
    return {
        "in_progress": counts.in_progress,
        "completed": counts.completed,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "total": counts.total,
    }


def deleted(kind: str, element: str) -> Json:
    return {"id": element, "object": f"{kind}.deleted", "deleted": True}
