"""A caller with a filter lists collections as they are, whatever is deleted or written meanwhile."""

import pytest

from schemas.access.callers import Caller, Kind, Scope, acting_as
from schemas.where import parse_where
from tests.properties.catalogs import open_catalog
from tests.wrapper.documents import add, create, delete
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.names import collection_writes
from wrapper.querying.planner import Planner
from wrapper.scoped_store import ScopedStore
from wrapper.store import Store

READER = Caller("r", "r", Kind.KEY, frozenset({Scope.READ}), where=parse_where({"team": "red"}))


@pytest.fixture
def catalog(tmp_path):
    catalog = open_catalog(tmp_path / "catalog.sqlite")
    yield catalog
    catalog.close()


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
