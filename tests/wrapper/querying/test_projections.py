"""Projections are computed once for a revision and a filter, from a sample that is spread over the collection; their axes are
the two directions in which vectors differ most, compared with NumPy's singular values."""

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
from wrapper.querying.principal_axes import principal_axes
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


def _cloud(count, dimension, seed=3):
    """Vectors that spread most along the first component, then along the second."""
    return np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32) * np.geomspace(
        8, 0.1, dimension, dtype=np.float32
    )


@pytest.mark.parametrize(("count", "dimension"), [(500, 12), (12, 500), (40, 40), (3, 2), (2, 9)])
def test_axes_are_the_first_right_singular_vectors(count, dimension):
    vectors = _cloud(count, dimension)
    axes = principal_axes(vectors)
    _, singular, rows = np.linalg.svd((vectors - vectors.mean(axis=0)).astype(np.float64), full_matrices=False)
    variances = singular**2 / (singular**2).sum()
    assert axes.explained == pytest.approx(variances[:2], abs=1e-5)
    for number in range(2):
        if variances[number] > 1e-9:
            expected = rows[number] * np.sign(rows[number][np.abs(rows[number]).argmax()])
            assert axes.axes[:, number] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    "vectors",
    [np.full((5, 4), 0.1), np.full((1000, 3), 1e-38), np.full((7, 2), -3e38), np.ones((1, 1))],
    ids=["equal", "tiny", "huge", "one number"],
)
def test_equal_vectors_lie_in_one_place(vectors):
    vectors = vectors.astype(np.float32)
    axes = principal_axes(vectors)
    assert axes.explained == (0.0, 0.0)
    assert np.array_equal(axes.places_of(vectors), np.zeros((len(vectors), 2)))


def test_vectors_of_one_component_lie_on_a_line():
    vectors = np.array([[1.0], [2.0], [4.0]], dtype=np.float32)
    axes = principal_axes(vectors)
    assert axes.explained == pytest.approx((1, 0))
    places = axes.places_of(vectors)
    assert np.array_equal(places[:, 1], np.zeros(3))
    assert (places[2, 0] - places[1, 0]) == pytest.approx(2 * (places[1, 0] - places[0, 0]))


@pytest.mark.parametrize("scale", [1e-30, 1e30, 3e38])
def test_neither_large_nor_small_components_overflow(scale):
    vectors = (np.array([[1, 0, 0], [-1, 0, 0], [0, 0.5, 0], [0, -0.5, 0]]) * scale).astype(np.float32)
    axes = principal_axes(vectors)
    assert axes.explained == pytest.approx((0.8, 0.2))
    assert np.all(np.isfinite(axes.places_of(vectors)))
