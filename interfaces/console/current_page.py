"""The page that is being made: who looks at it, which pages they can open, and what it asks of the service."""

from __future__ import annotations

from typing import Any, cast

from flask import g

from interfaces.console.sessions import Session
from interfaces.console.wire import RefusedError, Wire
from schemas.access.callers import INCLUDED, Scope
from schemas.errors import UnauthorizedError
from wrapper.web.error_statuses import status_of

PUBLIC = frozenset({"signing_in.sign_in", "signing_in.sign_out"})
"""The pages for those who have not signed in."""
PAGES = (
    ("Ask", "ask", "ask.search", Scope.READ),
    ("Collections", "collections", "collections.listed", Scope.READ),
    ("Documents", "documents", "documents.bring", Scope.READ),
    ("Quality", "quality", "quality.overview", Scope.READ),
    ("Connections", "connections", "connections.listed", Scope.CONNECT),
    ("Service", "service", "service.health", Scope.ADMIN),
)
"""The pages in the head of every page: title, blueprint, endpoint, and the scope without which it can show nothing."""

Json = dict[str, Any]


def wire() -> Wire:
    return cast(Wire, g.wire)


def session() -> Session:
    return cast(Session, g.session)


def is_signed_in() -> bool:
    """Find out who looks at the page, and return whether they may: with a key that counts, or without one where none is
    needed. Raises RefusedError for anything else but a key that is missing."""
    try:
        g.me = wire().get("/api/me", aside=True)
    except RefusedError as error:
        if error.status == status_of(UnauthorizedError) and session().key is None:
            return False
        raise
    return True


def may(scope: str) -> bool:
    """Return whether who looks at the page has a scope, by itself or included in another."""
    return any(scope in INCLUDED[Scope(each)] for each in g.me["scopes"])
