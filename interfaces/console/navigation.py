"""The pages in the head of every page: those that the reader's key opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import request, url_for

from schemas.access.callers import INCLUDED, Scope

PAGES = (
    ("Ask", "ask", "ask.search", Scope.READ),
    ("Collections", "collections", "collections.listed", Scope.READ),
    ("Documents", "documents", "documents.bring", Scope.READ),
    ("Quality", "quality", "quality.overview", Scope.READ),
    ("Connections", "connections", "connections.listed", Scope.CONNECT),
    ("Service", "service", "service.health", Scope.ADMIN),
)
"""Title, blueprint, endpoint, and the scope without which the page can show nothing."""


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    address: str
    is_current: bool


def pages_of(me: Mapping[str, Any]) -> list[Page]:
    """Return the pages for who is described by an answer of `/api/me`."""
    return [
        Page(title, url_for(endpoint), request.blueprint == blueprint)
        for title, blueprint, endpoint, scope in PAGES
        if scope in granted(me)
    ]


def granted(me: Mapping[str, Any]) -> frozenset[Scope]:
    """Return the scopes with all that they include."""
    return frozenset().union(*(INCLUDED[Scope(each)] for each in me["scopes"]))
