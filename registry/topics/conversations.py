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
from schemas.shared_database import Database, Place, Transaction
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import check_nothing_erased, erasures
from schemas.storage.small_tables import EVERY_ROW, Condition, Part, Table, having

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


def _topic(topic: str) -> str:
    return topic


TOPICS = Table("conversation_topics", _topic, order="changed_at_seconds")


class Conversations(Part):
    """The stored topics. `keeper` returns what decides on topics, perhaps a chat model; if it fails, the rule does."""

    def __init__(
        self, database: Database, keeper: Callable[[], TopicKeeper], clock: Callable[[], float] = time.time
    ) -> None:
        self._keeper = keeper
        super().__init__(database, "conversations", STEPS, Place("topics", "removed", self.erase), clock=clock)

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
        key = {"owner": owner, "id": conversation_id}
        with self._database.read() as transaction:
            began_at = erasures(transaction)
            before = TOPICS.first(transaction, having(**key)) or ""
        keeper = TopicByRule if by_rule else self._keeper
        after = self._next_topic(keeper, before, request.user_message)
        check_acting()  # a model may think for long
        now = int(self._clock())

        def keep(transaction: Transaction) -> None:
            check_nothing_erased(transaction, began_at)
            TOPICS.delete(transaction, Condition("changed_at_seconds < ?", (now - FORGOTTEN_AFTER_SECONDS,)))
            TOPICS.put(transaction, key, topic=after, changed_at_seconds=now)

        try:
            self._database.commit_quickly(keep)
        except RagError as error:
            log.warning("a topic could not be kept", reason=error.message)
        return replace(request, topic=after, current_topic=before)

    def erase(self, target: Target) -> int:
        """Forget the topics of an erased user or, for what others could read, all topics: nothing tells which of them
        were about it, and the next message makes another. Return the number of topics."""
        forgotten = having(owner=target.owner) if target.is_private else EVERY_ROW
        return self._erase(lambda transaction: TOPICS.remove(transaction, forgotten))

    def _next_topic(self, keeper: Callable[[], TopicKeeper], topic: str, message: str) -> str:
        try:
            return keeper().next_topic(topic, message)
        except RagError as error:
            log.warning("the topic is decided by rule", reason=error.message)
            return TopicByRule().next_topic(topic, message)
