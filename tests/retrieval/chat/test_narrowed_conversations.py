"""A message is told only to who sees by now all that its owner saw when it was made: to its owner no less, and a shared
conversation says nothing of collections that those do not see with whom it is shared."""

from datetime import UTC, datetime, timedelta

import pytest

from retrieval.chat.history import STEPS, ChatHistory, ConversationNotFoundError
from schemas.access.callers import ANYBODY, Caller, Kind, Scope
from schemas.access.owners import EVERYTHING_SEEN, Asker


@pytest.fixture
def history(catalog):
    return ChatHistory(catalog)


@pytest.fixture
def told(history):
    """`told(asker)`: the contents of their own conversation as they are shown; the model is told the same."""

    def told(asker):
        shown = [each.content for each in history.conversation("c", asker=asker).messages]
        assert [each.content for each in history.messages("c", asker=asker)] == shown
        return shown

    return told


@pytest.fixture
def say(history):
    def say(asker, said="question", *, shared=None):
        history.add_turn(
            "c", said, "answer", asker=asker, shared=shared, rag_used=False, rag_sources=(), since=history.erasures()
        )

    return say


def with_rights(collections, *scopes):
    scopes = scopes or (Scope.READ, Scope.CHAT)
    return Caller("ana", "ana", Kind.KEY, frozenset(scopes), "key:ana", collections).chat_asker


@pytest.mark.parametrize(
    ("then", "now", "is_told"),
    [
        (("a-*",), ("a-*",), True),
        (("a-*", "b"), ("b", "a-*"), True),
        (("a-*",), ("a-*", "z-*"), True),
        (("a-1", "a-b-*"), ("a-*",), True),
        (("a-*",), None, True),
        (None, None, True),
        (("a-*",), ("z-*",), False),
        (("a-*",), ("a-b-*",), False),
        (("a-*", "b"), ("a-*",), False),
        (("a-*",), (), False),
        (None, ("a-*",), False),
    ],
)
def test_messages_are_told_who_has_kept_their_collections(say, told, then, now, is_told):
    say(with_rights(then))
    assert told(with_rights(now)) == (["question", "answer"] if is_told else [])


def test_so_are_they_who_may_still_read(say, told):
    for then, now, is_told in (
        ((Scope.READ, Scope.CHAT), (Scope.CHAT,), False),
        ((Scope.CHAT,), (Scope.MANAGE, Scope.CHAT), True),
        ((Scope.CHAT,), (Scope.CHAT,), True),
    ):
        for collections in (None, ("a-*",)):
            said = str((then, now, collections))
            say(with_rights(collections, *then), said)
            assert (said in told(with_rights(collections, *now))) is is_told, said
    # To a key that may not read, whatever its collections are.
    said = str(Scope.CHAT)
    say(with_rights(("a-*",), Scope.CHAT), said)
    assert said in told(with_rights(("z-*",), Scope.CHAT))


def test_only_what_is_out_of_sight_is_left_out_and_it_comes_back(say, told):
    both, one = with_rights(("a-*", "z-*")), with_rights(("z-*",))
    say(both, "of both")
    say(one, "of one")
    assert told(one) == ["of one", "answer"]
    assert told(both) == ["of both", "answer", "of one", "answer"]


def test_a_conversation_of_which_nothing_is_left_is_deleted(say, history):
    wide, narrow = with_rights(("a-*",)), with_rights(("z-*",))
    say(wide)
    history.delete("c", asker=narrow)
    for asker in (wide, narrow):
        with pytest.raises(ConversationNotFoundError):
            history.conversation("c", asker=asker)


def test_an_administrator_is_told_all(say, history):
    say(with_rights(("a-*",)))
    assert len(history.conversation("c", asker=Asker("key:admin", sees_all=True)).messages) == 2
    assert len(history.conversation("c", asker=ANYBODY.chat_asker).messages) == 2


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_keys_that_may_not_read_share_with_each_other_alone(say, sees, history):
    def other(collections, *scopes):
        return Caller("bob", "bob", Kind.KEY, frozenset(scopes), "key:bob", collections).chat_asker

    mine = ("a-*",)
    reading, chatting, of_others, of_all = (
        other(mine, Scope.READ, Scope.CHAT),
        other(mine, Scope.CHAT),
        other(("z-*",), Scope.CHAT),
        other(None, Scope.READ, Scope.CHAT),
    )
    askers = (reading, chatting, of_others, of_all, other(None, Scope.CHAT))
    say(with_rights(mine), shared=True)
    assert [sees(each, of_owner="key:ana") for each in askers] == [2, 0, 0, 2, 0]
    history.delete("c", asker=with_rights(mine))
    say(with_rights(mine, Scope.CHAT), shared=True)
    assert [sees(each, of_owner="key:ana") for each in askers] == [0, 2, 0, 2, 0]


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_of_messages_whose_collections_were_not_kept_the_reach_decides(catalog):
    catalog.open_part("chat history", STEPS[:5])
    mine = with_rights(("a-*",))

    def keep(transaction):
        for number, reach in enumerate((mine.reach, "*")):
            values = (mine.owner, "c", number, "user", f"of {reach}", 0, "[]", "then", "", reach)
            transaction.run("INSERT INTO chat_messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    catalog.commit(keep)
    history = ChatHistory(catalog)
    for asker, expected in ((mine, 1), (with_rights(None), 2), (with_rights(("*",)), 0), (with_rights(("z-*",)), 0)):
        assert len(history.messages("c", asker=asker)) == expected


TEAM, ALL = "team", EVERYTHING_SEEN
ANA = Asker("key:ana", reach=TEAM)
ANA_OF_ALL = Asker("key:ana", reach=ALL)
BOB, BOARD = Asker("key:bob", reach=TEAM), Asker("key:board", reach=ALL)


@pytest.fixture
def sees(history):
    def sees(asker, **of):
        try:
            return len(history.conversation("c", asker=asker, **of).messages)
        except ConversationNotFoundError:
            return 0

    return sees


@pytest.mark.parametrize(
    ("turns", "by_bob", "by_the_board"),
    [
        pytest.param([(ANA, True), (ANA, None)], 4, 4, id="by those who see the same"),
        pytest.param([(ANA, True), (ANA_OF_ALL, None)], 0, 0, id="not with a message of who sees more by now"),
        pytest.param([(ANA, True), (ANA_OF_ALL, True)], 0, 0, id="nor with one that is shared anew"),
        pytest.param([(ANA_OF_ALL, None), (ANA, True)], 0, 0, id="nor with messages of who saw more"),
        pytest.param([(ANA, None), (ANA_OF_ALL, True)], 0, 4, id="any by those who see all"),
    ],
)
def test_a_shared_conversation_is_seen(say, sees, turns, by_bob, by_the_board):
    for asker, shared in turns:
        say(asker, shared=shared)
    assert [sees(each) for each in (ANA_OF_ALL, BOB, BOARD)] == [4, by_bob, by_the_board]


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


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_a_conversation_ends_some_days_after_its_last_message(catalog):
    now = datetime(2026, 9, 1, tzinfo=UTC)
    history = ChatHistory(catalog, lambda: now)

    def say(conversation_id, days):
        nonlocal now
        now += timedelta(days=days)
        turn = {"shared": None, "rag_used": False, "rag_sources": (), "since": history.erasures()}
        history.add_turn(conversation_id, "question", "answer", asker=Asker("ana"), **turn)

    say("old", 0)
    say("goes on", 0)
    say("goes on", 60)
    now += timedelta(days=31)
    history.forget_older(90)
    kept = [len(history.messages(each, asker=Asker("ana"))) for each in ("old", "goes on")]
    assert kept == [0, 4]
