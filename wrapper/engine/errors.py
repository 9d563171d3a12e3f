"""What can go wrong between this service and the engine, in the words the indexer and the planner act on.

The engine answers in three ways: it has *taken* what it was sent; it *cannot take* this, now or later
(`EngineRefusedError`); it is *not available* for this or anything (`EngineUnavailableError`), and asked again later it
may take it. Which status of HTTP means what is decided in `wrapper/engine/transport.py`.
"""

from __future__ import annotations

from schemas.errors import ConflictError, RagError, UnavailableError


class EngineUnavailableError(UnavailableError):
    """The engine refused the connection, dropped it or did not answer in time, or what is in front of it lets nobody
    through now: no access, no quota, too many requests. The outcome of a write is unknown."""

    code = "engine_unavailable"


class EngineAccessError(EngineUnavailableError):
    """Something answers, and does not let this service do what it asks: redirects, wants another token, has no such
    tenant or database, has no quota left, belongs to another service. It stays so until somebody changes something."""

    code = "engine_access_refused"


class EngineNamespaceMissingError(EngineAccessError):
    """The engine has no such tenant or database."""


class EngineCollectionMissingError(UnavailableError):
    """The engine has no such collection: it was deleted there, or its directory was replaced. Rebuild it."""

    code = "engine_collection_missing"


class EngineBrokenError(UnavailableError):
    """The engine answered with an internal error: the collection's index may be broken, the outcome is unknown."""

    code = "engine_broken"


class EngineConflictError(ConflictError):
    """The engine already has a collection of that name."""

    code = "engine_conflict"


class EngineRefusedError(RagError):
    """The engine calls the request itself wrong (400, 413, 422, in its own words). Sending it again cannot help."""

    code = "engine_refused"
