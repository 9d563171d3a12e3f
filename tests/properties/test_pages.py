"""Each way of reading a collection by order, page or cursor shows each document once, in the order of the model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.contract_tests.model import ModelDocument
from schemas.errors import InvalidInputError
from schemas.records import OrderBy
from schemas.where import parse_where
from tests.properties.strategies import FILTERS, ORDERS, VALUES, documents, embedding, to_collection
from wrapper.catalog import reads, writes
from wrapper.catalog.rows import find_collection

MISSING = object()
VALUED = st.sampled_from((True, False, 0, 1, 1.0, 2, "a", "b", None, MISSING)) | VALUES | st.lists(VALUES, max_size=2)


@pytest.fixture(params=[5_000, 0], ids=["sorted", "walked"])
def sort_at_most(request, monkeypatch):
    """Use both ways of reading a page in order, whatever the collection's size."""
    monkeypatch.setattr(reads, "SORT_AT_MOST", request.param)


def _order(names):
    return tuple(OrderBy(name.removeprefix("-"), name.startswith("-")) for name in names)


def _page(catalog, name, where, **how):
    with catalog.read() as transaction:
        return reads.page(transaction, find_collection(transaction, name), parse_where(where), **how)


def _by_cursor(catalog, name, where, order, limit, *, between=lambda shown: None):
    shown, cursor = [], None
    while True:
        page = _page(catalog, name, where, limit=limit, order_by=order, cursor=cursor)
        assert len(page.documents) <= limit
        shown += [document.id for document in page.documents]
        between(shown)
        if (cursor := page.next_cursor) is None:
            return shown
        assert len(page.documents) == limit


def _by_offset(catalog, name, where, order, limit):
    shown = []
    while True:
        page = _page(catalog, name, where, limit=limit, offset=len(shown), order_by=order)
        shown += [document.id for document in page.documents]
        if page.next_cursor is None:
            return shown


@given(documents(most=10), FILTERS | st.just({}), ORDERS, st.integers(1, 4))
@pytest.mark.usefixtures("sort_at_most")
def test_pages_show_each_match_once_in_order(catalog, stored, found, where, names, limit):
    model, name, order = to_collection(found), stored(found), _order(names)
    expected = [each.id for each in model.ordered(where, names)]
    assert _by_cursor(catalog, name, where, order, limit) == expected
    assert _by_offset(catalog, name, where, order, limit) == expected
    beyond = _page(catalog, name, where, limit=limit, offset=len(expected), order_by=order)
    assert (beyond.documents, beyond.next_cursor, beyond.total) == ([], None, len(expected))


@given(st.lists(st.tuples(VALUED, VALUED), max_size=12), st.integers(1, 3), st.booleans(), st.booleans())
@pytest.mark.usefixtures("sort_at_most")
def test_mixed_types_and_missing_values_have_one_order(catalog, stored, pairs, limit, downwards, two):
    metadatas = [{key: value for key, value in zip("ab", pair, strict=True) if value is not MISSING} for pair in pairs]
    found = [ModelDocument(f"d{n}", "", metadata, embedding(n)) for n, metadata in enumerate(metadatas)]
    names = [("-" if downwards else "") + "a", *(["b"] if two else [])]
    expected = [each.id for each in to_collection(found).ordered({}, names)]
    name = stored(found)
    assert _by_cursor(catalog, name, {}, _order(names), limit) == expected
    assert _by_offset(catalog, name, {}, _order(names), limit) == expected


@pytest.mark.slow
@given(documents(least=3, most=10), ORDERS, st.integers(1, 3), st.data())
@pytest.mark.usefixtures("sort_at_most")
def test_a_cursor_skips_nothing_when_read_documents_are_deleted(catalog, stored, found, names, limit, data):
    name, order = stored(found), _order(names)

    def delete_some(shown):
        doomed = data.draw(st.sets(st.sampled_from(shown), max_size=len(shown)))
        catalog.commit(lambda transaction: writes.delete_documents(transaction, name, ids=sorted(doomed)))

    expected = [each.id for each in to_collection(found).ordered({}, names)]
    assert _by_cursor(catalog, name, {}, order, limit, between=delete_some) == expected


@given(documents(least=2, most=4), FILTERS, FILTERS, ORDERS, ORDERS)
def test_a_cursor_is_valid_only_for_its_own_filter_and_order(catalog, stored, found, where, other, names, others):
    name = stored(found)
    cursor = _page(catalog, name, {}, limit=1, order_by=_order(names)).next_cursor
    assert cursor is not None
    for asked, order in ((other, names), ({}, others)):
        if parse_where(asked) == parse_where({}) and order == names:
            continue
        with pytest.raises(InvalidInputError) as refused:
            _page(catalog, name, asked, limit=1, order_by=_order(order), cursor=cursor)
        assert refused.value.code == "invalid_cursor"


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: raw.hex()))
def test_only_a_cursor_is_accepted_as_a_cursor(catalog, stored, text):
    name = stored([])
    with pytest.raises(InvalidInputError) as refused:
        _page(catalog, name, {}, limit=1, cursor=text)
    assert refused.value.code == "invalid_cursor"


def test_a_cursor_of_one_collection_is_none_of_another(catalog, stored):
    found = [ModelDocument(f"d{n}", "", {}, embedding(n)) for n in range(2)]
    first, second = stored(found), stored(found)
    cursor = _page(catalog, first, {}, limit=1).next_cursor
    with pytest.raises(InvalidInputError) as refused:
        _page(catalog, second, {}, limit=1, cursor=cursor)
    assert refused.value.code == "invalid_cursor"


@pytest.mark.parametrize("offset", [0, 1, 5, 9, 2**53])
@pytest.mark.usefixtures("sort_at_most")
def test_a_page_past_documents_without_the_field_begins_in_the_right_place(catalog, stored, offset):
    found = [ModelDocument(f"d{n}", "", {"a": n} if n % 2 else {}, embedding(n)) for n in range(8)]
    expected = [each.id for each in to_collection(found).ordered({}, ["-a"])][offset:][:3]
    page = _page(catalog, stored(found), {}, limit=3, offset=offset, order_by=_order(["-a"]))
    assert [document.id for document in page.documents] == expected
