"""Projections are computed once for a revision and a filter, from a sample that is spread over the collection."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from schemas.storage.projection import Colouring
from schemas.where import EVERYTHING, parse_where
from tests.support.live import PATIENCE_SECONDS
from tests.wrapper import documents
from wrapper.querying import projections
from wrapper.querying.projections import Projections

COUNT = 200


class Watched:
    """A catalogue that counts the reads of vectors, and waits with them until it is told to go on."""

    def __init__(self, catalog):
        self._catalog = catalog
        self.reads = 0
        self.reached, self.goes_on = threading.Event(), threading.Event()
        self.goes_on.set()

    @contextmanager
    def read(self):
        with self._catalog.read() as transaction:
            rows = transaction.rows

            def watched(sql, parameters=()):
                if "e.vector" in sql:
                    self.reads += 1
                    self.reached.set()
                    assert self.goes_on.wait(PATIENCE_SECONDS)
                return rows(sql, parameters)

            transaction.rows = watched
            try:
                yield transaction
            finally:
                del transaction.rows


@pytest.fixture
def catalog(empty_catalog):
    """A collection `docs` of 200 documents, `n` from 0 on."""
    documents.create(empty_catalog, "docs")
    add(empty_catalog, range(COUNT))
    return empty_catalog


def add(catalog, numbers):
    ids, metadatas = [f"d{n}" for n in numbers], [{"n": n} for n in numbers]
    documents.add(catalog, "docs", ids, metadatas=metadatas, vectors=documents.normal(len(ids), 6, seed=5))


def ask(maps, where=None, limit=20_000, field="n"):
    return maps.of("docs", EVERYTHING if where is None else parse_where(where), limit=limit, field=field)


def test_two_that_ask_at_once_compute_once(catalog):
    watched = Watched(catalog)
    maps = Projections(watched)
    watched.goes_on.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, maps)
        assert watched.reached.wait(PATIENCE_SECONDS)
        second = pool.submit(ask, maps, limit=10)
        watched.goes_on.set()
        assert len(first.result(PATIENCE_SECONDS).ids) == COUNT
        assert len(second.result(PATIENCE_SECONDS).ids) == 10
    reads = watched.reads
    ask(maps, field=None)
    assert watched.reads == reads == 2


def test_a_write_and_another_filter_are_computed_anew(catalog):
    watched = Watched(catalog)
    maps = Projections(watched)
    seen = []
    for step in (
        lambda: ask(maps),
        lambda: ask(maps, {"n": {"$lt": 50}}),
        lambda: ask(maps, {"n": 1}),
        lambda: ask(maps, {"n": True}),
        lambda: (add(catalog, [COUNT]), ask(maps))[1],
    ):
        before = watched.reads
        seen.append((step().total, watched.reads > before))
    assert seen == [(COUNT, True), (50, True), (1, True), (0, False), (COUNT + 1, True)]


def test_more_documents_than_fit_are_sampled_evenly_and_fewer_points_are_some_of_the_same(catalog, monkeypatch):
    monkeypatch.setattr(projections, "MAX_POINTS", 50)
    monkeypatch.setattr(projections, "AXES_BYTES", 20 * 6 * 4)
    maps = Projections(catalog)
    found, fewer = ask(maps), ask(maps, limit=10)
    assert (found.total, found.ids) == (COUNT, [f"d{n}" for n in range(0, COUNT, 4)])
    assert fewer.ids == [f"d{n}" for n in range(0, COUNT, 20)]
    assert np.array_equal(fewer.places, found.places[::5])
    assert ask(Projections(catalog)).places == pytest.approx(found.places)


def test_places_reach_from_edge_to_edge_of_the_map(catalog):
    places = ask(Projections(catalog)).places
    spans = places.max(axis=0) - places.min(axis=0)
    assert spans.max() == pytest.approx(2)
    assert places.max(axis=0) + places.min(axis=0) == pytest.approx([0, 0], abs=1e-6)


def test_what_is_kept_is_bounded(catalog, monkeypatch):
    monkeypatch.setattr(projections, "KEPT_BYTES", COUNT * 16 + 1)
    watched = Watched(catalog)
    maps = Projections(watched)
    ask(maps)
    ask(maps, {"n": {"$gte": 0}})
    before = watched.reads
    ask(maps)
    assert watched.reads == before + 2


@pytest.mark.parametrize(
    ("values", "scale", "of_points", "categories"),
    [
        ([], None, [], ()),
        ([None, None], None, [None, None], ()),
        ([3, 1.5, None], "numbers", [3, 1.5, None], ()),
        (["b", "a", "b", None], "categories", [0, 1, 0, None], (("b", 2), ("a", 1))),
        ([True, 1, True, "1"], "categories", [0, 1, 0, 2], ((True, 2), (1, 1), ("1", 1))),
    ],
)
def test_values_are_numbers_or_categories(values, scale, of_points, categories):
    colouring = Colouring.of("field", values)
    assert (colouring.scale, colouring.of_points, colouring.categories) == (scale, of_points, categories)


def test_rare_values_are_others():
    colouring = Colouring.of("field", ["common"] * 2 + [f"{n:03}" for n in range(150)])
    assert len(colouring.categories) == 100
    assert colouring.of_points[:2] == [0, 0]
    assert colouring.of_points.count(-1) == 51
