"""Two services of one catalogue: each keeps its codes current by the feed, so a write to one is found by both at once."""

import numpy as np
import pytest

from tests.support.catalogues import one_database
from tests.wrapper.documents import NoIndex, add, create, delete
from wrapper.catalog.catalog import Catalog
from wrapper.querying.code_files import CodeFiles
from wrapper.querying.costs import CostModel
from wrapper.querying.held_vectors import HeldVectors
from wrapper.querying.planner import Planner

NAME, DIMENSION = "shared", 4
FREE = CostModel(exact_per_document=1.0, memory_base=0.0, reading_per_document=1e-9, reading_per_component=0.0)


class Service:
    def __init__(self, database, folder):
        self.catalog = Catalog(database)
        self.catalog.open()
        held = HeldVectors(1_000_000, self.catalog, CodeFiles(folder, 1_000_000))
        self._planner = Planner(self.catalog, NoIndex(), FREE, held)

    def add(self, ids, value):
        add(self.catalog, NAME, ids, vectors=np.full((len(ids), DIMENSION), value))

    def nearest(self, value):
        found = self._planner.query(NAME, np.full(DIMENSION, value, dtype="<f4"), top_k=1)
        assert found.plan == "memory"
        return found.matches[0].document.id


@pytest.fixture(params=["sqlite", "postgresql"])
def services(request, tmp_path):
    with one_database(request) as open_one:
        services = [Service(open_one(), tmp_path / name) for name in ("one", "two")]
        create(services[0].catalog, NAME, metric="l2")
        services[0].add([f"d{n}" for n in range(50)], 100.0)
        yield services
        for service in services:
            service.catalog.close()


def test_a_write_to_one_service_is_found_by_the_other_at_once(services):
    for turn in range(6):
        writer, other = services[turn % 2], services[(turn + 1) % 2]
        writer.add([f"new{turn}"], turn)
        assert other.nearest(turn) == f"new{turn}"
        assert writer.nearest(turn) == f"new{turn}"
        delete(writer.catalog, NAME, f"new{turn}")
        assert other.nearest(turn) != f"new{turn}"
