"""Who sees what: the rule, its condition of SQL and its filter of notes say the same, and a view that is sent along only
takes rights away."""

import base64
import sqlite3
from dataclasses import replace
from itertools import product

import orjson
import pytest

from retrieval.search.oracles.semantic import AUDIENCE, OWNER, seen_notes
from schemas.access.callers import ANYBODY, SERVICE, Caller, Kind, Limits, Scope
from schemas.access.narrowing import narrowed, view_sent
from schemas.access.owners import EVERYTHING_SEEN, NOBODY, OPEN, Asker, Ownership, check_meant, ownership_of
from schemas.access.table import ROUTES
from schemas.errors import InvalidInputError, OwnedByAnotherError
from schemas.where import EVERYTHING, And, Equals, Exists, Not, Or, all_of, parse_where

OWNERS, AUDIENCES = (OPEN, "ada", "bob"), (NOBODY, "some", EVERYTHING_SEEN)
OWNERSHIPS = [Ownership(*each) for each in product(OWNERS, AUDIENCES)]
ASKERS = [Asker(*each) for each in product(OWNERS, (False, True), ("some", "others", EVERYTHING_SEEN))]


class Rows:
    """A transaction on a table of things, of which each is called after its owner and audience."""

    def __init__(self):
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute("CREATE TABLE things (name, owner, audience)")
        for of in OWNERSHIPS:
            for name in (f"{of.owner}/{of.audience}", "the same"):
                self._connection.execute("INSERT INTO things VALUES (?, ?, ?)", (name, of.owner, of.audience))

    def row(self, sql, parameters=()):
        return self._connection.execute(sql, parameters).fetchone()


def matches(where, metadata):
    match where:
        case Equals(field=field, value=value):
            return metadata.get(field) == value
        case Exists(field=field):
            return field in metadata
        case Not():
            return not matches(where.part, metadata)
        case Or():
            return any(matches(each, metadata) for each in where.parts)
        case And():
            return all(matches(each, metadata) for each in where.parts)
    raise AssertionError(where)


@pytest.mark.parametrize("asker", ASKERS, ids=str)
def test_rule_condition_and_filter_agree(asker):
    rows = Rows()
    for of in OWNERSHIPS:
        found = ownership_of(rows, "things", "name", f"{of.owner}/{of.audience}", asker)
        assert found == (of if asker.sees(of) else None)
        noted = {name: value for name, value in ((OWNER, of.owner), (AUDIENCE, of.audience)) if value}
        assert matches(seen_notes(asker), noted) is asker.sees(of)
        assert not asker.owns(of) or asker.sees(of), "who may change something sees it"


def test_a_shared_thing_reaches_those_of_the_same_reach_and_those_who_see_everything():
    shared = Asker("ada", reach="some").made(shared=True)
    assert Asker("bob", reach="some").sees(shared)
    assert Asker("bob").sees(shared)
    assert not Asker("bob", reach="others").sees(shared)
    assert not Asker("bob", reach="some").sees(Asker("ada").made(shared=True))


def test_one_s_own_comes_first_and_an_owner_can_be_named():
    rows = Rows()
    assert ownership_of(rows, "things", "name", "the same", Asker("bob")).owner == "bob"
    assert ownership_of(rows, "things", "name", "the same", Asker("carol", sees_all=True)).owner == OPEN
    assert ownership_of(rows, "things", "name", "the same", Asker("bob", sees_all=True), "ada").owner == "ada"


def test_an_administrator_changes_what_is_not_theirs_only_by_its_owner_s_name():
    admin, of = Asker("root", sees_all=True), Ownership("ada")
    check_meant(admin, of, "ada", "It")
    with pytest.raises(OwnedByAnotherError, match="names its owner"):
        check_meant(admin, of, None, "It")
    with pytest.raises(OwnedByAnotherError):
        check_meant(Asker("bob"), of, "ada", "It")


def test_what_is_shared_stays_so_unless_it_is_said():
    ada, private = Asker("ada", reach="some"), Ownership("ada")
    shared = ada.shared_anew(private, True)
    assert shared == Ownership("ada", "some")
    assert Asker("ada", reach="others").shared_anew(shared, None) == shared
    assert ada.shared_anew(shared, False) == private
    assert Asker("root", sees_all=True).shared_anew(private, True).owner == "ada"


def test_the_reach_of_callers_is_equal_when_they_see_the_same():
    def reach(collections=None, where=None):
        more = {} if where is None else {"where": parse_where(where)}
        return Caller("x", "x", Kind.KEY, frozenset({Scope.READ}), "key:x", collections, **more).asker.reach

    assert reach() == ANYBODY.asker.reach == EVERYTHING_SEEN
    assert reach(("a*", "b")) == reach(("b", "a*", "b")) != reach(("a*",))
    assert len({reach(), reach(()), reach(None, {"t": 1}), reach(("a*",), {"t": 1}), reach(("a*",))}) == 5
    assert ANYBODY.asker.sees_all
    assert SERVICE.asker.sees_all


def test_in_conversations_callers_who_may_not_read_have_a_reach_of_their_own():
    def asker(*scopes, collections=None, where=EVERYTHING):
        return Caller("x", "x", Kind.KEY, frozenset(scopes), "key:x", collections, where).chat_asker

    mine = ("a*", "b")
    reads, chats = (asker(*scopes, collections=mine) for scopes in ((Scope.WRITE, Scope.CHAT), (Scope.CHAT,)))
    assert (reads.reach, reads.collections) == (asker(Scope.READ, collections=mine).reach, mine)
    assert chats.collections == ()
    assert len({reads.reach, chats.reach, asker(Scope.CHAT).reach, asker(Scope.READ).reach}) == 4
    assert asker(Scope.CHAT, collections=("b", "a*")).reach == chats.reach
    assert (asker(Scope.READ).reach, asker(Scope.READ).collections) == (EVERYTHING_SEEN, ("*",))
    assert asker(Scope.READ, where=parse_where({"t": 1})).collections is None
    assert ANYBODY.chat_asker.sees_all


HERE = "the-service"
KEY = Caller(
    id="aaaaaaaa",
    name="a",
    kind=Kind.KEY,
    scopes=frozenset({Scope.MANAGE, Scope.CHAT, Scope.CONNECT}),
    owner="key:aaaaaaaa",
    collections=("team-a-*", "handbook"),
    limits=Limits(documents=3),
)


def sent(scopes=tuple(Scope), collections=None, where=None, service_id=HERE):
    told = orjson.dumps({"scopes": scopes, "collections": collections, "where": where})
    return f"{service_id} {base64.urlsafe_b64encode(told).decode()}"


def test_whoever_sends_a_view_along_reads_owns_nothing_and_pays_for_themselves():
    within = narrowed(KEY, sent(), HERE)
    assert within.granted == {Scope.READ}
    assert (within.owner, within.account, within.limits) == ("within", KEY.owner, KEY.limits)
    assert (within.id, within.collections) == (KEY.id, KEY.collections)


@pytest.mark.parametrize("collections", [None, ["team-b-*"], ["team-*", "handbook"], []])
@pytest.mark.parametrize(
    "everything",
    [
        replace(KEY, collections=("team-*", "handbook")),
        replace(KEY, collections=None),
        replace(KEY, collections=None, kind=Kind.BOOTSTRAP, scopes=frozenset({Scope.ADMIN}), owner=OPEN),
    ],
    ids=["list", "all", "bootstrap"],
)
def test_nobody_sees_what_others_share_by_a_view_of_their_reach(everything, collections):
    sharing = replace(KEY, owner="key:bbbbbbbb", collections=None if collections is None else tuple(collections))
    of = sharing.asker.made(shared=True)
    assert not narrowed(everything, sent(collections=collections), HERE).asker.sees(of)


def test_what_is_seen_is_what_both_see():
    where = parse_where({"public": True})
    filtered = replace(KEY, scopes=frozenset({Scope.READ}), where=where)
    within = narrowed(filtered, sent(collections=["team-a-1", "team-b-*", "hand*"], where={"n": 1}), HERE)
    assert set(within.collections) == {"team-a-1", "handbook"}
    assert within.where == all_of(where, parse_where({"n": 1}))
    assert narrowed(KEY, sent(scopes=["write"]), HERE).granted == frozenset()


def test_a_view_of_another_service_says_nothing():
    assert narrowed(KEY, sent(service_id="elsewhere"), HERE) is KEY
    assert view_sent(replace(KEY, scopes=frozenset({Scope.ADMIN}), collections=None), HERE) is None
    assert narrowed(KEY, view_sent(KEY, HERE), HERE).collections == KEY.collections


@pytest.mark.parametrize("told", ["", "x", "e30=", base64.b64encode(b"[1]").decode(), sent(scopes=["x"]).split()[1]])
def test_a_view_that_cannot_be_read_is_refused(told):
    with pytest.raises(InvalidInputError) as refused:
        narrowed(KEY, f"{HERE} {told}", HERE)
    assert refused.value.details["field"] == "RAG-Within"


def test_only_who_may_make_connections_is_told_which_variables_are_set():
    telling = [each for each in ROUTES if "/env-vars" in each or each.endswith("/api/connections/validate")]
    assert len(telling) == 4
    assert {ROUTES[each].needs for each in telling} == {Scope.CONNECT}
