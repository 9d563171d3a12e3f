"""The search for the documents that break an index, in collections made for it and thrown away.

Chroma writes what it was sent into a log and applies it from there. It does not refuse a record that it cannot apply;
the record's collection answers every later request with an internal error. So suspected documents are tried in a
collection that holds nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import structlog

from schemas.errors import InvalidInputError, UnavailableError
from schemas.records import Collection, Document
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineBrokenError, EngineRefusedError
from wrapper.indexing.engine_collections import EngineCollections, trial_name

log = structlog.get_logger(__name__)

FAILURES_THAT_COUNT = 2
"""The number of times that a part gets no answer before it counts as the reason. An internal error counts at once."""


@dataclass(slots=True)
class Part:
    """Positions of documents that are tried together, and how often they got no answer."""

    positions: list[int]
    failures: int = 0

    def halves(self) -> list[Part]:
        middle = len(self.positions) // 2
        return [Part(self.positions[:middle]), Part(self.positions[middle:])]


class Sifter:
    """The trials of documents in the engine, for the one thread that writes to it."""

    def __init__(self, engine: EngineClient, collections: EngineCollections) -> None:
        self._engine = engine
        self._collections = collections

    def fault(self, collection: Collection, part: Part, documents: Sequence[Document]) -> str | None:
        """Return why an index of the collection cannot take these documents of a part, None when it can.

        Raises UnavailableError when that cannot be decided now, because the engine does not take a harmless document
        either.
        """
        try:
            self._try(collection, documents)
        except (EngineRefusedError, InvalidInputError) as error:
            return error.message
        except UnavailableError as error:
            part.failures += 1
            if not isinstance(error, EngineBrokenError) and part.failures < FAILURES_THAT_COUNT:
                raise
            self._try(collection, [_harmless(documents[0])])
            return error.message
        return None

    def _try(self, collection: Collection, documents: Sequence[Document]) -> None:
        name = trial_name(collection.key)
        self._collections.discard(name)
        engine_id = self._collections.make(collection, name)
        try:
            self._collections.send(replace(collection, engine_id=engine_id), documents, {}, all_new=True)
            self._engine.count(engine_id)
        finally:
            try:
                self._collections.discard(name)
            except UnavailableError as error:
                log.warning("a collection for trials stays until the next one", reason=error.message)


def _harmless(document: Document) -> Document:
    assert document.embedding is not None
    vector = np.ones_like(document.embedding)
    return Document("harmless", "harmless", "{}", document.position, vector)
