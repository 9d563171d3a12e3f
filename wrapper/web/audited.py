"""Has each request recorded in the audit log: what has to have a line is not carried out where none can be written, and
is not answered before it is.

A line is written before its answer is sent, that of a stream at the stream's end. So a process that is killed may leave
a write without a line, but none that anybody was told of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from functools import cache, partial
from typing import cast

from flask import Response, current_app, g, request

from schemas.access.api_keys import is_id
from schemas.access.callers import Scope, check_acting
from schemas.errors import InvalidInputError, RagError
from schemas.names import full_name
from schemas.records import Document
from schemas.storage.outcomes import WriteOutcome
from wrapper.audit import noted
from wrapper.audit.noted import Noted
from wrapper.audit.recording import Asked, Recorder, is_change
from wrapper.web import callers, request_parts
from wrapper.web.client_addresses import TrustedProxies, client_address
from wrapper.web.route_table import RouteTable

NO_ROUTE = "unknown"
OF_ONE_COLLECTION = "/collections/{name}"
_PARAMETER = re.compile(r"<(?:[^:<>]+:)?(\w+)>")
_SHORT_NAMES = {"document_id": "id", "connection_id": "id", "job_id": "id", "key_id": "id", "backup_id": "id"}


def begin(request_id: str) -> None:
    """Begin to note what is learnt of this request."""
    g.noted = noted.begin()
    rule = request.url_rule
    route = NO_ROUTE if rule is None else route_of(rule.rule)
    table: RouteTable = current_app.extensions["rag.routes"]
    needs = None if rule is None or request.method == "OPTIONS" else table.access(rule.rule, request.method).needs
    proxies: TrustedProxies = current_app.extensions["rag.trusted_proxies"]
    g.asked = Asked(
        request.method,
        route,
        needs if isinstance(needs, Scope) else None,
        client_address(request.environ, proxies) or None,
        request_id,
    )
    if route.startswith(OF_ONE_COLLECTION):
        _note_collection((request.view_args or {})["name"])
    key_id = (request.view_args or {}).get("key_id", "")
    if is_id(key_id):  # else it may be the key itself
        noted.note_subject(key_id)


def check() -> None:
    """Raise what `Recorder.check` does, before the request is carried out."""
    if "asked" not in g:
        return  # an application without an audit log
    _recorder().check(g.asked, g.noted)


def calls_tool(name: str, needs: Scope) -> None:
    """Note the tool that this request calls and what it needs, which the route alone does not say, and limit what it
    reads. Raise what `check` does, and ScopeMissingError when the tool is not the caller's."""
    noted.note_tool(name, needs)
    callers.require(needs)
    check()
    request_parts.limit_reads(needs)


def note_outcome(outcome: object, *, replayed: bool) -> None:
    """Note of how many documents a write was."""
    if replayed:
        noted.note_count(0)
    elif isinstance(outcome, WriteOutcome):
        noted.note_count(outcome.count + outcome.deleted)
    elif isinstance(outcome, Document):
        noted.note_count(1)


def is_changing() -> bool:
    """Return whether this request changes something. A change that was carried out is answered although its key has
    ended meanwhile."""
    return "asked" in g and is_change(g.asked, g.noted)


def withhold(response: Response) -> None:
    """Refuse an answer when its caller may not go on: it may have taken long, and nobody reads anything with a key that
    has ended. A stream breaks off by itself."""
    if not response.is_streamed:
        try:
            check_acting()
        except RagError as error:
            _replace(response, error)


def end(response: Response) -> None:
    """Record the request before it is answered, a stream when it ends. An answer that may not be given without its line
    becomes an error when there is none."""
    if "asked" not in g:
        return
    record = partial(_recorder().record, g.asked, g.noted, callers.caller(), response.status_code)
    if response.is_streamed and not response.direct_passthrough and request.method != "HEAD":
        if _recorder().is_recorded(g.asked, g.noted, response.status_code):
            stream = _Recorded(response.iter_encoded(), record)
            response.response = stream.parts()
            response.call_on_close(stream.cut)  # because its first part may never be asked for
        return
    try:
        record()
    except RagError as error:
        _replace(response, error)


def _replace(response: Response, error: RagError) -> None:
    """Make an answer that of an error."""
    refusal = current_app.make_response(current_app.handle_user_exception(error))
    response.status_code = refusal.status_code
    response.direct_passthrough = False
    response.set_data(refusal.get_data())
    for name in ("ETag", "Idempotent-Replayed"):
        response.headers.pop(name, None)
    for name in ("Content-Type", "Retry-After", "WWW-Authenticate"):
        if name in refusal.headers:
            response.headers[name] = refusal.headers[name]


class _Recorded:
    """A stream that is recorded once, when it has been taken as a whole or was cut. One that is whole but cannot be
    recorded breaks off at its end, so that its reader does not take it for whole."""

    def __init__(self, content: Iterable[bytes], record: Callable[..., None]) -> None:
        self._content = content
        self._record = record
        self._is_recorded = False

    def parts(self) -> Generator[bytes]:
        try:
            yield from self._content
        except BaseException:
            self.cut()
            raise
        self._is_recorded = True
        self._record()

    def cut(self) -> None:
        if self._is_recorded:
            return
        self._is_recorded = True
        # What cannot be recorded is told to the service's own log; there is nobody else to tell.
        try:
            self._record(cut=True)
        except RagError:
            return


@cache
def route_of(rule: str) -> str:
    """Return the path of a rule of Flask as openapi.yaml spells it."""
    return _PARAMETER.sub(lambda found: f"{{{_SHORT_NAMES.get(found[1], found[1])}}}", rule)


def noted_here() -> Noted:
    """Return what is noted of this request, for a stream that outlives it."""
    return cast(Noted, g.noted)


def _note_collection(name: str) -> None:
    try:
        database = request_parts.asked_database()
    except InvalidInputError:
        return  # no collection of anywhere, and the request is refused
    noted.note_collection(name if database is None else full_name(*database, name))


def _recorder() -> Recorder:
    return cast(Recorder, current_app.extensions["rag.service"].recorder)
