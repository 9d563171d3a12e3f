"""Conversations with the chat model in the catalogue's database: the messages, and the sources of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from retrieval.clock import utc_now
from schemas.access.owners import AUDIENCE_COLUMN, EVERYTHING_SEEN, NOBODY, Asker, Ownership, check_meant, ownership_of
from schemas.contracts.chat import STOP, ChatSource, Conversation, StoredMessage
from schemas.errors import NotFoundError
from schemas.names import are_within
from schemas.shared_database import Database, Place, Transaction, of_fields
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import check_nothing_erased
from schemas.storage.small_tables import Condition, Part, Table, having

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
    (f"ALTER TABLE chat_messages ADD COLUMN finish_reason VARCHAR(32) NOT NULL DEFAULT '{STOP}'",),
)


class ConversationNotFoundError(NotFoundError):
    code = "conversation_not_found"

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"Conversation '{conversation_id}' not found", conversation=conversation_id)


def _message(
    role: str,
    content: str,
    created_at: str,
    rag_used: int,
    rag_sources: list[Any],
    reach: str,
    collections: list[str] | str,
    finish_reason: str,
) -> tuple[StoredMessage, str, list[str] | str]:
    message = StoredMessage(role, content, created_at, bool(rag_used), _sources(rag_sources), finish_reason)
    return message, reach, collections


def _origin(owner: str, conversation_id: str, rag_sources: list[Any]) -> tuple[str, str, tuple[ChatSource, ...]]:
    return owner, conversation_id, _sources(rag_sources)


MESSAGES = Table("chat_messages", _message, order="number", json=("rag_sources", "collections"))
ORIGINS = Table("chat_messages", _origin, order="number", json=("rag_sources",))


class ChatHistory(Part):
    """The messages of all conversations, kept until they are deleted, or for some days after the last of one.

    Each owner has ids of their own, and all messages of a conversation have the same audience. Each was made with the
    reach that its owner had then: an answer may say what is in any collection within it. Nobody is told a message, its
    owner neither, who does not see by now all that its owner saw then.
    """

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._now = now
        place = Place("conversations", "removed, those that quote an erased document as a whole", self.erase)
        super().__init__(database, "chat history", STEPS, place)

    def messages(self, conversation_id: str, *, asker: Asker) -> list[StoredMessage]:
        """Return in order those messages of the asker's own conversation that they may be told; an empty list for an
        unknown one."""
        with self._database.read() as transaction:
            return _told(transaction, conversation_id, asker.owner, asker)

    def conversation(self, conversation_id: str, *, asker: Asker, of_owner: str | None = None) -> Conversation:
        """Return the conversation of that id which `ownership_of` finds, with the messages that the asker may be told,
        which may be none. Raises ConversationNotFoundError."""
        with self._database.read() as transaction:
            of = _ownership(transaction, conversation_id, asker, of_owner)
            return Conversation(conversation_id, of, tuple(_told(transaction, conversation_id, of.owner, asker)))

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
        finish_reason: str = STOP,
    ) -> None:
        """Append the user's message and the answer to the asker's conversation, which is private from its beginning and
        stays as it is shared unless `shared` says otherwise.

        It becomes private when a message of it was made with another reach than its audience has. `since` is the count
        of erasures when the turn began. Raises ErasedMeanwhileError when there was one since.
        """
        key = {"owner": asker.owner, "conversation_id": conversation_id}
        made_with = {
            "created_at": self._now().isoformat(timespec="milliseconds"),
            "reach": asker.reach,
            "collections": "" if asker.collections is None else asker.collections,
        }
        sources = [asdict(each) for each in rag_sources]

        def operation(transaction: Transaction) -> None:
            check_nothing_erased(transaction, since)
            of_one = having(**key)
            last = transaction.row(
                f"SELECT number, audience FROM chat_messages WHERE {of_one.sql} ORDER BY number DESC LIMIT 1",
                of_one.parameters,
            )
            number, before = (int(last[0]) + 1, str(last[1])) if last else (0, NOBODY)
            audience = asker.shared_anew(Ownership(asker.owner, before), shared).audience
            made_otherwise = of_one & Condition("reach <> ?", (audience,))
            if audience != EVERYTHING_SEEN and (asker.reach != audience or MESSAGES.count(transaction, made_otherwise)):
                audience = NOBODY
            if audience != before:
                MESSAGES.update(transaction, of_one, audience=audience)
            for role, content, used, made_from, ending in (
                ("user", asked, False, [], STOP),
                ("assistant", answered, rag_used, sources, finish_reason),
            ):
                message = {"role": role, "content": content, "rag_used": used, "rag_sources": made_from}
                message["finish_reason"] = ending
                MESSAGES.insert(transaction, **key, number=number, audience=audience, **message, **made_with)
                number += 1

        self._database.commit(operation)

    def delete(self, conversation_id: str, *, asker: Asker, of_owner: str | None = None) -> None:
        """Delete a conversation. Raises ConversationNotFoundError when the asker sees none, and OwnedByAnotherError."""

        def operation(transaction: Transaction) -> None:
            of = _ownership(transaction, conversation_id, asker, of_owner)
            check_meant(asker, of, of_owner, f"Conversation '{conversation_id}'")
            MESSAGES.delete(transaction, having(owner=of.owner, conversation_id=conversation_id))

        self._database.freely.commit(operation)

    def forget_older(self, days: float) -> None:
        """Delete the conversations whose last message is as old as that."""
        before = (self._now() - timedelta(days=days)).isoformat(timespec="milliseconds")
        doomed = Condition(
            "(owner, conversation_id) IN (SELECT owner, conversation_id FROM chat_messages "
            "GROUP BY owner, conversation_id HAVING MAX(created_at) < ?)",
            (before,),
        )
        with self._database.read() as transaction:
            is_due = MESSAGES.count(transaction, doomed) > 0
        if is_due:
            self._database.freely.commit(lambda transaction: MESSAGES.delete(transaction, doomed))

    def erase(self, target: Target) -> int:
        """Delete the conversations of an erased user, and those with an answer made from an erased document, or from
        what is erased of the former state of one that stays.

        These go whole, since their later messages may repeat what the answer said. Turns under way are not stored.
        Return the number of conversations.
        """
        may_be_meant = Condition("owner = ? OR rag_sources <> '[]'", (target.owner,))

        def operation(transaction: Transaction) -> int:
            doomed = {
                (owner, conversation_id)
                for owner, conversation_id, sources in ORIGINS.rows(transaction, may_be_meant)
                if owner == target.owner or any(map(target.names_source, sources))
            }
            for owner, conversation_id in doomed:
                MESSAGES.delete(transaction, having(owner=owner, conversation_id=conversation_id))
            return len(doomed)

        return self._erase(operation)


def _ownership(transaction: Transaction, conversation_id: str, asker: Asker, of_owner: str | None) -> Ownership:
    found = ownership_of(transaction, "chat_messages", "conversation_id", conversation_id, asker, of_owner)
    if found is None:
        raise ConversationNotFoundError(conversation_id)
    return found


def _told(transaction: Transaction, conversation_id: str, owner: str, asker: Asker) -> list[StoredMessage]:
    messages = MESSAGES.rows(transaction, having(owner=owner, conversation_id=conversation_id))
    return [message for message, reach, collections in messages if _may_be_told(asker, reach, collections)]


def _may_be_told(asker: Asker, reach: str, collections: list[str] | str) -> bool:
    """Return whether the asker sees all that was seen with this reach; `collections` are an empty text where they are
    not known."""
    if asker.sees_all or asker.reach in (reach, EVERYTHING_SEEN):
        return True
    if isinstance(collections, str) or asker.collections is None:
        return False
    return are_within(collections, asker.collections)


def _sources(stored: list[Any]) -> tuple[ChatSource, ...]:
    return tuple(of_fields(ChatSource, each) for each in stored)
