"""The topics of conversations, kept in the catalogue's database for clients that keep none themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from registry.topics.topic import TopicByRule, TopicKeeper
from schemas.access.callers import check_acting
from schemas.contracts.collect import CollectRequest
from schemas.errors import RagError
from schemas.shared_database import Database, Transaction
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import check_nothing_erased, count_erasure, erasures

log = structlog.get_logger(__name__)

STEPS = (
    (
        """CREATE TABLE conversation_topics (
            id VARCHAR(200) PRIMARY KEY, topic {text} NOT NULL, changed_at_seconds BIGINT NOT NULL
        )""",
        "CREATE INDEX conversation_topics_by_age ON conversation_topics (changed_at_seconds)",
    ),
    (
        "ALTER TABLE conversation_topics RENAME TO conversation_topics_of_all",
        """CREATE TABLE conversation_topics (
            owner VARCHAR(200) NOT NULL, id VARCHAR(200) NOT NULL, topic {text} NOT NULL,
            changed_at_seconds BIGINT NOT NULL, PRIMARY KEY (owner, id)
        )""",
        "INSERT INTO conversation_topics SELECT '', id, topic, changed_at_seconds FROM conversation_topics_of_all",
        "DROP TABLE conversation_topics_of_all",
        "CREATE INDEX conversation_topics_by_age ON conversation_topics (changed_at_seconds)",
    ),
)
FORGOTTEN_AFTER_SECONDS = 7 * 86_400


class Conversations:
    """The stored topics. `keeper` returns what decides on topics, perhaps a chat model; if it fails, the rule does."""

    def __init__(
        self, database: Database, keeper: Callable[[], TopicKeeper], clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._keeper = keeper
        self._clock = clock
        database.open_part("conversations", STEPS)

    @property
    def asks_model(self) -> bool:
        """Whether a chat model decides on topics."""
        return self._keeper is not TopicByRule

    def follow(
        self, conversation_id: str, request: CollectRequest, *, owner: str, by_rule: bool = False
    ) -> CollectRequest:
        """Return the request with the topics before and after its message; store the latter for the next message,
        unless something was erased meanwhile.

        With `by_rule` no model is asked. Raises AccessError when the asker may not go on.
        """
        with self._database.read() as transaction:
            began_at = erasures(transaction)
            row = transaction.row(
                "SELECT topic FROM conversation_topics WHERE owner = ? AND id = ?", (owner, conversation_id)
            )
        before = "" if row is None else str(row[0])
        keeper = TopicByRule if by_rule else self._keeper
        after = self._next_topic(keeper, before, request.user_message)
        check_acting()  # a model may think for long
        now = int(self._clock())

        def keep(transaction: Transaction) -> None:
            check_nothing_erased(transaction, began_at)
            transaction.run("DELETE FROM conversation_topics WHERE owner = ? AND id = ?", (owner, conversation_id))
            oldest = now - FORGOTTEN_AFTER_SECONDS
            transaction.run("DELETE FROM conversation_topics WHERE changed_at_seconds < ?", (oldest,))
            transaction.run("INSERT INTO conversation_topics VALUES (?, ?, ?, ?)", (owner, conversation_id, after, now))

        try:
            self._database.commit_quickly(keep)
        except RagError as error:
            log.warning("a topic could not be kept", reason=error.message)
        return replace(request, topic=after, current_topic=before)

    def erase(self, target: Target) -> int:
        """Forget the topics of an erased user or, for what others could read, all topics: nothing tells which of them
        were about it, and the next message makes another. Return the number of topics."""
        condition, parameters = ("owner = ?", (target.owner,)) if target.is_private else ("TRUE", ())

        def operation(transaction: Transaction) -> int:
            count_erasure(transaction)
            row = transaction.row(f"SELECT count(*) FROM conversation_topics WHERE {condition}", parameters)
            transaction.run(f"DELETE FROM conversation_topics WHERE {condition}", parameters)
            return 0 if row is None else int(row[0])

        return self._database.freely.commit(operation)

    def _next_topic(self, keeper: Callable[[], TopicKeeper], topic: str, message: str) -> str:
        try:
            return keeper().next_topic(topic, message)
        except RagError as error:
            log.warning("the topic is decided by rule", reason=error.message)
            return TopicByRule().next_topic(topic, message)
