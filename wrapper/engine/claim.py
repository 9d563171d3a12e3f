"""Whose a Chroma server is: one catalogue's per tenant and database, said by a collection that is nothing else.

Two catalogues on one server would take in each other's collections, and put each other's aside. Chroma lets one of two
that make the mark at the same moment have it.
"""

from __future__ import annotations

import structlog

from wrapper.engine.client import EngineClient, EngineCollection
from wrapper.engine.errors import EngineAccessError, EngineConflictError, EngineNamespaceMissingError

log = structlog.get_logger(__name__)

OWNER_MARK = "rag-wrapper-owner"
CATALOGUE = "catalogue"
CLAIM_SECONDS = 5.0


class EngineOwnedError(EngineAccessError):
    """The engine is another catalogue's."""

    code = "engine_owned"


def claim(engine: EngineClient, catalogue: str, *, timeout_seconds: float = CLAIM_SECONDS) -> None:
    """Make the engine's database this catalogue's, unless it is so already; a tenant and a database that are not there
    are made. Raises EngineOwnedError when it is another's, and what the engine's client raises."""
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
    """Raises EngineOwnedError when the engine's database is another catalogue's, and what the client raises."""
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
