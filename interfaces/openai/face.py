"""What all routes below `/v1` share: how they tell of errors, and how they read a body.

Names that they do not know are ignored: clients send many that mean nothing here.
"""

from __future__ import annotations

from typing import Any

from marshmallow import Schema

from schemas.wire.body import load
from schemas.wire.openai.errors import error_body, error_headers
from wrapper.web.bodies import decode_json, read_body
from wrapper.web.error_statuses import ErrorFace

FACE = ErrorFace("/v1", error_body, headers=error_headers)


def body_of(schema: Schema) -> dict[str, Any]:
    """Return the checked fields of the request's body."""
    return load(schema, decode_json(read_body()))
