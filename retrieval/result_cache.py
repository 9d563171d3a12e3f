"""A cache of answers in the catalogue's database, so that all workers give the same answer to the same question.

Only ids, scores and relevances are kept. The texts are read from the collections each time, so a deleted document
disappears from cached answers too; an answer that has lost a chunk is no longer used.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog

from providers.base import SupportsMetadataFiltering
from retrieval.search.corpus import OpenCorpus
from retrieval.search.oracles.base import to_result
from schemas.access.callers import current_view
from schemas.connections import CollectionInfo
from schemas.contracts.search import OracleResult
from schemas.errors import CollectionNotFoundError, RagError
from schemas.shared_database import Database, Transaction
from schemas.storage.erasure_count import (
    UNKNOWN,
    check_nothing_erased,
    count_erasure,
    erasures,
)

log = structlog.get_logger(__name__)

STEPS = (
    (
        """CREATE TABLE kept_answers (
            key VARCHAR(64) PRIMARY KEY, answer {text} NOT NULL, gone_after_ms BIGINT NOT NULL
        )""",
        "CREATE INDEX kept_answers_by_age ON kept_answers (gone_after_ms)",
    ),
    ("DELETE FROM kept_answers",),  # answers of earlier releases contained texts
    ("DELETE FROM kept_answers",),  # and later ones no relevance
)


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """`chunks`: (collection, id of the chunk, score, relevance), best first; `told`: the other fields of the answer."""

    chunks: tuple[tuple[str, str, float, float | None], ...]
    told: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Sequence[OracleResult], **told: str) -> KeptAnswer:
        return cls(tuple((each.collection, each.chunk_id, each.score, each.relevance) for each in found), told)


class ResultCache:
    """Keeps answers for `ttl_seconds`; logs a warning when it cannot, and never fails."""

    def __init__(self, database: Database, *, ttl_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        database.open_part("kept answers", STEPS)

    def find(self, asked: list[Any]) -> tuple[KeptAnswer | None, int]:
        """Return (the answer to a question, if it is kept and fresh, else None; the count of erasures, for an answer
        that is about to be made).

        A question consists of everything the answer depends on, including `states_of` the collections.
        """
        try:
            with self._database.read() as transaction:
                return self._find(transaction, _key(asked)), erasures(transaction)
        except RagError as error:
            log.warning("a kept answer could not be looked up", reason=error.message)
            return None, UNKNOWN

    def keep(self, asked: list[Any], answer: KeptAnswer, *, since: int) -> KeptAnswer:
        """Keep an answer; return the one that is kept now: this one, or one that another worker kept first.

        It is not kept when there was an erasure `since` that count of them.
        """
        if self._ttl_seconds <= 0:
            return answer
        key, told = _key(asked), orjson.dumps(answer).decode()

        def operation(transaction: Transaction) -> KeptAnswer:
            check_nothing_erased(transaction, since)
            transaction.run("DELETE FROM kept_answers WHERE gone_after_ms < ?", (self._now_ms(),))
            kept = self._find(transaction, key)
            if kept is not None:
                return kept
            values = (key, told, self._now_ms() + int(self._ttl_seconds * 1e3))
            transaction.run("INSERT INTO kept_answers VALUES (?, ?, ?)", values)
            return answer

        try:
            return self._database.commit_quickly(operation)
        except RagError as error:
            log.warning("an answer could not be kept", reason=error.message)
            return answer

    def clear(self) -> int:
        """Forget all answers, those too that are being made, and return their number. Raises UnavailableError when it
        cannot."""

        def operation(transaction: Transaction) -> int:
            count_erasure(transaction)
            row = transaction.row("SELECT count(*) FROM kept_answers")
            transaction.run("DELETE FROM kept_answers")
            return 0 if row is None else int(row[0])

        return self._database.freely.commit(operation)

    def _find(self, transaction: Transaction, key: str) -> KeptAnswer | None:
        row = transaction.row("SELECT answer, gone_after_ms FROM kept_answers WHERE key = ?", (key,))
        if row is None or int(row[1]) < self._now_ms():
            return None
        kept = orjson.loads(row[0])
        if not {"chunks", "told"} <= kept.keys():
            return None  # of another release
        return KeptAnswer(tuple(tuple(chunk) for chunk in kept["chunks"]), kept["told"])

    def _now_ms(self) -> int:
        return int(self._clock() * 1e3)


def states_of(collections: Sequence[CollectionInfo]) -> list[tuple[str, int]] | None:
    """Return what identifies these collections in exactly this state; None when that is unknown for any of them."""
    states = [(each.id, each.revision) for each in collections if each.id is not None and each.revision is not None]
    return states if len(states) == len(collections) else None


def read_again(
    corpus: OpenCorpus, kept: KeptAnswer, collections: Sequence[CollectionInfo]
) -> list[OracleResult] | None:
    """Return a kept answer's results as they are stored now; None when any of them is gone.

    Raise the store's errors when a collection cannot be read.
    """
    known = {each.name: each for each in collections}
    wanted: dict[str, list[str]] = {}
    for name, chunk_id, *_ in kept.chunks:
        wanted.setdefault(name, []).append(chunk_id)
    if not wanted.keys() <= known.keys():
        return None
    reads = corpus.able(SupportsMetadataFiltering)
    try:
        stored = {
            (name, document.id): document for name in wanted for document in reads.documents_by_id(name, wanted[name])
        }
    except CollectionNotFoundError:
        return None
    if any((name, chunk_id) not in stored for name, chunk_id, *_ in kept.chunks):
        return None
    return [
        to_result(stored[name, chunk_id], known[name], score, relevance=relevance)
        for name, chunk_id, score, relevance in kept.chunks
    ]


def _key(asked: list[Any]) -> str:
    # What one caller found tells another what there is.
    return hashlib.sha256(orjson.dumps([asked, current_view()], option=orjson.OPT_SORT_KEYS)).hexdigest()
