"""Judgements in the catalogue's database: which documents people found relevant to their questions."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from retrieval.bench.query_set import Query
from retrieval.clock import z_time
from schemas.access.owners import Asker
from schemas.contracts.judgements import (
    MAX_JUDGEMENTS,
    MAX_QUESTIONS,
    Judgement,
    JudgementNotFoundError,
    TooManyJudgementsError,
    Verdict,
)
from schemas.sealed_cursors import opened, sealed
from schemas.shared_database import Database, Transaction
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import check_nothing_erased, count_erasure, erasures

STEPS = (
    (
        """CREATE TABLE judgements (
            id VARCHAR(40) PRIMARY KEY, number BIGINT NOT NULL, owner VARCHAR(200) NOT NULL,
            digest VARCHAR(64) NOT NULL, question {text} NOT NULL, collection VARCHAR(512) NOT NULL,
            document_id {text} NOT NULL, grade INTEGER NOT NULL, created_at_ms BIGINT NOT NULL
        )""",
        "CREATE UNIQUE INDEX judgements_in_order ON judgements (number)",
        "CREATE UNIQUE INDEX judgements_by_owner ON judgements (owner, digest)",
        "CREATE INDEX judgements_by_collection ON judgements (collection)",
    ),
)
LISTING, NUMBER_BYTES = "judgements", 8
_COLUMNS = "SELECT id, question, collection, document_id, grade, created_at_ms, owner, number FROM judgements"


class Judgements:
    """The judgements of one catalogue; safe for use by several threads and processes.

    Each is its owner's alone; administrators see all. `clock` returns seconds since the epoch.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        database.open_part("judgements", STEPS)

    def erasures(self) -> int:
        """Return the count of erasures, for a judgement that is about to be made."""
        with self._database.read() as transaction:
            return erasures(transaction)

    def keep(self, verdict: Verdict, *, asker: Asker, since: int) -> Judgement:
        """Store what the asker judged, in place of their earlier verdict on the same.

        `since` is the count of erasures before the document was looked for. Raises ErasedMeanwhileError,
        TooManyJudgementsError and DiskFloorError.
        """
        now_ms, made = round(self._clock() * 1e3), str(uuid.uuid4())
        digest = _digest(verdict)

        def operation(transaction: Transaction) -> Judgement:
            check_nothing_erased(transaction, since)
            transaction.run("DELETE FROM judgements WHERE owner = ? AND digest = ?", (asker.owner, digest))
            count = transaction.row("SELECT count(*) FROM judgements WHERE owner = ?", (asker.owner,))
            if count is not None and count[0] >= MAX_JUDGEMENTS:
                raise TooManyJudgementsError
            last = transaction.row("SELECT MAX(number) FROM judgements")
            number = 0 if last is None or last[0] is None else int(last[0]) + 1
            told = verdict.question, verdict.collection, verdict.document_id, verdict.grade
            transaction.run(
                "INSERT INTO judgements VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (made, number, asker.owner, digest, *told, now_ms),
            )
            return _judgement((made, *told, now_ms, asker.owner))

        return self._database.commit(operation)

    def page(
        self,
        *,
        asker: Asker,
        collection: str | None = None,
        question: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> tuple[list[Judgement], int, str | None]:
        """Return (judgements that the asker sees, the latest first; how many there are; the cursor of the next page).

        Raises InvalidInputError for a wrong cursor.
        """
        condition, parameters = _seen(asker, collection, question)
        with self._database.read() as transaction:
            count = transaction.row(f"SELECT count(*) FROM judgements WHERE {condition}", parameters)
            before = [] if not cursor else [int.from_bytes(opened(transaction, LISTING, cursor))]
            rows = transaction.rows(
                f"{_COLUMNS} WHERE {condition}{' AND number < ?' * len(before)} ORDER BY number DESC LIMIT ?",
                (*parameters, *before, limit + 1),
            )
            found, total = [_judgement(row) for row in rows[:limit]], 0 if count is None else int(count[0])
            if len(rows) <= limit:
                return found, total, None
            return found, total, sealed(transaction, LISTING, int(rows[limit - 1][7]).to_bytes(NUMBER_BYTES))

    def forget(self, judgement_id: str, *, asker: Asker) -> None:
        """Delete a judgement. Raises JudgementNotFoundError when the asker sees none of that id."""
        condition, parameters = _seen(asker)

        def operation(transaction: Transaction) -> None:
            mine = f"id = ? AND {condition}"
            if transaction.row(f"SELECT 1 FROM judgements WHERE {mine}", (judgement_id, *parameters)) is None:
                raise JudgementNotFoundError(judgement_id)
            transaction.run(f"DELETE FROM judgements WHERE {mine}", (judgement_id, *parameters))

        self._database.freely.commit(operation)

    def questions(self, collection: str, *, asker: Asker) -> tuple[Query, ...]:
        """Return the latest judged questions about a collection that have a relevant document, `MAX_QUESTIONS` at most.
        Of several verdicts on the same, the latest counts. Their ids are q1, q2 and so on."""
        condition, parameters = _seen(asker, collection)
        with self._database.read() as transaction:
            rows = transaction.rows(f"{_COLUMNS} WHERE {condition} ORDER BY number DESC", parameters)
        judged: dict[str, dict[str, int]] = {}
        for _, question, _, document_id, grade, *_ in rows:
            judged.setdefault(question, {}).setdefault(document_id, int(grade))
        relevant = [(text, grades) for text, grades in judged.items() if any(grades.values())][:MAX_QUESTIONS]
        return tuple(Query(f"q{number}", text, grades) for number, (text, grades) in enumerate(relevant, start=1))

    def erase(self, target: Target) -> int:
        """Forget the judgements of an erased user, and those on erased documents. Return their number."""

        def operation(transaction: Transaction) -> int:
            count_erasure(transaction)
            doomed = set[str]()
            if target.owner is not None:
                rows = transaction.rows("SELECT id FROM judgements WHERE owner = ?", (target.owner,))
                doomed |= {row[0] for row in rows}
            if target.collection is not None:
                rows = transaction.rows(
                    "SELECT id, document_id FROM judgements WHERE collection = ?", (target.collection,)
                )
                doomed |= {row[0] for row in rows if target.names(target.collection, row[1])}
            for each in doomed:
                transaction.run("DELETE FROM judgements WHERE id = ?", (each,))
            return len(doomed)

        return self._database.freely.commit(operation)


def _seen(asker: Asker, collection: str | None = None, question: str | None = None) -> tuple[str, tuple[str, ...]]:
    conditions, parameters = ["1 = 1"], list[str]()
    if not asker.sees_all:
        conditions.append("owner = ?")
        parameters.append(asker.owner)
    if collection is not None:
        conditions.append("collection = ?")
        parameters.append(collection)
    if question is not None:
        conditions.append("question = ?")
        parameters.append(question)
    return " AND ".join(conditions), tuple(parameters)


def _digest(verdict: Verdict) -> str:
    told = "\0".join((verdict.question, verdict.collection, verdict.document_id))
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()


def _judgement(row: tuple[Any, ...]) -> Judgement:
    judgement_id, question, collection, document_id, grade, created_at_ms, owner, *_ = row
    moment = z_time(datetime.fromtimestamp(created_at_ms / 1e3, UTC))
    return Judgement(judgement_id, Verdict(question, collection, document_id, int(grade)), moment, owner)
