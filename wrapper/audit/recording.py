"""Decides which requests are recorded, and sees that none of them is answered without its line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from schemas.access.callers import Caller, Kind, Scope
from schemas.errors import AuditUnwritableError, NotRecordedError, RagError, UnavailableError
from schemas.storage.audit import AuditEvent
from wrapper.audit.audit_log import AuditLog
from wrapper.audit.noted import Noted
from wrapper.audit.refusals import UNKNOWN, Refusals

log = structlog.get_logger(__name__)

DENIALS = frozenset({401, 403, 421, 429})
CHANGING = frozenset({Scope.WRITE, Scope.MANAGE, Scope.ADMIN})
CONNECTIONS = "/api/connections"
READING = frozenset({"GET", "HEAD"})
EXPORTS = frozenset({"/collections/{name}/export", "/api/documents/{id}/original"})
"""The routes whose answers carry documents away: they are recorded although they read."""
FIRST_ERROR = 400
JOB = "job"
"""The route of what a job stores."""
REVOCATION = ("DELETE", "/api/keys/{id}")
"""What is carried out although it cannot be recorded: a key that got out must not stay for a full disk."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts of a request. `route` is its path as in openapi.yaml, `scope` what that route needs; None means that
    nobody needs a key for it."""

    method: str
    route: str
    scope: Scope | None
    address: str | None = None
    request_id: str | None = None


class Recorder:
    """Records requests in an audit log, reads only when it is `with_reads`.

    Requests that are refused before they begin have a bounded number of lines, those of unknown callers only while
    `may_store` returns True; all others have one each. `clock` returns seconds.
    """

    def __init__(
        self,
        audit_log: AuditLog,
        *,
        with_reads: bool,
        may_store: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.audit_log = audit_log
        self._with_reads = with_reads
        self._may_store = may_store
        self._refusals = Refusals(clock)

    def check(self, asked: Asked, noted: Noted) -> None:
        """See that there will be room for the line of a request that has to have one, before it is carried out.

        Raises AuditUnwritableError when there is none for a request that changes something, UnavailableError for
        others; a key is revoked all the same.
        """
        if noted.is_recordable or not self._is_wanted(asked, noted):
            return
        try:
            self.audit_log.check()
        except AuditUnwritableError as error:
            if _is_revocation(asked):
                return
            raise _refusal(asked, noted, error) from error
        noted.is_recordable = True

    def is_recorded(self, asked: Asked, noted: Noted, status: int) -> bool:
        """Return whether a request that ended like this has a line."""
        return _is_denied(noted, _status(noted, status)) or self._is_wanted(asked, noted)

    def record(self, asked: Asked, noted: Noted, caller: Caller | None, status: int, *, cut: bool = False) -> None:
        """Write the line of a request that has ended, if it is to have one; `status` is that of its answer.

        The caller is None when it is not known. Raises NotRecordedError when a request that changes something has no
        line, UnavailableError for others. A denial stays a denial, and a revocation one: that they have no line is told
        to the service's own log.
        """
        if not self.is_recorded(asked, noted, status):
            return
        status = _status(noted, status)
        event = _event(asked, noted, caller, status, cut=cut)
        if _is_refused(noted, status) and not self._has_line(event, is_known=_is_known(noted, caller)):
            return
        try:
            self.audit_log.append(event, checked=noted.is_recordable)
        except AuditUnwritableError as error:
            log.error("a request is missing in the audit log", route=asked.route, status=status, reason=error.message)
            if _is_denied(noted, status) or _is_revocation(asked):
                return
            if is_change(asked, noted) and noted.is_recordable:
                raise NotRecordedError(f"The request was carried out, but not recorded. {error.message}") from error
            raise _refusal(asked, noted, error) from error

    def tell_refusals(self, *, at_once: bool = False) -> None:
        """Write, when the minute is over, the lines that stand for refused requests without one of their own. Those
        that cannot be written are kept for the next minute."""
        for who, event in self._refusals.told(at_once=at_once):
            try:
                if who == UNKNOWN and not self._may_store():
                    raise AuditUnwritableError("The disk is below its floor")
                self.audit_log.append(event, checked=False)
            except AuditUnwritableError as error:
                log.error("refused requests are missing in the audit log", count=event.repeated, reason=error.message)
                self._refusals.hold(who, event)

    def close(self) -> None:
        """Write what is kept of refused requests, and close the log."""
        self.tell_refusals(at_once=True)
        self.audit_log.close()

    def _has_line(self, event: AuditEvent, *, is_known: bool) -> bool:
        """Return whether a refused request has a line of its own, and count it when it has none."""
        self.tell_refusals()
        who = (event.key_id, event.user) if is_known else UNKNOWN
        if (is_known or self._may_store()) and self._refusals.has_line(who):
            return True
        self._refusals.hold(who, event)
        return False

    def _is_wanted(self, asked: Asked, noted: Noted) -> bool:
        scope = _scope(asked, noted)
        return scope is not None and (scope is not Scope.READ or self._with_reads or asked.route in EXPORTS)


def _scope(asked: Asked, noted: Noted) -> Scope | None:
    return noted.scope or asked.scope


def is_change(asked: Asked, noted: Noted) -> bool:
    """Return whether a request changes something. Of connections those do that say so by their method, or make one."""
    scope = _scope(asked, noted)
    if asked.method in READING or scope is None:
        return False
    if scope is Scope.CONNECT:
        return asked.method != "POST" or asked.route == CONNECTIONS
    return scope in CHANGING


def _is_revocation(asked: Asked) -> bool:
    return (asked.method, asked.route) == REVOCATION


def _status(noted: Noted, status: int) -> int:
    """Return the status of what a request asked for, when its answer has this one."""
    return status if status >= FIRST_ERROR or noted.status is None else noted.status


def _is_denied(noted: Noted, status: int) -> bool:
    return status in DENIALS or noted.is_denied


def _is_refused(noted: Noted, status: int) -> bool:
    """Return whether a request ended before anything was done that has to have a line."""
    return not noted.is_recordable and (status >= FIRST_ERROR or noted.is_denied)


def _is_known(noted: Noted, caller: Caller | None) -> bool:
    return caller is not None or noted.has_ended_key


def _refusal(asked: Asked, noted: Noted, error: AuditUnwritableError) -> RagError:
    if is_change(asked, noted):
        return error
    return UnavailableError(f"{error.message}. What it has to record is refused meanwhile", code="audit_unavailable")


def _event(asked: Asked, noted: Noted, caller: Caller | None, status: int, *, cut: bool) -> AuditEvent:
    is_user = caller is not None and caller.kind is Kind.USER
    scope = _scope(asked, noted)
    return AuditEvent(
        method=asked.method,
        route=asked.route,
        status=status,
        key_id=noted.key_id if caller is None or is_user else caller.id,
        user=caller.id if caller is not None and is_user else None,
        scope=None if scope is None else scope.value,
        collection=noted.collection if _is_known(noted, caller) else None,  # strangers put no names into it
        count=noted.count,
        address=asked.address,
        request_id=asked.request_id,
        tool=noted.tool,
        subject=",".join(noted.subjects) or None,
        cut=cut,
    )
