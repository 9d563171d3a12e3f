"""What can go wrong between this service and the engine, in the words the indexer and the planner act on."""

from __future__ import annotations

from schemas.errors import ConflictError, RagError, UnavailableError


class EngineUnavailableError(UnavailableError):
    """The engine refused the connection, dropped it or did not answer in time. The outcome of a write is unknown."""

    code = "engine_unavailable"


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
    """The engine calls the request itself wrong (400, 413, 422). Sending it again cannot help."""

    code = "engine_refused"
