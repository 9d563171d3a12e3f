"""A question whose vector is not finite is nowhere, and is refused whatever would answer it."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.errors import InvalidInputError
from schemas.records import DocumentBatch
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.names import collection_writes
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.querying.planner import Planner


@pytest.fixture
def catalog(tmp_path):
    """A collection of one document for each metric."""
    catalog = Catalog(SQLiteDatabase(tmp_path / "catalog.sqlite"))
    catalog.open()

    def fill(transaction):
        for metric in ("cosine", "l2", "ip"):
            collection_writes.create_collection(transaction, metric, {}, metric)
            batch = DocumentBatch(["a"], [""], [{}], np.ones((1, 2), "<f4"))
            writes.add_documents(transaction, metric, batch)

    catalog.commit(fill)
    yield catalog
    catalog.close()


class NoIndex:
    def is_ready(self):
        return False


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("component", [np.nan, np.inf, -np.inf])
def test_it_is_refused(catalog, metric, component):
    with pytest.raises(InvalidInputError, match="element 1 is not") as raised:
        Planner(catalog, NoIndex()).query(metric, np.array([1.0, component], "<f4"), top_k=1)
    assert (raised.value.code, raised.value.details["field"]) == ("invalid_embedding", "query_embedding")
