"""The feed of changes against a model: whoever follows, from any point and in parts of any size, has the collection."""

import gc
import inspect
import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from schemas.errors import CollectionNotFoundError, ConflictError, TooOldError
from schemas.records import Since
from schemas.storage.reembedding import ReembeddingNotFoundError
from schemas.where import parse_where
from tests.wrapper.catalog.conftest import SQLITE
from tests.wrapper.clock import Clock
from tests.wrapper.documents import batch as documents
from tests.wrapper.stores.reembedded import NEW, NEWER, Crash, Mortal, embedded, reembeddings
from wrapper.catalog import document_changes, writes
from wrapper.catalog.changes import tombstones
from wrapper.catalog.changes.tombstones import SECONDS_OF_DAY, TombstoneSweeper
from wrapper.catalog.names import collection_writes, renaming
from wrapper.catalog.rows import named
from wrapper.stores.following import Following

NAME = "followed"
IDS = [*"abcdef", "ä" * 300, "a\0b"]


def batch(ids, mark):
    texts = [f"text {mark} of {each}" for each in ids]
    metadatas = [{"mark": mark, "odd": index % 2} for index, _ in enumerate(ids)]
    return documents(ids, texts, metadatas, [[mark, index, 1.0] for index, _ in enumerate(ids)])


def some_ids():
    return st.lists(st.sampled_from(IDS), min_size=1, max_size=6, unique=True)


ADD = st.tuples(st.just("add"), some_ids(), st.integers(0, 3))
REPLACE = st.tuples(st.just("replace"), some_ids(), st.integers(0, 3))
DELETE = st.tuples(st.just("delete"), some_ids())
DELETE_WHERE = st.tuples(st.just("delete where"), st.integers(0, 3))
PATCH = st.tuples(st.just("patch"), st.integers(0, 3), st.integers(4, 5))
OTHER = st.sampled_from([("empty",), ("anew",), ("describe",), ("sweep",)])
FOLLOW = st.tuples(st.just("follow"), st.integers(0, 2), st.integers(1, 5))
WRITE = st.one_of(ADD, ADD, REPLACE, DELETE, DELETE_WHERE, PATCH, OTHER)
STEPS = st.lists(st.one_of(WRITE, FOLLOW), max_size=25)
PART = st.just(("part",))
BESIDE = st.lists(st.one_of(WRITE, PART, PART, FOLLOW), max_size=12)
SWITCH = st.sampled_from([("reembed", NEW), ("reembed", NEWER), ("go back",), ("drop",)])
AFTER = st.lists(st.one_of(WRITE, SWITCH, PART, FOLLOW), max_size=12)
TO_THE_SWITCH = [("part",)] * 6
MANAGES_WITHOUT = {
    "reembed": ConflictError,
    "go back": (ConflictError, ReembeddingNotFoundError),
    "drop": ReembeddingNotFoundError,
}
"""What steps of a re-embedding are refused with where there is nothing that they could do."""


class Follower:
    """Keeps a copy of the collection as the documentation of the feed says."""

    def __init__(self, following):
        self._following = following
        self.since = Since()
        self.copy = {}
        self.began = 0

    def read(self, limit):
        """Take a part. Return whether there is more."""
        try:
            with self._following.changes(NAME, self.since, limit, with_embeddings=True) as changes:
                told = list(changes)
        except TooOldError:
            self.since, self.copy = Since(), {}
            self.began += 1
            return True
        assert [each.revision for each in told] == sorted(each.revision for each in told)
        assert len({each.id for each in told}) == len(told), "a document came twice in one part"
        for change in told:
            if change.document is None:
                self.copy.pop(change.id, None)
            else:
                assert change.document.id == change.id
                self.copy[change.id] = content(change.document)
        as_of = changes.base if changes.come_to < changes.base else None
        self.since = Since(changes.come_to, as_of, changes.history)
        return changes.is_more


def content(document):
    return document.text, document.metadata, document.embedding.tobytes()


def stored(catalog):
    with catalog.read() as transaction:
        rows = transaction.rows(
            "SELECT d.id, d.text, d.metadata, e.vector FROM documents d JOIN embeddings e ON e.position = d.position "
            "JOIN collections c ON c.key = d.collection_key WHERE c.name = ?",
            (NAME,),
        )
        collection = named(transaction, NAME)
    assert collection.count == len(rows)
    return {row[0]: (row[1], json.loads(row[2]), bytes(row[3])) for row in rows}


class Writer:
    """Does the steps; each is a write of its own. Before or behind the commits `dies_at` its process dies, and another
    takes its place."""

    def __init__(self, catalog, dies_at=()):
        self._catalog = Mortal(catalog)
        self._reembeddings = reembeddings(self._catalog)
        self.create()
        self._catalog.die_at(dies_at)

    def create(self):
        self._commit(collection_writes.create_collection, {}, "l2")

    def do(self, kind, *asked):
        try:
            self._do(kind, *asked)
        except Crash:
            self._reembeddings = reembeddings(self._catalog)
            with self._catalog.read() as transaction:
                is_gone = named(transaction, NAME) is None
            if is_gone:  # it died between the two commits of "anew"
                self._catalog.die_at(())
                self.create()

    def _do(self, kind, *asked):
        if kind == "add":
            self._commit(writes.add_documents, batch(*asked))
        elif kind == "replace":
            ids, mark = asked
            where = parse_where({"mark": mark})
            self._commit(writes.add_documents, batch(ids, mark), replace_where=where)
        elif kind == "delete":
            self._commit(writes.delete_documents, ids=asked[0])
        elif kind == "delete where":
            self._commit(writes.delete_documents, where=parse_where({"mark": asked[0]}))
        elif kind == "patch":
            before, after = asked
            patching = document_changes.patching_metadata(NAME, {"mark": after}, where=parse_where({"mark": before}))
            self._catalog.commit(patching.store)
        elif kind == "empty":
            self._commit(collection_writes.empty_collection)
        elif kind == "describe":
            self._commit(collection_writes.change_collection_metadata, lambda before: {**before, "x": 1})
        elif kind in MANAGES_WITHOUT:
            step = {
                "reembed": self._reembeddings.begin,
                "go back": self._reembeddings.go_back,
                "drop": self._reembeddings.end,
            }
            with suppress(MANAGES_WITHOUT[kind]):
                step[kind](NAME, *asked)
        elif kind == "part":
            for name in self._reembeddings.under_way():
                part = self._reembeddings.next_part(name, limit=4)
                vectors = [embedded(each.text) for each in part.documents]
                self._reembeddings.store(part, np.stack(vectors) if vectors else None)
        elif kind == "anew":
            self._commit(collection_writes.delete_collection)
            self.create()
        else:
            sweeper = TombstoneSweeper(self._catalog, 1, lambda: 1e12)  # long after everything that a test deletes
            while sweeper.step():
                pass

    def _commit(self, write, *arguments, **options):
        self._catalog.commit(lambda transaction: write(transaction, NAME, *arguments, **options))


DELETED_WHILE_A_COPY_IS_BEGUN = [
    ("add", [*"abc"], 1),
    ("add", [*"de"], 1),
    ("follow", 0, 1),
    ("delete", ["a"]),
    ("sweep",),
    ("delete", ["b"]),
]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(steps=DELETED_WHILE_A_COPY_IS_BEGUN, dies_at=set())
@given(steps=STEPS, dies_at=st.sets(st.integers(0, 40), max_size=4))
def test_followers_have_the_collection_whatever_is_done_to_it(catalog, steps, dies_at):
    check_followers(catalog, steps, dies_at)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=STEPS, beside=BESIDE, after=AFTER, dies_at=st.sets(st.integers(0, 60), max_size=4))
def test_followers_have_the_collection_whatever_vectors_it_gets(catalog, before, beside, after, dies_at):
    check_followers(catalog, [*before, ("reembed", NEW), *beside, *TO_THE_SWITCH, *after], dies_at)


def check_followers(catalog, steps, dies_at):
    writer, following = Writer(catalog, dies_at), Following(catalog)
    try:
        followers = [Follower(following) for _ in range(3)]
        for kind, *asked in steps:
            if kind == "follow":
                which, limit = asked
                followers[which].read(limit)
            else:
                writer.do(kind, *asked)
        for limit, follower in enumerate([*followers, Follower(following)], start=1):
            while follower.read(limit):
                pass
            assert follower.copy == stored(catalog)
    finally:
        catalog.commit(lambda transaction: collection_writes.delete_collection(transaction, NAME))


@pytest.fixture
def writer(catalog):
    return Writer(catalog)


@pytest.fixture
def follower(catalog):
    return Follower(Following(catalog))


@SQLITE
def test_who_does_not_take_all_leaves_nothing_open(catalog, writer):
    for each in IDS:
        writer.do("add", [each], 1)
    writer.do("delete", ["a", "b"])
    with Following(catalog).changes(NAME, Since(1), 1, with_embeddings=True) as changes:
        assert next(iter(changes)).id == "c"
        sources = [each for each in gc.get_objects() if inspect.isgenerator(each) and each.gi_code.co_name == "blocks"]
        assert {inspect.getgeneratorstate(each) for each in sources} == {inspect.GEN_SUSPENDED}
    assert {inspect.getgeneratorstate(each) for each in sources} == {inspect.GEN_CLOSED}


@SQLITE
def test_who_was_away_for_longer_than_tombstones_are_kept_has_to_begin_anew(catalog, writer, follower):
    writer.do("add", "abc", 1)
    follower.read(100)
    writer.do("delete", ["a"])
    clock = Clock()
    sweeper = TombstoneSweeper(catalog, 30, clock)
    with catalog.read() as transaction:
        deleted_at = transaction.value("SELECT max(deleted_at_seconds) FROM tombstones")
    clock.now = deleted_at + 29 * SECONDS_OF_DAY
    assert not sweeper.step()
    clock.now = deleted_at + 31 * SECONDS_OF_DAY
    assert sweeper.step()
    follower.read(100)
    assert follower.began == 1
    follower.read(100)
    assert follower.copy == stored(catalog)


@SQLITE
def test_too_old_names_the_oldest_revision_that_can_be_followed_from(catalog, writer, follower):
    writer.do("add", "abc", 1)
    writer.do("delete", ["a"])
    writer.do("sweep")
    following = Following(catalog)
    with pytest.raises(TooOldError) as raised, following.changes(NAME, Since(2), 10, with_embeddings=False):
        pass
    assert raised.value.details == {"field": "since", "oldest": 3}
    with following.changes(NAME, Since(3), 10, with_embeddings=False) as changes:
        assert not list(changes)


@SQLITE
def test_renamed_collections_are_followed_by_their_new_names(catalog, writer, follower):
    writer.do("add", "abc", 1)
    follower.read(100)
    catalog.commit(lambda transaction: renaming.rename(transaction, NAME, "another"))
    with pytest.raises(CollectionNotFoundError):
        follower.read(100)
    with Following(catalog).changes("another", follower.since, 10, with_embeddings=False) as changes:
        assert not list(changes)


@SQLITE
def test_after_an_erasure_all_begin_anew_and_no_id_is_kept(catalog, writer, follower):
    writer.do("add", "abc", 1)
    follower.read(100)

    def erase(transaction):
        writes.delete_documents(transaction, NAME, ids=["a"])
        tombstones.erase(transaction, named(transaction, NAME).key)

    catalog.commit(erase)
    with catalog.read() as transaction:
        assert transaction.rows("SELECT id FROM tombstones") == []
    follower.read(100)
    assert follower.began == 1
    follower.read(100)
    assert follower.copy == stored(catalog)
