"""A view that is sent along only takes rights away; the table of access, where it has reasons of its own."""

import base64
from dataclasses import replace

import orjson
import pytest

from schemas.access.callers import Caller, Kind, Limits, Scope
from schemas.access.narrowing import narrowed, view_sent
from schemas.access.owners import OPEN
from schemas.access.table import ROUTES
from schemas.errors import InvalidInputError
from schemas.where import all_of, parse_where

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
