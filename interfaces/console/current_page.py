"""The page that is being made: who looks at it, and what it asks of the service."""

from __future__ import annotations

from typing import Any, cast

from flask import g

from interfaces.console.navigation import granted
from interfaces.console.sessions import Session
from interfaces.console.wire import RefusedError, Wire
from schemas.access.callers import Scope
from schemas.errors import UnauthorizedError
from wrapper.web.error_statuses import status_of

PUBLIC = frozenset({"signing_in.sign_in", "signing_in.sign_out"})
"""The pages for those who have not signed in."""

Json = dict[str, Any]


def wire() -> Wire:
    return cast(Wire, g.wire)


def session() -> Session:
    return cast(Session, g.session)


def form_token() -> str:
    """Return the token of this page's forms, empty for a page that failed before its session was known."""
    return session().form_token if "session" in g else ""


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


def needs_key() -> bool:
    return session().key is not None if "session" in g else False


def may(scope: str) -> bool:
    """Return whether who looks at the page has a scope."""
    return Scope(scope) in granted(cast(Json, g.me))
