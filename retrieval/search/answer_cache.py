"""A cache of answers in the catalogue's database, so that all workers give the same answer to the same question.

Only ids, scores and relevances are kept. The texts are read from the collections each time, so a deleted document
disappears from cached answers too; an answer that has lost a passage is no longer used.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import structlog

from providers.base import SupportsMetadataFiltering
from retrieval.search.corpus import Chosen
from schemas.access.callers import current_view
from schemas.contracts.search import FusedResult, Provenance
from schemas.errors import CollectionNotFoundError, RagError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure_count import UNKNOWN, check_nothing_erased, erasures
from schemas.storage.small_tables import Condition, Part, Table, having

log = structlog.get_logger(__name__)

WAIT_SECONDS = 0.2
"""How long an answer may wait for other writers, since whoever asked waits for it."""
KEPT = ("doc_id", "collection", "chunk_id", "score", "rrf_score", "provenance", "relevance", "cosine")
"""What is kept of a passage."""

STEPS = (
    (
        """CREATE TABLE kept_answers (
            key VARCHAR(64) PRIMARY KEY, answer {text} NOT NULL, gone_after_ms BIGINT NOT NULL
        )""",
        "CREATE INDEX kept_answers_by_age ON kept_answers (gone_after_ms)",
    ),
    ("DELETE FROM kept_answers",),  # answers of earlier releases contained texts
    ("DELETE FROM kept_answers",),  # and later ones no relevance
    ("DELETE FROM kept_answers",),  # nor what each oracle said
    ("DELETE FROM kept_answers",),  # nor the names of what they kept
)


ANSWERS = Table("kept_answers", lambda answer: answer, order="gone_after_ms", json=("answer",))


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """The results of a question, best first, and what tells this answer from others."""

    id: str
    results: list[FusedResult]


class AnswerCache(Part):
    """Keeps answers for `ttl_seconds`; logs a warning when it cannot, and never fails."""

    def __init__(self, database: Database, *, ttl_seconds: float) -> None:
        self._ttl_seconds = ttl_seconds
        place = Place("kept answers", "all removed", lambda _: self.clear())
        super().__init__(database, "kept answers", STEPS, place)

    def find(self, asked: Sequence[Any], chosen: Chosen) -> tuple[CachedAnswer | None, int]:
        """Return (the answer to a question about these collections, if it is cached and fresh and all of it is still
        stored, else None; the count of erasures, for an answer that is about to be made).

        `asked` has everything that the answer depends on but the collections, as JSON. Raises what the store raises.
        """
        key = _key(asked, chosen)
        if key is None:
            return None, UNKNOWN
        try:
            with self._database.read() as transaction:
                cached, began_at = self._find(transaction, key), erasures(transaction)
        except RagError as error:
            log.warning("a cached answer could not be looked up", reason=error.message)
            return None, UNKNOWN
        return _read_again(cached, chosen), began_at

    def keep(self, asked: Sequence[Any], chosen: Chosen, results: list[FusedResult], *, since: int) -> CachedAnswer:
        """Keep the results of a question; return the answer that is cached now: this one, or one that another worker
        kept first.

        It is not kept when there was an erasure `since` that count of them.
        """
        mine = CachedAnswer(str(uuid.uuid4()), results)
        key = _key(asked, chosen)
        if self._ttl_seconds <= 0 or key is None:
            return mine
        answer = [mine.id, [{name: getattr(each, name) for name in KEPT} for each in results]]

        def operation(transaction: Transaction) -> list[Any] | None:
            check_nothing_erased(transaction, since)
            ANSWERS.delete(transaction, Condition("gone_after_ms < ?", (self._now_ms(),)))
            cached = self._find(transaction, key)
            if cached is None:
                gone_after_ms = self._now_ms() + int(self._ttl_seconds * 1e3)
                ANSWERS.insert(transaction, key=key, answer=answer, gone_after_ms=gone_after_ms)
            return cached

        try:
            others = self._database.commit_quickly(operation, wait_seconds=WAIT_SECONDS)
        except RagError as error:
            log.warning("an answer could not be cached", reason=error.message)
            return mine
        return _read_again(others, chosen) or mine

    def clear(self) -> int:
        """Forget all answers, those too that are being made, and return their number. Raises UnavailableError when it
        cannot."""
        return self._erase(ANSWERS.remove)

    def _find(self, transaction: Transaction, key: str) -> list[Any] | None:
        fresh = having(key=key) & Condition("gone_after_ms >= ?", (self._now_ms(),))
        return ANSWERS.first(transaction, fresh)


def _key(asked: Sequence[Any], chosen: Chosen) -> str | None:
    """Return what identifies a question about these collections in exactly this state, None when that is unknown for
    any of them. What one caller found tells another what there is."""
    states = [(each.id, each.revision) for each in chosen.asked]
    if any(None in state for state in states):
        return None
    return hashlib.sha256(orjson.dumps([asked, states, current_view()], option=orjson.OPT_SORT_KEYS)).hexdigest()


def _read_again(cached: list[Any] | None, chosen: Chosen) -> CachedAnswer | None:
    """Return a cached answer with its passages as they are stored now; None when any of them is gone."""
    if cached is None:
        return None
    answer_id, rows = cached
    wanted: dict[str, list[str]] = {}
    for row in rows:
        wanted.setdefault(row["collection"], []).append(row["chunk_id"])
    if not wanted.keys() <= {each.name for each in chosen.asked}:
        return None
    reads = chosen.corpus.able(SupportsMetadataFiltering)
    try:
        stored = {(name, each.id): each for name in wanted for each in reads.documents_by_id(name, wanted[name])}
    except CollectionNotFoundError:
        return None
    results = []
    for row in rows:
        document = stored.get((row["collection"], row["chunk_id"]))
        if document is None:
            return None
        row["provenance"] = {oracle: Provenance(**place) for oracle, place in row["provenance"].items()}
        sources = tuple(row["provenance"])
        results.append(FusedResult(**row, content=document.text, sources=sources, metadata=document.metadata))
    return CachedAnswer(answer_id, results)
