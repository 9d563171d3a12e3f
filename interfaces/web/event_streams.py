"""Answers as server-sent events, while they are being made."""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, TypeVar

import structlog
from flask import Response

from providers.outbound import deadlines
from schemas.errors import RagError
from wrapper.web.bodies import client_watch, encode, finish_within
from wrapper.web.error_statuses import Spelling

log = structlog.get_logger(__name__)

Part = TypeVar("Part")

LAST_EVENT_SECONDS = 5.0
"""The time that a client has to take the last event of an answer that took all the time there was."""


def event_stream(
    parts: Generator[Part],
    spell: Callable[[Part], dict[str, Any]],
    spell_error: Spelling,
    is_unwanted: Callable[[], bool],
    end: bytes = b"",
) -> Response:
    """Answer with an event for each part, its data a JSON object in one line, and with `end` after all of them.

    What fails before the first part is raised, so that it is answered with its status; what fails later becomes the
    last event. The parts are closed when the client has all of them, and when it has left.
    """
    first, has_left = next(parts), client_watch()

    def events() -> Iterator[bytes]:
        with closing(parts):
            try:
                yield _event(spell(first))
                for part in parts:
                    yield _event(spell(part))
                if end:
                    yield end
            except RagError as error:
                if has_left():  # which ended the parts; the answer is cut, and not one that failed
                    raise BrokenPipeError(errno.EPIPE, "The client has left") from None
                if not is_unwanted():
                    cause = repr(error.__cause__)
                    log.warning("an answer broke off", code=error.code, reason=error.message, cause=cause)
                yield _event(spell_error(error))
            except Exception as error:
                log.exception("unexpected failure", error=repr(error))
                yield _event(spell_error(RagError("Internal server error")))

    response = Response(events(), mimetype="text/event-stream")
    response.call_on_close(parts.close)  # because the first event may never be asked for
    # Proxies may hold answers back until they are whole; nginx is told so in particular.
    response.headers.update({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
    limit_seconds = deadlines.seconds_left() + LAST_EVENT_SECONDS
    finish_within(limit_seconds, lambda: log.warning("an answer was cut: its reader was too slow"))
    return response


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + encode(value) + b"\n\n"
