"""Documents and metadata as a Chroma server keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from providers.chroma.filters import is_key_held
from providers.outbound.answers import listed, members, text, vector
from schemas.errors import InvalidInputError
from schemas.records import Document, Metadata

LISTS_KEY = "rag:lists"
"""The metadata key that marks documents with lists, which are deleted before their collection is."""
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1


def checked_metadata(metadata: Metadata, *, lists: bool = True, index: int | None = None) -> Metadata:
    """Return `metadata` unchanged. Raises InvalidInputError, naming the key, for what Chroma would refuse, drop or
    change."""
    for key, value in metadata.items():
        if not is_key_held(key) or key == LISTS_KEY:
            raise _unheld(key, "names like this are its own", index)
        if not (_is_held(value) or (lists and _is_held_list(value))):
            raise _unheld(
                key,
                f"it holds texts, numbers{', booleans and lists of one of these' if lists else ' and booleans'}",
                index,
            )
    return metadata


def encoded(metadata: Metadata) -> Metadata:
    has_lists = any(isinstance(value, list) for value in metadata.values())
    return {**metadata, LISTS_KEY: True} if has_lists else metadata


def with_nulls(metadata: Metadata, stale_keys: Iterable[str]) -> dict[str, Any] | None:
    """Return the metadata with a null for each stale key that it lacks, None when that leaves nothing."""
    return {**dict.fromkeys(stale_keys), **metadata} or None


def decoded(metadata: Metadata) -> Metadata:
    return {key: value for key, value in metadata.items() if key != LISTS_KEY}


def to_documents(answer: dict[str, Any], *, first_position: int = 0) -> list[Document]:
    """Return the documents of an answer with columns, counted from `first_position`."""
    ids, texts, metadatas = (listed(answer, name) for name in ("ids", "documents", "metadatas"))
    embeddings = answer.get("embeddings") or [None] * len(ids)
    return [
        Document(
            text(document_id),
            "" if words is None else text(words),
            orjson.dumps(decoded(members(metadata))).decode(),
            first_position + index,
            None if embedding is None else vector(embedding),
        )
        for index, (document_id, words, metadata, embedding) in enumerate(
            zip(ids, texts, metadatas, embeddings, strict=True)
        )
    ]


def _is_held(value: Any) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return MIN_INTEGER <= value <= MAX_INTEGER
    return isinstance(value, bool | float | str)


def _is_held_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and len(set(map(type, value))) == 1 and all(map(_is_held, value))


def _unheld(key: str, reason: str, index: int | None) -> InvalidInputError:
    return InvalidInputError(
        f"metadata: Chroma cannot hold '{key}' as it is: {reason}",
        code="invalid_metadata",
        field="metadata",
        index=index,
        key=key,
    )
