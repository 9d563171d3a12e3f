"""Makes the responses that routes share: to writes, to reads of an unchanged state, and what a response warns of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, TypeVar

import orjson
import structlog
from flask import Flask, Response, current_app, g, request

from schemas.access.credentials_in_text import through_escapes
from schemas.records import Collection
from schemas.storage import read_limits
from schemas.storage.outcomes import EarlierAnswer
from schemas.wire.storage.document import with_index_state
from wrapper.web import audited
from wrapper.web.bodies import JSON, NDJSON, finish_within, json_response
from wrapper.web.request_parts import declared, unknown
from wrapper.writing import Written

log = structlog.get_logger(__name__)

T = TypeVar("T")

REPLAYED = "Idempotent-Replayed"
"""The header that marks the answer to a repeated `Idempotency-Key` with `true`."""


def init_app(app: Flask) -> None:
    app.after_request(_add_warnings)


def stream_snapshot(
    parts: Iterable[bytes], snapshot: ExitStack, cut: str, collection: str, mimetype: str = NDJSON
) -> Response:
    """Answer with parts that are read from a snapshot, and log `cut` when their reader takes too long for them."""
    response = Response(parts, mimetype=mimetype)
    # The reader may leave before the first part or in the middle. While it stays, writes pile up in the write-ahead
    # log.
    response.call_on_close(snapshot.close)
    limit_seconds = current_app.config["EXPORT_SECONDS"]
    limit = read_limits.current()
    if limit is not None:
        limit.extend(limit_seconds)
    finish_within(limit_seconds, lambda: log.warning(cut, collection=collection, limit_seconds=limit_seconds))
    return response


def respond(
    written: Written[T],
    spell: Callable[[T], dict[str, Any]],
    status: int = 200,
    behind: int = 202,
    *,
    with_index: bool = False,
) -> Response:
    """Answer a write with its outcome as `spell` writes it, and with `behind` as the status when the index still is,
    although the answer waited for it.

    With `with_index` the answer also tells whether the index has the write.
    """
    outcome = written.outcome
    audited.note_outcome(outcome, replayed=written.replayed)
    answer = outcome.answer if isinstance(outcome, EarlierAnswer) else spell(outcome)
    if with_index:
        answer = with_index_state(answer, written.indexed, written.set_aside)
    response = json_response(answer, status if written.indexed or not written.awaited else behind, written.version)
    if written.replayed:
        response.headers[REPLAYED] = "true"
    return response


def not_modified(collection: Collection) -> Response | None:
    """Return 304 when the caller's `If-None-Match` names this state of the collection."""
    etag = collection.version
    if "If-None-Match" not in request.headers or not request.if_none_match.contains_weak(etag):
        return None
    return Response(status=304, headers={"ETag": f'"{etag}"'})


def _add_warnings(response: Response) -> Response:
    """Add `warnings` to an answer that is an object; streams, pages and empty answers have no place for them."""
    route = declared()
    if (
        "unknown" not in g
        or not 200 <= response.status_code < 300
        or response.mimetype != JSON
        or (route is not None and route.exact)
    ):
        return response
    clean = through_escapes(current_app.extensions["rag.clean"])
    warnings = [clean(each) for each in unknown().take()]
    said = response.get_data() if warnings else b""
    if said.startswith(b"{") and said.endswith(b"}"):
        comma = b"" if said == b"{}" else b","
        response.set_data(said[:-1] + comma + b'"warnings":' + orjson.dumps(warnings) + b"}")
    return response
