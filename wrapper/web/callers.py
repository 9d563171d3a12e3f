"""The caller of the current request: who it is, and whether the route is theirs."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import structlog
from flask import Response, current_app, request

from schemas.access.callers import NO_LIMITS, Caller, Scope, Still, acting_as, check_acting
from schemas.access.narrowing import HEADER
from schemas.access.table import Access, Door
from schemas.errors import (
    InvalidInputError,
    RagError,
    ScopeMissingError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from wrapper.access.authentication import Authentication
from wrapper.access.daily_use import DailyUse
from wrapper.access.limits import Admission, CountedTogether, RequestLimits, Standing
from wrapper.audit import noted
from wrapper.web.bodies import client_watch, leave_body
from wrapper.web.lanes import Lane
from wrapper.web.route_table import RouteTable

log = structlog.get_logger(__name__)

CALLER, STOP_ACTING = "rag.caller", "rag.stop_acting"
ENDED = frozenset({"key_revoked", "key_expired"})
"""The codes that tell of a key that was valid once."""
PART_BYTES = 1 << 18
"""The size of an answer beyond which it is sent in parts of this size, each only to who may have it by then."""
ADMISSION, END_COUNTING = "rag.admission", "rag.end_counting"
TOGETHER = "rag.counted_together"
"""Where a request that another one makes of this application has what all of them count as. No header leads there."""
LIGHT = frozenset({Lane.LIFE, Lane.STATE, Lane.READ})
"""The lanes of requests that only read."""


class AnswerBrokenOffError(ConnectionResetError):
    """The caller may have no more of an answer that has begun. The server ends the connection without a word."""

    def __init__(self, error: UnauthorizedError) -> None:
        super().__init__(errno.ECONNRESET, error.message)
        self.code = error.code


def authentication() -> Authentication:
    return cast(Authentication, current_app.extensions["rag.access"])


def admit() -> None:
    """Find out who asks, and work for them until the request ends.

    Raises UnauthorizedError when that is unknown, TooManyRequestsError when their limits do not allow the request,
    InvalidInputError when the view that they send along cannot be read, and ScopeMissingError when the route is not
    theirs. A public route, and a path that is none, is anybody's.
    """
    needs = needed()
    if needs is Door.PUBLIC:
        return
    try:
        caller = authentication().caller_of(_header)
    except UnauthorizedError as error:
        if "id" in error.details:
            noted.note_key(error.details["id"], has_ended=error.code in ENDED)
        raise
    # Beside the request and not in `g`, which a request inside another one would share.
    request.environ[CALLER] = caller
    if caller.limits != NO_LIMITS:
        _count(caller)
    # After they are known and counted: whoever sends rubbish along has limits and a name in the audit log.
    request.environ[CALLER] = caller = authentication().within(caller, _header(HEADER))
    request.environ[STOP_ACTING] = _entered(caller, _still(caller))
    if isinstance(needs, Scope):
        require(needs)
    if needs is Scope.ADMIN:
        check_acting()


def needed() -> Scope | Door:
    """Return what this request's route asks of its caller; a path that is none, and a question for its methods, is
    anybody's."""
    row = _row()
    return Door.PUBLIC if row is None else row.needs


def dismiss() -> None:
    """Work for nobody any more, and count the request less that is under way."""
    for name in (STOP_ACTING, END_COUNTING):
        stop = request.environ.pop(name, None)
        if stop is not None:
            stop()


def admission() -> Admission | None:
    """Return how the request stands with its caller's limits, None where they have none."""
    return cast(Admission | None, request.environ.get(ADMISSION))


def begin_chat() -> None:
    """Count this request as a chat call. Raises TooManyRequestsError when its caller has used up those of today."""
    asking, counted = caller(), admission()
    if asking is None or counted is None:
        return
    daily_use: DailyUse = current_app.extensions["rag.daily_use"]
    try:
        standing = daily_use.begin_chat(asking)
    except TooManyRequestsError as error:
        counted.standings.append(Standing(error.details["limit"], 0, error.retry_after_seconds))
        raise
    if standing is not None:
        counted.standings.append(standing)


def caller() -> Caller | None:
    """Return who asks, None for a request that anybody may make."""
    return cast(Caller | None, request.environ.get(CALLER))


def require(scope: Scope) -> None:
    """Raise ScopeMissingError unless the caller has the scope."""
    asking = caller()
    if asking is not None and not asking.may(scope):
        raise ScopeMissingError(scope)


def is_admin() -> bool:
    """Return whether an administrator asks, on a route that anybody may call."""
    access = authentication()
    try:
        return access.within(access.caller_of(_header), _header(HEADER)).is_admin
    except (InvalidInputError, UnauthorizedError, UnavailableError):
        return False  # without the catalogue, nobody knows which keys count


def unwanted_watch() -> Callable[[], bool]:
    """Return what tells whether the answer to this request is not wanted any more, because its client has left or its
    caller may not go on: a function that any thread may call until the request is answered."""
    is_gone, asking = client_watch(), caller()
    if asking is None:
        return is_gone
    still = _still(asking)

    def is_unwanted() -> bool:
        try:
            still()
        except UnauthorizedError:
            return True
        except RagError:  # nobody knows now whether their key still counts
            return is_gone()
        return is_gone()

    return is_unwanted


def keep_acting(response: Response, *, as_whole: bool) -> None:
    """Have a streamed answer made for the caller, whose request is under way until its end: it is made after the
    request has ended, as far as Flask knows. A large one is streamed, too, because its reader may take long, unless the
    caller is to have it `as_whole`."""
    asking = caller()
    if asking is None:
        return
    if not as_whole and not response.is_streamed and (response.calculate_content_length() or 0) > PART_BYTES:
        whole = response.get_data()
        response.content_length = len(whole)
        response.response = iter([whole])
    if response.is_streamed:
        content = response.iter_encoded()
        close = getattr(response.response, "close", None)
        if response.direct_passthrough and close is not None:
            response.call_on_close(close)  # because its first part may never be asked for
            response.direct_passthrough = False
        response.response = _for(asking, content, _still(asking))
        end_counting = request.environ.pop(END_COUNTING, None)
        if end_counting is not None:
            response.call_on_close(end_counting)


def _count(caller: Caller) -> None:
    limits: RequestLimits = current_app.extensions["rag.limits"]
    together: CountedTogether | None = request.environ.get(TOGETHER)
    if together is None:
        request.environ[ADMISSION] = admission = limits.admit(caller)
        request.environ[END_COUNTING] = partial(limits.end, caller, admission)
    else:
        table: RouteTable = current_app.extensions["rag.routes"]
        route = table.find(request.endpoint)
        does_more = route is None or route.lane not in LIGHT
        request.environ[ADMISSION] = admission = together.admit(limits, caller, does_more=does_more)
    if admission.refusal is not None:
        leave_body()
        raise admission.refusal


def _row() -> Access | None:
    rule = request.url_rule
    if rule is None or request.method == "OPTIONS":
        return None
    table: RouteTable = current_app.extensions["rag.routes"]
    return table.access(rule.rule, request.method)


def _header(name: str) -> str:
    return request.headers.get(name, "")


def _still(asking: Caller) -> Still:
    """Return what tells whether the caller of this request may go on, also after it has ended as far as Flask knows."""
    # A key that has ended must not live on in one that it makes, nor delete what nobody gets back.
    row = _row()
    at_once = row is not None and row.is_administration and request.method not in ("GET", "HEAD")
    return partial(authentication().still, asking, _header(HEADER), at_once=at_once)


def _for(asking: Caller, content: Iterator[bytes], still: Still) -> Iterator[bytes]:
    """Yield an answer that is made for the caller, in parts of at most `PART_BYTES`, as long as `still` lets them have
    more.

    Raises AnswerBrokenOffError when it does not.
    """
    try:
        while True:
            # Between two parts this thread may work for others.
            with acting_as(asking, still):
                part = next(content, None)
            if part is None:
                return
            for start in range(0, len(part), PART_BYTES):
                try:
                    still()  # now, because making the part, or sending what was before, may have taken long
                except UnauthorizedError as error:
                    log.info("an answer broke off", code=error.code, reason=error.message)
                    raise AnswerBrokenOffError(error) from None
                yield part[start : start + PART_BYTES]
    finally:
        close = getattr(content, "close", None)
        if close is not None:
            with acting_as(asking):
                close()


def _entered(asking: Caller, still: Still) -> Callable[[], None]:
    acting = acting_as(asking, still)
    acting.__enter__()
    return lambda: cast(None, acting.__exit__(None, None, None))
