"""Conversations with the chat model, in the catalogue's database: what was said, and what answers were made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime

import orjson

from registry.database import Database, Transaction
from retrieval.clock import utc_now
from schemas.chat import ChatSource, StoredMessage
from schemas.errors import NotFoundError

STEPS = (
    (
        """CREATE TABLE chat_messages (
            conversation_id VARCHAR(200) NOT NULL, number BIGINT NOT NULL, role VARCHAR(16) NOT NULL,
            content {text} NOT NULL, rag_used BIGINT NOT NULL, rag_sources {text} NOT NULL,
            created_at VARCHAR(40) NOT NULL, PRIMARY KEY (conversation_id, number)
        )""",
    ),
)


class ConversationNotFoundError(NotFoundError):
    code = "conversation_not_found"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"Conversation '{conversation_id}' not found", conversation=conversation_id)


class ChatHistory:
    """Kept until they are deleted."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        database.open_part("chat history", STEPS)

    def messages(self, conversation_id: str) -> list[StoredMessage]:
        """In their order; none for a conversation that is not known."""
        with self._database.read() as transaction:
            rows = transaction.rows(
                "SELECT role, content, created_at, rag_used, rag_sources FROM chat_messages "
                "WHERE conversation_id = ? ORDER BY number",
                (conversation_id,),
            )
        return [
            StoredMessage(str(role), str(content), str(at), bool(used), _sources(sources))
            for role, content, at, used, sources in rows
        ]

    def add_turn(
        self,
        conversation_id: str,
        asked: str,
        answered: str,
        *,
        rag_used: bool,
        rag_sources: Sequence[ChatSource],
    ) -> None:
        """What the user said, and the answer."""
        now = self._clock().isoformat(timespec="milliseconds")

        def operation(transaction: Transaction) -> None:
            row = transaction.row("SELECT MAX(number) FROM chat_messages WHERE conversation_id = ?", (conversation_id,))
            number = 0 if row is None or row[0] is None else int(row[0]) + 1
            sources = orjson.dumps([asdict(each) for each in rag_sources]).decode()
            for said in ((number, "user", asked, 0, "[]"), (number + 1, "assistant", answered, int(rag_used), sources)):
                transaction.run("INSERT INTO chat_messages VALUES (?, ?, ?, ?, ?, ?, ?)", (conversation_id, *said, now))

        self._database.commit(operation)

    def delete(self, conversation_id: str) -> None:
        """Raises ConversationNotFoundError."""

        def operation(transaction: Transaction) -> None:
            found = transaction.row(
                "SELECT number FROM chat_messages WHERE conversation_id = ? AND number = 0", (conversation_id,)
            )
            if found is None:
                raise ConversationNotFoundError(conversation_id)
            transaction.run("DELETE FROM chat_messages WHERE conversation_id = ?", (conversation_id,))

        self._database.commit(operation)


def _sources(stored: str) -> tuple[ChatSource, ...]:
    return tuple(ChatSource(**each) for each in orjson.loads(stored))
