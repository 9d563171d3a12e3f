"""Answers that are given again, in the catalogue's database: the same answer, whichever worker is asked."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, cast

import orjson
import structlog

from registry.database import Database, Transaction
from schemas.errors import RagError

log = structlog.get_logger(__name__)

STEPS = (
    (
        """CREATE TABLE kept_answers (
            key VARCHAR(64) PRIMARY KEY, answer {text} NOT NULL, gone_after_ms BIGINT NOT NULL
        )""",
        "CREATE INDEX kept_answers_by_age ON kept_answers (gone_after_ms)",
    ),
)


class ResultCache:
    """Keeps JSON objects for `ttl_seconds`. What it cannot keep is a warning in the log, never a failure."""

    def __init__(self, database: Database, *, ttl_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        database.open_part("kept answers", STEPS)

    def find(self, asked: list[Any]) -> dict[str, Any] | None:
        """The answer to this question, if it is kept and fresh. A question is whatever the answer depends on, the
        revisions of the collections among it."""
        try:
            with self._database.read() as transaction:
                return self._find(transaction, _key(asked))
        except RagError as error:
            log.warning("a kept answer could not be looked up", reason=error.message)
            return None

    def keep(self, asked: list[Any], answer: dict[str, Any]) -> dict[str, Any]:
        """The answer that is kept now: this one, or the one that somebody else kept first."""
        if self._ttl_seconds <= 0:
            return answer
        key = _key(asked)

        def operation(transaction: Transaction) -> dict[str, Any]:
            transaction.run("DELETE FROM kept_answers WHERE gone_after_ms < ?", (self._now_ms(),))
            kept = self._find(transaction, key)
            if kept is not None:
                return kept
            values = (key, orjson.dumps(answer).decode(), self._now_ms() + int(self._ttl_seconds * 1e3))
            transaction.run("INSERT INTO kept_answers VALUES (?, ?, ?)", values)
            return answer

        try:
            return self._database.commit_quickly(operation)
        except RagError as error:
            log.warning("an answer could not be kept", reason=error.message)
            return answer

    def _find(self, transaction: Transaction, key: str) -> dict[str, Any] | None:
        row = transaction.row("SELECT answer, gone_after_ms FROM kept_answers WHERE key = ?", (key,))
        if row is None or int(row[1]) < self._now_ms():
            return None
        return cast(dict[str, Any], orjson.loads(row[0]))

    def _now_ms(self) -> int:
        return int(self._clock() * 1e3)


def _key(asked: list[Any]) -> str:
    return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()
