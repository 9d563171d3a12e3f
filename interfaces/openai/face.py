"""What the routes below `/v1` share: how they tell of errors, and how those of models read a body."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from marshmallow import Schema

from schemas.field_names import Names, Unknown, check_names, names_of
from schemas.wire.body import load
from schemas.wire.openai.errors import error_body, error_headers
from wrapper.web.bodies import decode_json, read_body
from wrapper.web.error_statuses import ErrorFace

FACE = ErrorFace("/v1", error_body, headers=error_headers)
IN_PATH = {"vector_store_id": "in the path"}
NOWHERE: Mapping[str, str] = MappingProxyType({})


def body_of(schema: Schema, taken: Collection[str] = (), elsewhere: Mapping[str, str] = NOWHERE) -> dict[str, Any]:
    """Return the checked fields of the body of a request to a model.

    Names that are unknown are ignored, because clients send many that mean nothing here, and `taken` whatever they are
    near to. Raises UnknownFieldError for another one that nearly fits, or that belongs `elsewhere`.
    """
    source = decode_json(read_body())
    if isinstance(source, Mapping):
        given = {name: value for name, value in source.items() if name not in taken}
        check_names(given, Names(names_of(schema).known, elsewhere), Unknown())
    return load(schema, source)
