"""The claim of one catalogue on a tenant and database of a Chroma server, made by a collection that has no other use.

Two catalogues on one server would adopt each other's collections, and put each other's aside. When two make the mark at
the same moment, Chroma gives it to one of them.
"""

from __future__ import annotations

import structlog

from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineAccessError, EngineConflictError, EngineNamespaceMissingError
from wrapper.engine.records import EngineCollection

log = structlog.get_logger(__name__)

OWNER_MARK = "rag-wrapper-owner"
CATALOGUE = "catalogue"
CLAIM_SECONDS = 5.0


class EngineOwnedError(EngineAccessError):
    """The engine belongs to another catalogue."""

    code = "engine_owned"


def claim(engine: EngineClient, catalogue: str, *, timeout_seconds: float = CLAIM_SECONDS) -> None:
    """Claim the engine's database for this catalogue. A missing tenant or database is made.

    Raises EngineOwnedError when the database is another catalogue's, and whatever the engine's client raises.
    """
    try:
        engine.check_database(timeout_seconds=timeout_seconds)
    except EngineNamespaceMissingError:
        engine.make_database(timeout_seconds=timeout_seconds)
        log.warning("the Chroma server did not have this tenant or database: made")
    found = engine.get_collection(OWNER_MARK, timeout_seconds=timeout_seconds)
    if found is None:
        try:
            metadata = {CATALOGUE: catalogue, "made_by": "rag-wrapper"}
            engine.create_collection(OWNER_MARK, metric="l2", metadata=metadata, timeout_seconds=timeout_seconds)
        except EngineConflictError:
            pass
        found = engine.get_collection(OWNER_MARK, timeout_seconds=timeout_seconds)
    _check(found, catalogue)


def check_owner(engine: EngineClient, catalogue: str, *, timeout_seconds: float = CLAIM_SECONDS) -> None:
    """Raise EngineOwnedError when the engine's database is another catalogue's.

    Raises whatever the engine's client raises, too.
    """
    found = engine.get_collection(OWNER_MARK, timeout_seconds=timeout_seconds)
    if found is not None:
        _check(found, catalogue)


def _check(found: EngineCollection | None, catalogue: str) -> None:
    if found is not None and found.metadata.get(CATALOGUE) == catalogue:
        return
    raise EngineOwnedError(
        "This database of the Chroma server is the index of another service with another catalogue. Give this one a "
        f"RAG_CHROMA_DATABASE of its own; when the other is gone for good, delete the collection '{OWNER_MARK}' there"
    )
