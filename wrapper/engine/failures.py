"""Errors between this service and the engine, in the terms that the indexer and the planner act on.

The engine answers in three ways: it has *taken* what it was sent; it *cannot take* this, now or later
(`EngineRefusedError`); it is *not available* for this or anything (`EngineUnavailableError`), and may take it when
asked again later. `wrapper/engine/transport.py` decides which HTTP status means what.
"""

from __future__ import annotations

from schemas.errors import ConflictError, RagError, UnavailableError


class EngineUnavailableError(UnavailableError):
    """The engine is not available, and the outcome of a write is unknown.

    It refused the connection, dropped it or did not answer in time, or whatever stands in front of it lets nobody
    through now: no access, no quota, too many requests.
    """

    code = "engine_unavailable"


class EngineAccessError(EngineUnavailableError):
    """Something answers but refuses what this service asks, until somebody changes something.

    It redirects, wants another token, has no such tenant or database, has no quota left, or belongs to another service.
    """

    code = "engine_access_refused"
    retry_after_seconds = None


class EngineNamespaceMissingError(EngineAccessError):
    """The engine has no such tenant or database."""


class EngineCollectionMissingError(UnavailableError):
    """The engine has no such collection: it was deleted there, or its directory was replaced. It has to be rebuilt."""

    code = "engine_collection_missing"


class EngineBrokenError(UnavailableError):
    """The engine answered with an internal error: the collection's index may be broken, and the outcome is unknown."""

    code = "engine_broken"


class EngineConflictError(ConflictError):
    """The engine already has a collection of that name."""

    code = "engine_conflict"


class EngineRefusedError(RagError):
    """The engine itself calls the request wrong (400, 413 or 422, in its own words). Sending it again cannot help."""

    code = "engine_refused"
