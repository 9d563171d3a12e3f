"""What every route reads of its request in the same way."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import count
from typing import Any, cast

from flask import current_app, request
from marshmallow import Schema

from schemas.documents import new_id
from schemas.errors import InvalidInputError
from schemas.wire import load
from wrapper.bodies import decode_json, read_body, request_digest
from wrapper.store import Store, WriteOptions

MAX_KEY_CHARACTERS = 255


def store() -> Store:
    return cast(Store, current_app.extensions["rag.service"].store)


def body(schema: Schema) -> dict[str, Any]:
    """The checked body."""
    return load(schema, decode_json(read_body()))


def arguments(schema: Schema, **replaced: Any) -> dict[str, Any]:
    """The checked query string; `replaced` are arguments that need more than one look."""
    return load(schema, {**request.args.to_dict(), **replaced})


def write_options(content: bytes = b"") -> WriteOptions:
    """`Idempotency-Key` and `If-Match`. `content` is what tells this request from others with the same path."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 1 <= len(key) <= MAX_KEY_CHARACTERS:
        raise InvalidInputError(
            f"Idempotency-Key must have 1 to {MAX_KEY_CHARACTERS} characters",
            code="invalid_idempotency_key",
            field="Idempotency-Key",
        )
    accepted = None
    if "If-Match" in request.headers:
        tags = request.if_match
        accepted = frozenset({"*"} if tags.star_tag else tags.as_set())
        if any(tag.isdecimal() for tag in accepted):
            raise InvalidInputError(
                "If-Match takes the ETag of an answer. A revision alone does not do: "
                "a later collection of the same name has it too",
                code="invalid_if_match",
                field="If-Match",
            )
    return WriteOptions(key, request_digest(content) if key else "", accepted)


def id_maker(options: WriteOptions) -> Callable[[], str]:
    """Ids for documents that bring none. A repeat with the same `Idempotency-Key` makes the same ones."""
    if options.idempotency_key is None:
        return new_id
    numbers = count()
    return lambda: f"doc_{uuid.uuid5(uuid.NAMESPACE_OID, f'{options.idempotency_key}:{next(numbers)}')}"


def is_known(etag: str) -> bool:
    """True when the caller's `If-None-Match` names this state."""
    return "If-None-Match" in request.headers and request.if_none_match.contains_weak(etag)


__all__ = ["arguments", "body", "decode_json", "id_maker", "is_known", "read_body", "store", "write_options"]
