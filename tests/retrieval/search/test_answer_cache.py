"""For whom an answer is kept: two caches over one database, as two workers have them."""

from dataclasses import replace

import pytest

from retrieval.search.answer_cache import AnswerCache
from retrieval.search.corpus import Chosen
from schemas.access.callers import ANYBODY, SERVICE, Caller, Kind, Scope, acting_as
from schemas.connections import CollectionInfo
from schemas.contracts.search import FusedResult, Provenance
from schemas.records import Document
from schemas.where import parse_where

ASKED = ["When does the door open?", "a-model"]
DOCS = [CollectionInfo("docs", 1, {}, "cosine", 2, id="id-of-a-collection", revision=7)]
ADA = Caller("aaaaaaaa", "ada", Kind.KEY, frozenset({Scope.READ}), "key:aaaaaaaa", collections=("docs*",))
OTHERS = {
    "another owner": replace(ADA, owner="key:bbbbbbbb"),
    "other collections": replace(ADA, collections=("docs*", "more")),
    "all collections": replace(ADA, collections=None),
    "a filter": replace(ADA, where=parse_where({"public": 1})),
    "an administrator": replace(ADA, scopes=frozenset({Scope.ADMIN}), collections=None),
}


class Shelf:
    """A corpus whose collections hold whatever is asked for."""

    def able(self, ability):
        return self

    def documents_by_id(self, name, ids):
        return [Document(each, "text", "{}", 1) for each in ids]


CHOSEN = Chosen(Shelf(), (*DOCS,), None)


class Cache:
    """A worker's cache, asked about one collection."""

    def __init__(self, catalog):
        self._cache = AnswerCache(catalog, ttl_seconds=300.0)
        self.clear = self._cache.clear

    def find(self, asked):
        found, began_at = self._cache.find(asked, CHOSEN)
        return found and found.results, began_at

    def keep(self, asked, results, *, since):
        return self._cache.keep(asked, CHOSEN, results, since=since).results


@pytest.fixture
def caches(catalogs):
    return [Cache(catalogs()) for _ in range(2)]


def answer(word):
    chunk = f"chunk-{word}"
    return [
        FusedResult(chunk, "docs", chunk, "text", 0.5, 0.1, ("semantic",), {"semantic": Provenance(1, 0.5)}, {}, 0.7)
    ]


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
