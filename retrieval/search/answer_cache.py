"""A cache of answers in the catalogue's database, so that all workers give the same answer to the same question.

Only ids, scores and relevances are kept. The texts are read from the collections each time, so a deleted document
disappears from cached answers too; an answer that has lost a passage is no longer used.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import structlog

from providers.base import SupportsMetadataFiltering
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import to_result
from schemas.access.callers import current_view
from schemas.connections import CollectionInfo
from schemas.contracts.search import FusedResult, Provenance
from schemas.errors import CollectionNotFoundError, RagError
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure_count import UNKNOWN, check_nothing_erased, count_erasure, erasures

log = structlog.get_logger(__name__)

WAIT_SECONDS = 0.2
"""How long an answer may wait for other writers, since whoever asked waits for it."""

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
)


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """The results of a question, best first, and what tells this answer from others."""

    id: str
    results: list[FusedResult]


class AnswerCache:
    """Keeps answers for `ttl_seconds`; logs a warning when it cannot, and never fails."""

    def __init__(self, database: Database, *, ttl_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        place = Place("kept answers", "all removed", lambda _: self.clear())
        database.open_part("kept answers", STEPS, place)

    def find(
        self, asked: Sequence[Any], corpus: OpenCorpus, collections: Sequence[CollectionInfo]
    ) -> tuple[CachedAnswer | None, int]:
        """Return (the answer to a question about these collections, if it is cached and fresh and all of it is still
        stored, else None; the count of erasures, for an answer that is about to be made).

        `asked` has everything that the answer depends on but the collections, as JSON. Raises what the store raises.
        """
        key = _key(asked, collections)
        if key is None:
            return None, UNKNOWN
        try:
            with self._database.read() as transaction:
                cached, began_at = self._find(transaction, key), erasures(transaction)
        except RagError as error:
            log.warning("a cached answer could not be looked up", reason=error.message)
            return None, UNKNOWN
        return _read_again(cached, corpus, collections), began_at

    def keep(
        self,
        asked: Sequence[Any],
        corpus: OpenCorpus,
        collections: Sequence[CollectionInfo],
        results: list[FusedResult],
        *,
        since: int,
    ) -> CachedAnswer:
        """Keep the results of a question; return the answer that is cached now: this one, or one that another worker
        kept first.

        It is not kept when there was an erasure `since` that count of them.
        """
        mine = CachedAnswer(str(uuid.uuid4()), results)
        key = _key(asked, collections)
        if self._ttl_seconds <= 0 or key is None:
            return mine
        answer = orjson.dumps([mine.id, [_kept(each) for each in results]]).decode()

        def operation(transaction: Transaction) -> list[Any] | None:
            check_nothing_erased(transaction, since)
            transaction.run("DELETE FROM kept_answers WHERE gone_after_ms < ?", (self._now_ms(),))
            cached = self._find(transaction, key)
            if cached is None:
                values = (key, answer, self._now_ms() + int(self._ttl_seconds * 1e3))
                transaction.run("INSERT INTO kept_answers VALUES (?, ?, ?)", values)
            return cached

        try:
            others = self._database.commit_quickly(operation, wait_seconds=WAIT_SECONDS)
        except RagError as error:
            log.warning("an answer could not be cached", reason=error.message)
            return mine
        return _read_again(others, corpus, collections) or mine

    def clear(self) -> int:
        """Forget all answers, those too that are being made, and return their number. Raises UnavailableError when it
        cannot."""

        def operation(transaction: Transaction) -> int:
            count_erasure(transaction)
            row = transaction.row("SELECT count(*) FROM kept_answers")
            transaction.run("DELETE FROM kept_answers")
            return 0 if row is None else int(row[0])

        return self._database.freely.commit(operation)

    def _find(self, transaction: Transaction, key: str) -> list[Any] | None:
        row = transaction.row("SELECT answer, gone_after_ms FROM kept_answers WHERE key = ?", (key,))
        if row is None or int(row[1]) < self._now_ms():
            return None
        cached = orjson.loads(row[0])
        return cached if isinstance(cached, list) else None  # else of another release

    def _now_ms(self) -> int:
        return int(self._clock() * 1e3)


def _key(asked: Sequence[Any], collections: Sequence[CollectionInfo]) -> str | None:
    """Return what identifies a question about these collections in exactly this state, None when that is unknown for
    any of them. What one caller found tells another what there is."""
    states = [(each.id, each.revision) for each in collections if each.id is not None and each.revision is not None]
    if len(states) < len(collections):
        return None
    return hashlib.sha256(orjson.dumps([asked, states, current_view()], option=orjson.OPT_SORT_KEYS)).hexdigest()


def _kept(result: FusedResult) -> list[Any]:
    places = {name: [place.rank, place.score] for name, place in result.provenance.items()}
    return [
        *(result.collection, result.chunk_id, result.score, result.rrf_score, result.relevance, result.cosine),
        places,
    ]


def _read_again(
    cached: list[Any] | None, corpus: OpenCorpus, collections: Sequence[CollectionInfo]
) -> CachedAnswer | None:
    """Return a cached answer with its passages as they are stored now; None when any of them is gone."""
    if cached is None:
        return None
    answer_id, rows = cached
    known = {each.name: each for each in collections}
    wanted: dict[str, list[str]] = {}
    for name, chunk_id, *_ in rows:
        wanted.setdefault(name, []).append(chunk_id)
    reads = corpus.able(SupportsMetadataFiltering)
    try:
        stored = {(name, each.id): each for name in wanted for each in reads.documents_by_id(name, wanted[name])}
    except CollectionNotFoundError:
        return None
    results = []
    for name, chunk_id, score, rrf_score, relevance, cosine, places in rows:
        document = stored.get((name, chunk_id))
        if document is None or name not in known:
            return None
        found = to_result(document, known[name], score)
        results.append(
            FusedResult(
                doc_id=found.doc_id,
                collection=name,
                chunk_id=chunk_id,
                content=found.content,
                score=score,
                rrf_score=rrf_score,
                sources=tuple(places),
                provenance={oracle: Provenance(*place) for oracle, place in places.items()},
                metadata=found.metadata,
                relevance=relevance,
                cosine=cosine,
            )
        )
    return CachedAnswer(answer_id, results)
