"""The contract of an oracle, one way to find documents for a question (contract *search*, "Oracle Trait")."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import structlog

from registry.embedding.queries import AskedEmbeddings
from retrieval.search.corpus import OpenCorpus
from schemas.access.owners import NOBODY_KNOWN, Asker
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleAnswer, OracleResult
from schemas.errors import CollectionNotFoundError, RagError, UnavailableError
from schemas.records import Document
from schemas.where import EVERYTHING, Where

log = structlog.get_logger(__name__)

COSINE = "cosine"
"""What oracles by meaning measure."""
NO_TIME = "There was no time left to ask it"


@dataclass(frozen=True, slots=True)
class Question:
    """A user's text, the collections of `corpus` that are asked, and the filter that results must match.

    Only notes that `asker` sees may be found. Collections that have not been asked at `until`, in seconds of the
    monotonic clock, are left out. `embeddings` are those of the text, shared by all who answer this question.
    """

    text: str
    corpus: OpenCorpus
    collections: tuple[CollectionInfo, ...]
    where: Where = EVERYTHING
    until: float = math.inf
    asker: Asker = NOBODY_KNOWN
    embeddings: AskedEmbeddings | None = None


class Oracle(ABC):
    """One way to find documents, usable by several threads and asked in parallel with others.

    `own_collections` are asked whatever collections a question names. A request that names other collections leaves
    such an oracle out, unless it names the oracle too. Scores of oracles that `measure` the same can be compared.
    """

    name: ClassVar[str]
    measure: ClassVar[str]
    own_collections: tuple[str, ...] = ()

    @abstractmethod
    def is_available(self, corpus: OpenCorpus) -> bool:
        """Return whether there is anything to ask. Leaving out an oracle that is not available is not a failure."""

    @abstractmethod
    def query(self, question: Question, limit: int) -> OracleAnswer:
        """Return the `limit` best chunks, best first. Raises RagError when no collection can be asked."""


def ask_each(
    question: Question,
    limit: int,
    ask: Callable[[CollectionInfo], Sequence[OracleResult]],
    comparable: Callable[[list[OracleResult]], list[OracleResult]] = lambda found: found,
    *,
    in_turn: Iterable[CollectionInfo] | None = None,
    late: Callable[[CollectionInfo], str] = lambda collection: NO_TIME,
) -> OracleAnswer:
    """Return what `ask` finds in the collections, merged by strength once `comparable` has made these so, best first.

    They are asked `in_turn`, else as they come; the answer is the same. `late` says why there was no time for one. A
    collection that cannot be asked is left out and named in the answer. Raise its RagError when none can be asked.
    """
    found: dict[str, Sequence[OracleResult]] = {}
    failures: dict[str, RagError] = {}
    for collection in question.collections if in_turn is None else in_turn:
        if time.monotonic() >= question.until:
            failures[collection.name] = UnavailableError(late(collection))
            continue
        try:
            found[collection.name] = ask(collection)
        except CollectionNotFoundError:
            continue  # deleted since the question was asked
        except RagError as error:
            log.warning("collection left out", collection=collection.name, reason=error.message)
            failures[collection.name] = error
    names = [each.name for each in question.collections]
    if failures and len(failures) == len(names):
        raise failures[names[0]]
    results = [each for name in names for each in found.get(name, ())]
    best = sorted(comparable(results), key=lambda result: -result.strength)[:limit]
    return OracleAnswer(best, {name: failures[name].message for name in names if name in failures})


def to_result(
    document: Document,
    collection: CollectionInfo,
    score: float,
    *,
    cosine: float | None = None,
    measured: float | None = None,
) -> OracleResult:
    """Return a stored document as a result. `doc_id` is the `document_id` of its metadata where that is a string."""
    metadata = document.metadata
    origin = metadata.get("document_id")
    return OracleResult(
        doc_id=origin if isinstance(origin, str) and origin else document.id,
        collection=collection.name,
        chunk_id=document.id,
        content=document.text,
        score=score,
        metadata=metadata,
        cosine=cosine,
        measured=measured,
        vector=document.embedding,
    )
