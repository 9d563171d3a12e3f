"""Judgements in the catalogue's database: which documents people found relevant to their questions."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable
from typing import Any

from retrieval.bench.query_set import Query
from retrieval.clock import z_time_of_ms
from schemas.access.owners import Asker
from schemas.contracts.judgements import (
    MAX_JUDGEMENTS,
    MAX_QUESTIONS,
    Judgement,
    JudgementNotFoundError,
    TooManyJudgementsError,
    Verdict,
)
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import check_nothing_erased
from schemas.storage.small_tables import Part, Table, having, owned_by

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


def _judgement(
    id: str, question: str, collection: str, document_id: str, grade: int, created_at_ms: int, owner: str
) -> Judgement:
    return Judgement(id, Verdict(question, collection, document_id, grade), z_time_of_ms(created_at_ms), owner)


JUDGEMENTS = Table("judgements", _judgement)


class Judgements(Part):
    """The judgements of one catalogue. Each is its owner's alone; administrators see all."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database, "judgements", STEPS, Place("judgements", "removed", self.erase), clock=clock)

    def keep(self, verdict: Verdict, *, asker: Asker, since: int) -> Judgement:
        """Store what the asker judged, in place of their earlier verdict on the same.

        `since` is the count of erasures before the document was looked for. Raises ErasedMeanwhileError,
        TooManyJudgementsError and DiskFloorError.
        """
        row: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "question": verdict.question,
            "collection": verdict.collection,
            "document_id": verdict.document_id,
            "grade": verdict.grade,
            "created_at_ms": self._now_ms(),
        }

        def operation(transaction: Transaction) -> Judgement:
            check_nothing_erased(transaction, since)
            key = {"owner": asker.owner, "digest": _digest(verdict)}
            number = JUDGEMENTS.next_number(transaction)
            JUDGEMENTS.put(transaction, key, number=number, **row)
            if JUDGEMENTS.count(transaction, having(owner=asker.owner)) > MAX_JUDGEMENTS:
                raise TooManyJudgementsError
            return _judgement(owner=asker.owner, **row)

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
        asked = {"collection": collection, "question": question}
        condition = owned_by(asker) & having(**{name: text for name, text in asked.items() if text is not None})
        with self._database.read() as transaction:
            found, following = JUDGEMENTS.page(transaction, condition, limit=limit, cursor=cursor)
            return found, JUDGEMENTS.count(transaction, condition), following

    def forget(self, judgement_id: str, *, asker: Asker) -> None:
        """Delete a judgement. Raises JudgementNotFoundError when the asker sees none of that id."""
        condition = owned_by(asker) & having(id=judgement_id)
        if not self._database.freely.commit(lambda transaction: JUDGEMENTS.remove(transaction, condition)):
            raise JudgementNotFoundError(judgement_id)

    def questions(self, collection: str, *, asker: Asker) -> tuple[Query, ...]:
        """Return the latest judged questions about a collection that have a relevant document, `MAX_QUESTIONS` at most.
        Of several verdicts on the same, the latest counts. Their ids are q1, q2 and so on."""
        judged: dict[str, dict[str, int]] = {}
        for each in self._rows(JUDGEMENTS, owned_by(asker) & having(collection=collection)):
            judged.setdefault(each.verdict.question, {}).setdefault(each.verdict.document_id, each.verdict.grade)
        relevant = [(text, grades) for text, grades in judged.items() if any(grades.values())][:MAX_QUESTIONS]
        return tuple(Query(f"q{number}", text, grades) for number, (text, grades) in enumerate(relevant, start=1))

    def erase(self, target: Target) -> int:
        """Forget the judgements of an erased user, and those on erased documents. Return their number."""

        def operation(transaction: Transaction) -> int:
            number = JUDGEMENTS.remove(transaction, having(owner=target.owner))
            for each in JUDGEMENTS.rows(transaction, having(collection=target.collection)):
                if target.names(target.collection, each.verdict.document_id):
                    number += JUDGEMENTS.remove(transaction, having(id=each.id))
            return number

        return self._erase(operation)


def _digest(verdict: Verdict) -> str:
    told = "\0".join((verdict.question, verdict.collection, verdict.document_id))
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()
