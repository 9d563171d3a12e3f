"""For whom an answer is kept: two caches over one database, as two workers have them."""

from dataclasses import replace

import pytest

from retrieval.result_cache import KeptAnswer, ResultCache
from schemas.access.callers import ANYBODY, SERVICE, Caller, Kind, Scope, acting_as
from schemas.where import parse_where

ASKED = ["When does the door open?", [["id-of-a-collection", 7]], "a-model"]
ADA = Caller("aaaaaaaa", "ada", Kind.KEY, frozenset({Scope.READ}), "key:aaaaaaaa", collections=("docs*",))
OTHERS = {
    "another owner": replace(ADA, owner="key:bbbbbbbb"),
    "other collections": replace(ADA, collections=("docs*", "more")),
    "all collections": replace(ADA, collections=None),
    "a filter": replace(ADA, where=parse_where({"public": 1})),
    "an administrator": replace(ADA, scopes=frozenset({Scope.ADMIN}), collections=None),
}


@pytest.fixture
def caches(catalogs):
    return [ResultCache(catalogs(), ttl_seconds=300.0) for _ in range(2)]


def answer(word):
    return KeptAnswer((("docs", f"chunk-{word}", 0.5, None),), {"context_id": word})


def test_an_answer_is_found_by_the_same_caller_at_each_worker_and_by_all_administrators(caches):
    one, two = caches
    with acting_as(ADA):
        assert one.find(ASKED)[0] is None
        assert one.keep(ASKED, answer("first"), since=0) == answer("first")
    with acting_as(replace(ADA, id="cccccccc", name="ada's next key")):
        assert two.find(ASKED)[0] == two.keep(ASKED, answer("second"), since=0) == answer("first")
    one, two = caches
    with acting_as(ANYBODY):
        one.keep(ASKED, answer("shared"), since=0)
    for caller in (OTHERS["an administrator"], SERVICE):
        with acting_as(caller):
            assert two.find(ASKED)[0] == answer("shared")


@pytest.mark.parametrize("other", OTHERS)
def test_an_answer_is_not_found_by_who_sees_something_else(caches, other):
    """Nor by who has a filter that is equal in Python alone: for one instead of for true."""
    one, two = caches
    with acting_as(replace(ADA, where=parse_where({"public": True}))):
        one.keep(ASKED, answer("true"), since=0)
    with acting_as(ADA):
        one.keep(ASKED, answer("ada's"), since=0)
    with acting_as(OTHERS[other]):
        for cache in caches:
            assert cache.find(ASKED)[0] is None
        assert two.keep(ASKED, answer("own"), since=0) == one.find(ASKED)[0] == answer("own")
    with acting_as(ADA):
        assert two.find(ASKED)[0] == answer("ada's")


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_an_answer_that_was_being_made_when_all_were_forgotten_is_not_kept(caches):
    one, two = caches
    with acting_as(ADA):
        _, began_at = one.find(ASKED)
        two.clear()
        assert one.keep(ASKED, answer("late"), since=began_at) == answer("late")
        assert two.find(ASKED)[0] is None
        assert two.keep(ASKED, answer("new"), since=two.find(ASKED)[1]) == one.find(ASKED)[0] == answer("new")
