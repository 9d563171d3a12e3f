"""Facets, distinct values and gathered groups agree with the model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.contract_tests.model import KINDS, field_value, kind, sort_key
from schemas.records import GatherSpec, OrderBy
from schemas.where import parse_where
from tests.properties.strategies import FILTERS, METADATA, ORDERS, PATHS, SHARED_METADATA, documents, to_collection
from wrapper.catalog import grouping, reads
from wrapper.catalog.rows import find_collection

FIELD_NAMES = st.sampled_from(("a", "b")) | st.sampled_from(PATHS)


@pytest.mark.slow
@given(
    documents(most=10, metadata=SHARED_METADATA | METADATA),
    FILTERS | st.just({}),
    st.lists(FIELD_NAMES, min_size=1, max_size=3, unique=True),
    st.sampled_from((0, 2)),
)
def test_facets_count_every_value_once(catalog, stored, found, where, fields, broad_share):
    """By either way to the values: in their order, or document by document."""
    model, name = to_collection(found), stored(found)
    with catalog.read() as transaction, pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "BROAD_SHARE", broad_share)
        collection = find_collection(transaction, name)
        facets, total = grouping.facets(transaction, collection, parse_where(where), fields, limit=100)
        first, _ = grouping.facets(transaction, collection, parse_where(where), fields, limit=1)
    assert total == len(model.matching(where))
    assert list(facets) == fields
    for field in fields:
        counted = model.values(field, where)
        expected = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
        facet = facets[field]
        assert [(sort_key(value), number) for value, number in facet.values] == expected
        assert facet.distinct == first[field].distinct == len(expected)
        assert first[field].values == facet.values[:1]
        kinds = {key[0] for key in counted}
        if (kinds and kinds <= {KINDS["number"]}) or kinds == {KINDS["string"]}:
            assert (sort_key(facet.minimum), sort_key(facet.maximum)) == (min(counted), max(counted))
        else:
            assert facet.minimum is facet.maximum is None


@given(documents(most=10, metadata=SHARED_METADATA | METADATA), FIELD_NAMES)
def test_distinct_values_are_distinct_and_sorted(catalog, stored, found, field):
    name = stored(found)
    with catalog.read() as transaction:
        values = grouping.distinct_values(transaction, find_collection(transaction, name), field)
    assert [sort_key(value) for value in values] == sorted(to_collection(found).values(field))


@pytest.mark.slow
@given(
    documents(most=10, metadata=SHARED_METADATA | METADATA),
    FILTERS | st.just({}),
    st.lists(FIELD_NAMES, min_size=1, max_size=2, unique=True),
    ORDERS,
    st.integers(1, 4),
    st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.randoms(use_true_random=False),
)
def test_gather_returns_each_group_once_around_its_hits(
    catalog, stored, found, where, by, names, limit, window, random
):
    model, name = to_collection(found), stored(found)
    hits = [each.id for each in model.matching(where)]
    random.shuffle(hits)
    before, after = window or (None, None)
    order = tuple(OrderBy(each.removeprefix("-"), each.startswith("-")) for each in names)
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        documents_by_id = reads.by_ids(transaction, collection, hits)
        groups = grouping.gather(
            transaction,
            collection,
            [documents_by_id[each] for each in hits],
            GatherSpec(tuple(by), order, limit, before, after),
        )
    expected = model.groups(hits, by, names, limit, window)
    assert [[each.id for each in group.documents] for group in groups] == [members for _, members in expected]
    assert [_spelt(group.key, by) for group in groups] == [_spelt(key, by) for key, _ in expected]
    assert [group.rank for group in groups] == list(range(1, len(groups) + 1))
    for group, (key, _) in zip(groups, expected, strict=True):
        same = [each for each in model.documents if key is not None and _spelt(key, by) == _key_of(each, by)]
        whole = [each.id for each in model.ordered({}, names) if each in same]
        assert group.total == (len(whole) or 1)
        assert group.hits == (set(whole) & set(hits) if whole else {group.documents[0].id})
        if whole:
            assert [whole[place - 1] for place in group.places] == [each.id for each in group.documents]
        shown = {each.id for each in group.documents}
        assert group.hits <= shown or (len(shown) == limit and shown <= group.hits)


def _key_of(document, by):
    values = [field_value(document.metadata, field) for field in by]
    return None if any(kind(value) is None for value in values) else [sort_key(value) for value in values]


def _spelt(key, by):
    if key is None:
        return None
    return [sort_key(value) for value in (key if len(by) > 1 else [key])]
