"""What every oracle is: one way to find documents for a question, a strategy (seed 004, "Oracle Trait")."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import structlog

from providers.base import Filter
from retrieval.corpus import OpenCorpus
from schemas.connections import CollectionInfo
from schemas.errors import CollectionNotFoundError, RagError, UnavailableError
from schemas.owners import OPEN
from schemas.records import Document
from schemas.searched import OracleAnswer, OracleResult

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Question:
    """A text of a user, the collections it is asked of and where they are, and the filter that what is found must
    match; `owner` is the one whose notes may be found. What is not asked when `until` comes (seconds of the monotonic
    clock) is left out."""

    text: str
    corpus: OpenCorpus
    collections: tuple[CollectionInfo, ...]
    where: Filter | None = None
    until: float = math.inf
    owner: str = OPEN


class Oracle(ABC):
    """Usable by several threads; asked in parallel with others.

    `own_collections` are asked whatever a question names. A request that names other collections does not mean such an
    oracle unless it names that too.
    """

    name: ClassVar[str]
    own_collections: tuple[str, ...] = ()

    @abstractmethod
    def is_available(self, corpus: OpenCorpus) -> bool:
        """Whether there is anything to ask; an oracle that is not available is left out, which is no failure."""

    @abstractmethod
    def query(self, question: Question, limit: int) -> OracleAnswer:
        """The `limit` best chunks, best first. Raises RagError when none of the collections can be asked."""


def ask_each(question: Question, limit: int, ask: Callable[[CollectionInfo], Sequence[OracleResult]]) -> OracleAnswer:
    """What `ask` finds in each of the collections, best first, merged by score. A collection that cannot be asked is
    left out and named; raises its RagError when none can."""
    found: list[OracleResult] = []
    failures: dict[str, RagError] = {}
    for collection in question.collections:
        if time.monotonic() >= question.until:
            failures[collection.name] = UnavailableError("There was no time left to ask it")
            continue
        try:
            found += ask(collection)
        except CollectionNotFoundError:
            continue  # deleted since the question was put: what is gone holds nothing
        except RagError as error:
            log.warning("collection left out", collection=collection.name, reason=error.message)
            failures[collection.name] = error
    if failures and len(failures) == len(question.collections):
        raise next(iter(failures.values()))
    best = sorted(found, key=lambda result: -result.score)[:limit]
    return OracleAnswer(best, {name: error.message for name, error in failures.items()})


def to_result(document: Document, collection: CollectionInfo, score: float) -> OracleResult:
    """`doc_id` is the metadata's `document_id` when that is a string, else the id it is stored under."""
    metadata = document.metadata
    origin = metadata.get("document_id")
    return OracleResult(
        doc_id=origin if isinstance(origin, str) and origin else document.id,
        collection=collection.name,
        chunk_id=document.id,
        content=document.text,
        score=score,
        metadata=metadata,
    )
