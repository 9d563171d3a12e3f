"""Renames, copies and aliases open nothing to a key that it may not reach by name, and a caller with a filter lists
collections as they are, whatever is deleted or written meanwhile."""

import uuid

import numpy as np
import pytest

from schemas.access.callers import ANYBODY, Caller, Kind, Limits, Scope, acting_as
from schemas.errors import (
    AliasNotFoundError,
    CollectionForbiddenError,
    CollectionNotFoundError,
    DatabaseNotFoundError,
    QuotaError,
)
from schemas.where import parse_where
from tests.wrapper.documents import add, batch, create, delete
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.names import collection_writes
from wrapper.querying.planner import Planner
from wrapper.scoped_store import ScopedStore
from wrapper.store import Store
from wrapper.writing import AS_IT_COMES


def caller(*collections, where=None, **limits):
    return Caller(
        "k1",
        "narrow",
        Kind.KEY,
        frozenset({Scope.MANAGE}),
        owner="key:k1",
        collections=tuple(collections),
        where=parse_where(where),
        limits=Limits(**limits),
    )


@pytest.fixture
def store(app):
    return app.extensions["rag.service"].callers_store


@pytest.fixture
def prefix():
    return f"p{uuid.uuid4().hex[:10]}"


@pytest.fixture
def filled(store, prefix):
    """`filled(name)` makes a collection with two documents; its name gets the test's prefix."""

    def fill(name):
        with acting_as(ANYBODY):
            store.create_collection(f"{prefix}-{name}", {}, "cosine")
            store.add_documents(f"{prefix}-{name}", batch(["a", "b"], metadatas=[{"n": 1}, {"n": 2}]))
        return f"{prefix}-{name}"

    return fill


@pytest.fixture
def alias(store, prefix):
    """`alias(name, collection)` lets an alias stand for a collection; its name gets the test's prefix."""

    def put(name, collection):
        with acting_as(ANYBODY):
            store.names.put_alias(f"{prefix}-{name}", collection, AS_IT_COMES)
        return f"{prefix}-{name}"

    return put


def test_a_key_for_an_alias_reaches_what_it_stands_for_by_no_other_name(store, filled, alias):
    real = filled("real")
    current = alias("current", real)
    with acting_as(caller(current)):
        found = store.collection(current)
        assert (found.name, found.count) == (current, 2)
        assert [each.name for each in store.collections_named([current, real])] == [current]
        assert store.query(current, np.array([1, 0], dtype="f4"), top_k=1).collection.name == current
        assert store.add_documents(current, batch(["c"])).outcome.created
        assert [each.name for each in store.names.aliases()] == [current]
        with pytest.raises(CollectionNotFoundError):
            store.collection(real)
        assert store.collections() == []


def test_filters_and_quotas_hold_under_an_alias_too(store, filled, alias):
    current = alias("current", filled("real"))
    with acting_as(caller(current, where={"n": 1})):
        assert store.collection(current).count == 1
        assert [each.id for each in store.documents(current, ["a", "b"])[0]] == ["a"]
    with acting_as(caller(current, documents=2)), pytest.raises(QuotaError):
        store.add_documents(current, batch(["c"]))


@pytest.mark.parametrize("act", ["rename", "copy", "put_alias"])
def test_both_names_have_to_be_the_callers(store, filled, prefix, act):
    mine, theirs = filled("mine"), filled("theirs")
    with acting_as(caller(f"{prefix}-mine*")):

        def name(collection, new):
            if act == "put_alias":
                return store.names.put_alias(new, collection, AS_IT_COMES)
            return getattr(store.names, act)(collection, new, AS_IT_COMES)

        with pytest.raises(CollectionForbiddenError):
            name(mine, f"{prefix}-elsewhere")
        with pytest.raises(CollectionNotFoundError):
            name(theirs, f"{prefix}-mine-now")
        name(mine, f"{prefix}-mine-2")
    with acting_as(ANYBODY):
        assert store.collection(theirs).count == 2


def test_an_alias_of_others_is_not_there(store, filled, alias, prefix):
    theirs = alias("theirs", filled("real"))
    with acting_as(caller(f"{prefix}-mine*")):
        for act in (store.names.alias, lambda name: store.names.remove_alias(name, AS_IT_COMES)):
            with pytest.raises(AliasNotFoundError):
                act(theirs)
        assert store.names.aliases() == []
    with acting_as(ANYBODY):
        assert store.names.alias(theirs).collection == f"{prefix}-real"


@pytest.mark.parametrize("act", ["rename", "copy", "put_alias"])
def test_a_caller_with_a_filter_names_nothing_and_what_is_kept_apart_keeps_its_name(store, filled, prefix, act):
    """Callers see of what is kept apart what is theirs, by its name: under another one they would see everything."""
    mine, apart = filled("mine"), filled("apart")
    store.reach.keep_apart(apart, lambda of: parse_where({"owner": of.owner}))
    for who, name in ((caller(f"{prefix}*", where={"n": 1}), mine), (ANYBODY, apart)):
        names = (f"{prefix}-new", name) if act == "put_alias" else (name, f"{prefix}-new")
        with acting_as(who), pytest.raises(CollectionForbiddenError):
            getattr(store.names, act)(*names, AS_IT_COMES)


def test_a_copy_is_held_to_the_quota(store, filled, prefix):
    mine = filled("mine")
    with acting_as(caller(f"{prefix}*", documents=3)), pytest.raises(QuotaError):
        store.names.copy(mine, f"{prefix}-copy", AS_IT_COMES)
    with acting_as(caller(f"{prefix}*", documents=4)):
        assert store.names.copy(mine, f"{prefix}-copy", AS_IT_COMES).outcome.created == 2


def test_a_sweep_of_old_copies_leaves_collections_of_a_tenant_called_so(app, store, prefix):
    """Names of copies under way begin with `/copying/`, and with the time at which they began."""
    with acting_as(ANYBODY):
        store.namespaces.create_tenant("copying")
        for database in ("100-years", prefix):
            store.namespaces.create_database("copying", database)
            store.in_database("copying", database).create_collection(prefix, {}, "cosine")
        assert app.extensions["rag.service"].store.copying.sweep() is False
        for database in ("100-years", prefix):
            assert store.in_database("copying", database).collection(prefix).name == prefix


@pytest.mark.parametrize("act", ["create", "copy", "rename"])
def test_nothing_gets_a_name_in_a_database_that_is_deleted_meanwhile(store, prefix, act):
    with acting_as(ANYBODY):
        store.namespaces.create_database("default_tenant", prefix)
        within = store.in_database("default_tenant", prefix)
        store.namespaces.delete_database("default_tenant", prefix)
        store.create_collection(prefix, {}, "cosine")
        acts = {
            "create": lambda: within.create_collection(prefix, {}, "cosine"),
            "copy": lambda: store.names.copy(prefix, within.reach.full(prefix), AS_IT_COMES),
            "rename": lambda: store.names.rename(prefix, within.reach.full(prefix), AS_IT_COMES),
        }
        with pytest.raises(DatabaseNotFoundError):
            acts[act]()
        assert store.collection(prefix).name == prefix


READER = Caller("r", "r", Kind.KEY, frozenset({Scope.READ}), where=parse_where({"team": "red"}))


class DeletedMeanwhile(Store):
    """A store of which the first collection is deleted as soon as all were listed."""

    def collections(self, within=None, prefix=""):
        found = super().collections(within, prefix)
        self._catalog.commit(lambda transaction: collection_writes.delete_collection(transaction, found[0].name))
        return found


def test_a_collection_that_is_deleted_while_it_is_listed_is_left_out(catalog):
    create(catalog, "a", "b")
    store = ScopedStore(DeletedMeanwhile(catalog, Planner(catalog, None), None, None, HeldDocuments()))
    with acting_as(READER):
        assert [each.name for each in store.collections()] == ["b"]


def test_counts_are_those_of_the_revision_and_of_the_filter(catalog):
    create(catalog, "a")
    store = ScopedStore(Store(catalog, Planner(catalog, None), None, None, HeldDocuments()))
    numbers = Caller("n", "n", Kind.KEY, frozenset({Scope.READ}), where=parse_where({"team": 1}))
    truths = Caller("t", "t", Kind.KEY, frozenset({Scope.READ}), where=parse_where({"team": True}))

    def counted(caller):
        with acting_as(caller):
            return [store.collection("a").count for _ in range(2)]

    assert counted(READER) == [0, 0]
    teams = ["red", "red", "blue", 1, True, True, True]
    ids = [f"{team}-{number}" for number, team in enumerate(teams)]
    add(catalog, "a", ids, metadatas=[{"team": team} for team in teams])
    assert (counted(READER), counted(numbers), counted(truths)) == ([2, 2], [1, 1], [3, 3])
    delete(catalog, "a", "red-0")
    assert counted(READER) == [1, 1]
