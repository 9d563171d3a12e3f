"""Codes leave out no document that is among the nearest, however the vectors lie, and few are left to compare."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wrapper import distances as distances_module
from wrapper.distances import exact_distances
from wrapper.querying import kept_codes
from wrapper.querying.base_codes import BaseCodes
from wrapper.querying.codes import (
    Encoder,
    Estimates,
    differences_from,
    empty_arrays,
    multiply,
    reference_of,
    size_bytes,
)
from wrapper.querying.kept_codes import Held
from wrapper.querying.leaves import Leaves, assigned, spreads_of, train

COUNT, DIMENSION = 2_000, 48
METRICS = ("cosine", "l2", "ip")


def _random(generator):
    return generator.standard_normal((COUNT, DIMENSION))


def _around_a_mean(generator):
    return _random(generator) + 5 * generator.standard_normal(DIMENSION)


def _clusters(generator):
    return np.repeat(generator.standard_normal((20, DIMENSION)), COUNT // 20, axis=0) + 0.05 * _random(generator)


def _equal(generator):
    return generator.standard_normal((3, DIMENSION))[generator.integers(0, 3, COUNT)]


SETS = {
    "random": _random,
    "around a mean": _around_a_mean,
    "clusters": _clusters,
    "of all lengths": lambda generator: _random(generator) * 10.0 ** generator.uniform(-8, 8, (COUNT, 1)),
    "equal": _equal,
    "with zeros": lambda generator: _random(generator) * generator.integers(0, 2, (COUNT, 1)),
    "one long component": lambda generator: _random(generator) + 1e4 * np.eye(DIMENSION)[0],
    "tiny": lambda generator: _random(generator) * 1e-25,
}


def _coded(vectors, metric, block=300, some=None):
    """Codes of vectors; `some` of them tell the reference."""
    some = vectors[::7] if some is None else some
    encoder = Encoder(metric, reference_of(metric, some), *empty_arrays(*vectors.shape))
    for first in range(0, len(vectors), block):
        rows = np.arange(first, min(first + block, len(vectors)))
        encoder.add(rows, vectors[rows])
    return encoder.codes()


def _file(codes, leaves=None):
    none = Leaves(np.empty((0, codes.codes.shape[1]), np.float32), np.zeros(1, np.int64), np.empty(0, np.float32))
    return BaseCodes(1, np.arange(len(codes)), np.arange(len(codes), dtype=np.int32), codes, leaves or none)


def _in_leaves(vectors, metric, some):
    """Codes of vectors in the order of their leaves, and that order."""
    reference = reference_of(metric, some)
    differences = differences_from(reference, vectors, metric)
    whole = differences.astype(np.float32)
    centres = train(whole[np.isfinite(whole).all(axis=1)][::3], 64 * 40)
    leaf_of = assigned(centres, whole)
    spreads = spreads_of(centres, leaf_of, differences)
    order = np.lexsort((spreads, leaf_of))
    bounds = np.searchsorted(leaf_of[order], np.arange(len(centres) + 1))
    return _coded(vectors[order], metric, some=some), Leaves(centres, bounds, spreads[order]), order


def _held(vectors, metric, later=0, with_leaves=False):
    """What is held of vectors, the last of which were written `later`, with rows between them that do not count, and
    the row of each vector."""
    count = len(vectors) - later
    some = vectors[:count:7]
    gone = np.concatenate([vectors[: later // 2], vectors[count:]])
    base = np.concatenate([vectors[:count], gone])
    order, leaves = np.arange(len(base)), None
    if with_leaves:
        codes, leaves, order = _in_leaves(base, metric, some)
    else:
        codes = _coded(base, metric, some=some)
    place = np.empty(len(base), dtype=np.intp)
    place[order] = np.arange(len(base))
    file = BaseCodes(1, order, place.astype(np.int32), codes, _file(codes, leaves).leaves)
    after = np.concatenate([vectors[count:], vectors[:later]])
    rows = np.concatenate([place[count:], np.arange(len(base) + later, len(base) + 2 * later)])
    held = Held(1, file, _coded(after, metric, some=some), np.arange(len(after)) + len(base), rows)
    return held, np.concatenate([place[:count], np.arange(len(base), len(base) + later)])


def _candidates(codes, query, top_k):
    empty = _coded(np.empty((0, codes.codes.shape[1]), np.float32), codes.metric, some=codes.reference[np.newaxis])
    return _nearest_of(Held(1, _file(codes), empty, np.arange(0), np.arange(0)), query, top_k)


def _nearest_of(held, query, top_k):
    return _nearest_of_all(held, held.base.codes.of_query(query), top_k)


def _never():
    raise AssertionError("the codes of all were compared")


def _nearest_of_all(held, code, top_k, rows=None):
    return held.nearest_of_all(code, top_k, lambda: multiply(held.base.codes.codes, [code.code])[0], rows)


def _nearest(query, vectors, metric, top_k):
    """Return the rows of the nearest, equal distances by their row: what an answer consists of."""
    distances = exact_distances(query, vectors, metric)
    return set(np.lexsort((np.arange(len(vectors)), distances))[:top_k].tolist())


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
def test_no_near_document_is_left_out_of_nearly_constant_vectors_of_many_dimensions(metric):
    """Where all terms of a product are equal, the errors of adding them in float32 do not cancel each other."""
    generator = np.random.default_rng(7)
    query = np.zeros(4_096, dtype=np.float32)
    query[0] = metric == "cosine"
    for _ in range(10):
        vectors = np.full((200, 4_096), -generator.uniform(1, 2), dtype=np.float32)
        vectors[0] *= np.float32(-1 + (3e-7 * generator.integers(1, 6) if metric == "l2" else 0.0))
        codes = _coded(vectors, metric, some=vectors)
        assert _nearest(query, vectors, metric, 1) <= set(_candidates(codes, query, 1).tolist())


@pytest.mark.parametrize(("most", "mean"), [(0, range(14, 100)), (COUNT, range(10, 12))])
def test_fine_codes_are_compared_of_so_many_documents_at_most(monkeypatch, most, mean):
    monkeypatch.setattr(kept_codes, "MOST_REFINED", most)
    monkeypatch.setattr(distances_module, "COMPONENTS_AT_ONCE", 7 * DIMENSION)
    vectors = _random(np.random.default_rng(8)).astype(np.float32)
    codes = _coded(vectors, "cosine")
    found = [set(_candidates(codes, query, 10).tolist()) for query in vectors[:20]]
    assert all(_nearest(vectors[number], vectors, "cosine", 10) <= each for number, each in enumerate(found))
    assert sum(map(len, found)) // len(found) in mean


@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.integers(1, 70),
    st.sampled_from(METRICS),
    st.integers(1, 12),
    st.floats(-12, 12),
    st.floats(-3, 3),
)
def test_no_near_document_is_left_out_of_any_vectors(seed, count, dimension, metric, top_k, size, mean):
    generator = np.random.default_rng(seed)
    vectors = (generator.standard_normal((count, dimension)) + mean).round(generator.integers(0, 6)) * 10.0**size
    query = ((generator.standard_normal(dimension) + mean) * 10.0**size).astype(np.float32)
    vectors = vectors.astype(np.float32)
    found = _candidates(_coded(vectors, metric), query, top_k)
    assert _nearest(query, vectors, metric, top_k) <= set(found.tolist())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("made", [_random, _around_a_mean], ids=["random", "around a mean"])
def test_few_documents_are_left_to_compare(made, metric):
    generator = np.random.default_rng(3)
    vectors = made(generator).astype(np.float32)
    codes = _coded(vectors, metric)
    left = [len(_candidates(codes, query, 10)) for query in vectors[:20]]
    assert max(left) <= 12


def test_equal_vectors_are_all_candidates_or_none():
    generator = np.random.default_rng(4)
    vectors = _equal(generator).astype(np.float32)
    found = _candidates(_coded(vectors, "l2"), vectors[0], 5)
    assert set(found.tolist()) == {row for row in range(COUNT) if np.array_equal(vectors[row], vectors[0])}


def test_several_queries_have_the_products_of_each():
    generator = np.random.default_rng(5)
    documents = generator.integers(-127, 128, (500, DIMENSION), dtype=np.int8)
    queries = list(generator.integers(-127, 128, (7, DIMENSION), dtype=np.int8))
    together = multiply(documents, queries)
    for query, products in zip(queries, together, strict=True):
        assert np.array_equal(products, multiply(documents, [query])[0])
        assert np.array_equal(products, documents.astype(np.int32) @ query.astype(np.int32))


@pytest.mark.slow
@pytest.mark.parametrize("with_leaves", [False, True], ids=["plain", "leaves"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("made", SETS.values(), ids=SETS)
def test_what_was_written_since_is_found_and_what_was_deleted_is_not(made, metric, with_leaves, monkeypatch):
    monkeypatch.setattr(kept_codes, "FIRST_COMPARED", 16)
    monkeypatch.setattr(kept_codes, "SHARE_IN_LEAVES", 0.9)
    generator = np.random.default_rng(9)
    vectors = made(generator).astype(np.float32)
    held, rows = _held(vectors, metric, 150, with_leaves)
    members = [vectors[row] for row in (40, COUNT - 3, COUNT - 150) if vectors[row].any()]
    for query in [*members, *generator.standard_normal((2, DIMENSION), dtype=np.float32)]:
        code = held.base.codes.of_query(query)
        for top_k in (1, 10, COUNT + 10):
            found = _nearest_of(held, query, top_k).tolist()
            assert {rows[row] for row in _nearest(query, vectors, metric, top_k)} <= set(found) <= set(rows.tolist())
        chosen = generator.permutation(COUNT)[:300]
        expected = {int(rows[chosen[number]]) for number in _nearest(query, vectors[chosen], metric, 10)}
        for found in (
            held.nearest(code, 10, rows[chosen]),
            _nearest_of_all(held, code, 10, rows[chosen]),
            held.nearest_of_all(code, 10, _never, rows[chosen], picks=True),
        ):
            assert expected <= set(found.tolist()) <= set(rows[chosen].tolist())


@pytest.mark.parametrize("metric", METRICS)
def test_leaves_leave_most_documents_of_groups_out(metric):
    generator = np.random.default_rng(11)
    vectors = _clusters(generator).astype(np.float32)
    held, rows = _held(vectors, metric, 0, with_leaves=True)
    asked = []
    for query in vectors[::40]:
        code = held.base.codes.of_query(query)

        def products(code=code):
            asked.append(code)
            return multiply(held.base.codes.codes, [code.code])[0]

        found = held.nearest_of_all(code, 3, products)
        assert {rows[row] for row in _nearest(query, vectors, metric, 3)} <= set(found.tolist())
    assert len(asked) < 5, "the codes of all were compared"


@pytest.mark.parametrize("gap", [1, 50], ids=["dense", "sparse"])
def test_rows_and_positions_are_told_apart(gap):
    vectors = np.random.default_rng(10).standard_normal((50, 4), dtype=np.float32)
    held, rows = _held(vectors, "l2", 6, with_leaves=True)
    held = replace(
        held, base=replace(held.base, positions=3 + gap * held.base.positions), positions=3 + gap * held.positions
    )
    for some in (rows, rows[::-3], rows[:1], rows[-1:], rows[:0]):
        positions = np.sort(np.array(held.positions_of(some), dtype=np.int64))
        assert sorted(held.rows_of(positions).tolist()) == sorted(some.tolist())
        assert held.positions_of(held.rows_of(positions)) == positions.tolist()
    there = held.base.positions
    unknown = np.setdiff1d(np.arange(-5, there.max() + 60), there)
    assert held.base.rows_of(unknown).tolist() == [-1] * len(unknown)


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_what_may_exceed_float32_is_always_possible(metric):
    vectors = np.random.default_rng(6).standard_normal((50, DIMENSION), dtype=np.float32)
    assert _coded(vectors, metric).of_query(np.full(DIMENSION, 1e30, dtype=np.float32)) is None
    vectors[[3, 40]] *= np.float32(1e30)
    for some in (vectors[:1], vectors):
        codes = _coded(vectors, metric, some=some)
        for query in (vectors[7], np.zeros(DIMENSION, np.float32), codes.reference.astype(np.float32)):
            found = set(_candidates(codes, query, 2).tolist())
            assert _nearest(query, vectors, metric, 2) | {3, 40} <= found
            assert len(found) < 10 or not query.any()


@pytest.mark.parametrize("dimension", [DIMENSION, DIMENSION + 1])
def test_codes_say_what_memory_they_take(dimension):
    codes = _coded(np.ones((COUNT, dimension), dtype=np.float32), "l2")
    arrays = codes.codes, codes.fine, codes.numbers
    assert codes.nbytes == sum(each.nbytes for each in arrays) == size_bytes(COUNT, dimension)


def test_what_is_not_there_is_not_possible_although_its_margin_has_no_end():
    nearness, margins = np.float32([-np.inf, 1, 2, 3, -np.inf]), np.float32([np.inf, 0, np.inf, 0, 0])
    assert Estimates(nearness, margins).possible(1, 0.0).tolist() == [2, 3]
