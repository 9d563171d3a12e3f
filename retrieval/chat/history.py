"""Conversations with the chat model in the catalogue's database: the messages, and the sources of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime

import orjson

from retrieval.clock import utc_now
from schemas.contracts.chat import ChatSource, StoredMessage
from schemas.errors import NotFoundError
from schemas.shared_database import Database, Transaction

STEPS = (
    (
        """CREATE TABLE chat_messages (
            conversation_id VARCHAR(200) NOT NULL, number BIGINT NOT NULL, role VARCHAR(16) NOT NULL,
            content {text} NOT NULL, rag_used BIGINT NOT NULL, rag_sources {text} NOT NULL,
            created_at VARCHAR(40) NOT NULL, PRIMARY KEY (conversation_id, number)
        )""",
    ),
    (
        "ALTER TABLE chat_messages RENAME TO chat_messages_of_all",
        """CREATE TABLE chat_messages (
            owner VARCHAR(200) NOT NULL, conversation_id VARCHAR(200) NOT NULL, number BIGINT NOT NULL,
            role VARCHAR(16) NOT NULL, content {text} NOT NULL, rag_used BIGINT NOT NULL, rag_sources {text} NOT NULL,
            created_at VARCHAR(40) NOT NULL, PRIMARY KEY (owner, conversation_id, number)
        )""",
        """INSERT INTO chat_messages
            SELECT '', conversation_id, number, role, content, rag_used, rag_sources, created_at
            FROM chat_messages_of_all""",
        "DROP TABLE chat_messages_of_all",
    ),
)
_OF_ONE = "WHERE owner = ? AND conversation_id = ?"


class ConversationNotFoundError(NotFoundError):
    code = "conversation_not_found"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"Conversation '{conversation_id}' not found", conversation=conversation_id)


class ChatHistory:
    """The messages of all conversations, kept until they are deleted; each `owner` has ids of their own."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        database.open_part("chat history", STEPS)

    def messages(self, conversation_id: str, *, owner: str) -> list[StoredMessage]:
        """Return the messages in order; an empty list for an unknown conversation."""
        with self._database.read() as transaction:
            rows = transaction.rows(
                f"SELECT role, content, created_at, rag_used, rag_sources FROM chat_messages {_OF_ONE} ORDER BY number",
                (owner, conversation_id),
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
        owner: str,
        rag_used: bool,
        rag_sources: Sequence[ChatSource],
    ) -> None:
        """Append the user's message and the answer."""
        now = self._clock().isoformat(timespec="milliseconds")

        def operation(transaction: Transaction) -> None:
            row = transaction.row(f"SELECT MAX(number) FROM chat_messages {_OF_ONE}", (owner, conversation_id))
            number = 0 if row is None or row[0] is None else int(row[0]) + 1
            sources = orjson.dumps([asdict(each) for each in rag_sources]).decode()
            for said in ((number, "user", asked, 0, "[]"), (number + 1, "assistant", answered, int(rag_used), sources)):
                values = (owner, conversation_id, *said, now)
                transaction.run("INSERT INTO chat_messages VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

        self._database.commit(operation)

    def delete(self, conversation_id: str, *, owner: str) -> None:
        """Delete a conversation. Raises ConversationNotFoundError when there is none."""

        def operation(transaction: Transaction) -> None:
            found = transaction.row(
                f"SELECT number FROM chat_messages {_OF_ONE} AND number = 0", (owner, conversation_id)
            )
            if found is None:
                raise ConversationNotFoundError(conversation_id)
            transaction.run(f"DELETE FROM chat_messages {_OF_ONE}", (owner, conversation_id))

        self._database.commit(operation)


def _sources(stored: str) -> tuple[ChatSource, ...]:
    return tuple(ChatSource(**each) for each in orjson.loads(stored))
