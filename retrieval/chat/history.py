"""Conversations with the chat model in the catalogue's database: the messages, and the sources of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

import orjson

from retrieval.clock import utc_now
from schemas.access.owners import AUDIENCE_COLUMN, EVERYTHING_SEEN, NOBODY, Asker, Ownership, check_meant, ownership_of
from schemas.contracts.chat import ChatSource, Conversation, StoredMessage
from schemas.errors import NotFoundError
from schemas.names import are_within
from schemas.shared_database import Database, Transaction, of_fields
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import check_nothing_erased, count_erasure, erasures

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
    (
        f"ALTER TABLE chat_messages ADD COLUMN {AUDIENCE_COLUMN}",
        "CREATE INDEX chat_messages_by_conversation ON chat_messages (conversation_id)",
    ),
    # Before there were reaches, everybody saw everything.
    (f"ALTER TABLE chat_messages ADD COLUMN reach VARCHAR(64) NOT NULL DEFAULT '{EVERYTHING_SEEN}'",),
    # With which reach these were made is not known, so only those who see all go on reading what was shared.
    (f"UPDATE chat_messages SET audience = '{NOBODY}' WHERE audience NOT IN (reach, '{EVERYTHING_SEEN}')",),
    # Of which collections is not known for these: they are told to those who have the same reach or see all.
    ("ALTER TABLE chat_messages ADD COLUMN collections {text} NOT NULL DEFAULT ''",),
)
_OF_ONE = "WHERE owner = ? AND conversation_id = ?"


class ConversationNotFoundError(NotFoundError):
    code = "conversation_not_found"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"Conversation '{conversation_id}' not found", conversation=conversation_id)


class ChatHistory:
    """The messages of all conversations, kept until they are deleted, or for some days after the last of one.

    Each owner has ids of their own, and all messages of a conversation have the same audience. Each was made with the
    reach that its owner had then: an answer may say what is in any collection within it. Nobody is told a message, its
    owner neither, who does not see by now all that its owner saw then.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._clock = clock
        database.open_part("chat history", STEPS)

    def erasures(self) -> int:
        """Return the count of erasures, for a turn that begins."""
        with self._database.read() as transaction:
            return erasures(transaction)

    def messages(self, conversation_id: str, *, asker: Asker) -> list[StoredMessage]:
        """Return in order those messages of the asker's own conversation that they may be told; an empty list for an
        unknown one."""
        with self._database.read() as transaction:
            return _messages(transaction, conversation_id, asker.owner, asker)

    def conversation(self, conversation_id: str, *, asker: Asker, of_owner: str | None = None) -> Conversation:
        """Return the conversation of that id which `ownership_of` finds, with the messages that the asker may be told,
        which may be none. Raises ConversationNotFoundError."""
        with self._database.read() as transaction:
            of = _ownership(transaction, conversation_id, asker, of_owner)
            return Conversation(conversation_id, of, tuple(_messages(transaction, conversation_id, of.owner, asker)))

    def add_turn(
        self,
        conversation_id: str,
        asked: str,
        answered: str,
        *,
        asker: Asker,
        shared: bool | None = None,
        rag_used: bool,
        rag_sources: Sequence[ChatSource],
        since: int,
    ) -> None:
        """Append the user's message and the answer to the asker's conversation, which is private from its beginning and
        stays as it is shared unless `shared` says otherwise.

        It becomes private when a message of it was made with another reach than its audience has. `since` is the count
        of erasures when the turn began. Raises ErasedMeanwhileError when there was one since.
        """
        now = self._clock().isoformat(timespec="milliseconds")

        def operation(transaction: Transaction) -> None:
            check_nothing_erased(transaction, since)
            key = (asker.owner, conversation_id)
            last = transaction.row(
                f"SELECT number, audience FROM chat_messages {_OF_ONE} ORDER BY number DESC LIMIT 1", key
            )
            number, before = (0, NOBODY) if last is None else (int(last[0]) + 1, str(last[1]))
            of = asker.shared_anew(Ownership(asker.owner, before), shared)
            rows = transaction.rows(f"SELECT DISTINCT reach FROM chat_messages {_OF_ONE}", key)
            if of.audience != EVERYTHING_SEEN and {asker.reach, *(row[0] for row in rows)} != {of.audience}:
                of = Ownership(asker.owner, NOBODY)
            if of.audience != before:
                transaction.run(f"UPDATE chat_messages SET audience = ? {_OF_ONE}", (of.audience, *key))
            within = "" if asker.collections is None else orjson.dumps(asker.collections).decode()
            sources = orjson.dumps([asdict(each) for each in rag_sources]).decode()
            for said in ((number, "user", asked, 0, "[]"), (number + 1, "assistant", answered, int(rag_used), sources)):
                transaction.run(
                    "INSERT INTO chat_messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*key, *said, now, of.audience, asker.reach, within),
                )

        self._database.commit(operation)

    def delete(self, conversation_id: str, *, asker: Asker, of_owner: str | None = None) -> None:
        """Delete a conversation. Raises ConversationNotFoundError when the asker sees none, and OwnedByAnotherError."""

        def operation(transaction: Transaction) -> None:
            of = _ownership(transaction, conversation_id, asker, of_owner)
            check_meant(asker, of, of_owner, f"Conversation '{conversation_id}'")
            transaction.run(f"DELETE FROM chat_messages {_OF_ONE}", (of.owner, conversation_id))

        self._database.freely.commit(operation)

    def forget_older(self, days: float) -> None:
        """Delete the conversations whose last message is as old as that."""
        before = (self._clock() - timedelta(days=days)).isoformat(timespec="milliseconds")
        with self._database.read() as transaction:
            doomed = transaction.rows(
                "SELECT owner, conversation_id FROM chat_messages GROUP BY owner, conversation_id "
                "HAVING MAX(created_at) < ?",
                (before,),
            )

        def operation(transaction: Transaction) -> None:
            for each in doomed:
                last = transaction.row(f"SELECT MAX(created_at) FROM chat_messages {_OF_ONE}", tuple(each))
                if last is not None and str(last[0]) < before:  # nobody went on with it meanwhile
                    transaction.run(f"DELETE FROM chat_messages {_OF_ONE}", tuple(each))

        if doomed:
            self._database.freely.commit(operation)

    def erase(self, target: Target) -> int:
        """Delete the conversations of an erased user, and those with an answer made from an erased document, or from
        what is erased of the former state of one that stays.

        These go whole, since their later messages may repeat what the answer said. Turns under way are not stored.
        Return the number of conversations.
        """

        def operation(transaction: Transaction) -> int:
            count_erasure(transaction)
            rows = transaction.rows(
                "SELECT owner, conversation_id, rag_sources FROM chat_messages WHERE owner = ? OR rag_sources <> '[]'",
                (target.owner,),
            )
            doomed = {
                (owner, conversation_id)
                for owner, conversation_id, sources in rows
                if owner == target.owner or any(target.names_source(each) for each in _sources(sources))
            }
            for each in doomed:
                transaction.run(f"DELETE FROM chat_messages {_OF_ONE}", each)
            return len(doomed)

        return self._database.freely.commit(operation)


def _ownership(transaction: Transaction, conversation_id: str, asker: Asker, of_owner: str | None) -> Ownership:
    found = ownership_of(transaction, "chat_messages", "conversation_id", conversation_id, asker, of_owner)
    if found is None:
        raise ConversationNotFoundError(conversation_id)
    return found


def _messages(transaction: Transaction, conversation_id: str, owner: str, asker: Asker) -> list[StoredMessage]:
    rows = transaction.rows(
        "SELECT role, content, created_at, rag_used, rag_sources, reach, collections "
        f"FROM chat_messages {_OF_ONE} ORDER BY number",
        (owner, conversation_id),
    )
    told = {made_with for made_with in {tuple(row[5:]) for row in rows} if _may_be_told(asker, *made_with)}
    return [
        StoredMessage(str(role), str(content), str(at), bool(used), _sources(sources))
        for role, content, at, used, sources, *made_with in rows
        if tuple(made_with) in told
    ]


def _may_be_told(asker: Asker, reach: str, collections: str) -> bool:
    """Return whether the asker sees all that was seen with this reach; `collections` are empty where they are not
    known."""
    if asker.sees_all or asker.reach in (reach, EVERYTHING_SEEN):
        return True
    if not collections or asker.collections is None:
        return False
    return are_within(orjson.loads(collections), asker.collections)


def _sources(stored: str) -> tuple[ChatSource, ...]:
    return tuple(of_fields(ChatSource, each) for each in orjson.loads(stored))
