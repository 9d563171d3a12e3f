"""A shared conversation says nothing of collections that those do not see with whom it is shared."""

from __future__ import annotations

import pytest

from retrieval.chat.history import STEPS, ChatHistory, ConversationNotFoundError
from schemas.access.owners import EVERYTHING_SEEN, Asker

TEAM, ALL = "team", EVERYTHING_SEEN
ANA = Asker("key:ana", reach=TEAM)
ANA_OF_ALL = Asker("key:ana", reach=ALL)
BOB, BOARD = Asker("key:bob", reach=TEAM), Asker("key:board", reach=ALL)


@pytest.fixture
def say(history):
    def say(asker, shared=None):
        history.add_turn(
            "c",
            "question",
            "answer",
            asker=asker,
            shared=shared,
            rag_used=False,
            rag_sources=(),
            since=history.erasures(),
        )

    return say


@pytest.fixture
def sees(history):
    def sees(asker):
        try:
            return len(history.conversation("c", asker=asker).messages)
        except ConversationNotFoundError:
            return 0

    return sees


def test_it_is_seen_by_those_who_see_the_same(say, sees):
    say(ANA, shared=True)
    say(ANA)
    assert [sees(each) for each in (ANA, BOB, BOARD)] == [4, 4, 4]


@pytest.mark.parametrize("shared", [None, True])
def test_a_message_of_who_sees_more_by_now_makes_it_private(say, sees, shared):
    say(ANA, shared=True)
    say(ANA_OF_ALL, shared=shared)
    assert [sees(each) for each in (ANA_OF_ALL, BOB, BOARD)] == [4, 0, 0]


def test_one_with_messages_of_who_saw_more_is_not_shared(say, sees):
    say(ANA_OF_ALL)
    say(ANA, shared=True)
    assert [sees(each) for each in (ANA_OF_ALL, BOB, BOARD)] == [4, 0, 0]


def test_with_those_who_see_all_any_may_be_shared(say, sees):
    say(ANA)
    say(ANA_OF_ALL, shared=True)
    assert [sees(each) for each in (ANA_OF_ALL, BOB, BOARD)] == [4, 0, 4]


def test_one_from_before_there_were_reaches_is_shared_with_those_who_see_all_alone(say, sees, history):
    say(BOARD)
    history._database.commit(lambda transaction: transaction.run("UPDATE chat_messages SET owner = 'key:ana'"))
    say(ANA, shared=True)
    assert sees(BOB) == 0


def test_what_was_shared_before_there_were_reaches_is_read_by_those_who_see_all_alone(catalog):
    catalog.open_part("chat history", STEPS[:3])

    def keep(transaction):
        for conversation_id, audience in (("team", TEAM), ("all", ALL)):
            values = ("key:ana", conversation_id, 0, "user", "question", 0, "[]", "then", audience)
            transaction.run("INSERT INTO chat_messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    catalog.commit(keep)
    history = ChatHistory(catalog)
    for asker, conversation_id in ((BOB, "team"), (BOB, "all"), (BOARD, "team")):
        with pytest.raises(ConversationNotFoundError):
            history.conversation(conversation_id, asker=asker)
    assert len(history.conversation("all", asker=BOARD).messages) == 1
    assert len(history.conversation("team", asker=ANA_OF_ALL).messages) == 1
    assert history.conversation("team", asker=ANA).messages == ()
