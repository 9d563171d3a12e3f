"""Pages of collections, by name, on both databases."""

from __future__ import annotations

from itertools import product

import pytest

from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import collections_page

NAMES = ["A-1", "a-1", "a-10", "a-2", "a.b", "a_b", "ab1", "b-1", "zzz"]


@pytest.fixture
def page(catalog):
    """`page(**arguments)`: the names of a page."""

    def make(transaction):
        for name in NAMES:
            collection_writes.create_collection(transaction, name, {}, "cosine")

    def page(*, prefix="", after="", limit=None):
        with catalog.read() as transaction:
            return [each.name for each in collections_page(transaction, prefix=prefix, after=after, limit=limit)]

    catalog.commit(make)
    return page


def test_pages_together_are_all_of_a_prefix_in_the_order_of_bytes(page):
    for prefix, limit in product(["", "a", "a-", "a-1", "zzz", "x"], [1, 2, 4, 100]):
        expected = sorted(name for name in NAMES if name.startswith(prefix))
        assert page(prefix=prefix) == expected
        found, after = [], ""
        while names := page(prefix=prefix, after=after, limit=limit):
            assert len(names) <= limit
            found += names
            after = names[-1]
        assert found == expected, (prefix, limit)


def test_there_may_be_a_thousand_patterns(catalog, page):
    within = (*(f"team-{number}-*" for number in range(500)), *(f"other-{number}" for number in range(499)), "a*")
    page()
    with catalog.read() as transaction:
        found = collections_page(transaction, prefix="", after="", limit=None, within=within)
    assert [each.name for each in found] == [name for name in NAMES if name.startswith("a")]
