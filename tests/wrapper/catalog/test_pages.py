"""Pages of collections, by name, and of documents, in both directions, on both databases; cursors are good at all services
of one catalogue, and at no other."""

from itertools import product

import pytest

from schemas.errors import InvalidInputError
from schemas.sealed_cursors import opened, sealed
from schemas.where import EVERYTHING, Equals
from tests.wrapper.documents import add, create
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import collections_page
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.stores.file_listing import FileListing

NAMES = ["A-1", "a-1", "a-10", "a-2", "a.b", "a_b", "ab1", "b-1", "zzz"]
NUMBERS = range(20)


@pytest.fixture
def page(catalog):
    """`page(**arguments)`: the names of a page."""
    create(catalog, *NAMES)

    def page(*, prefix="", after="", limit=None, **within):
        with catalog.read() as transaction:
            found = collections_page(transaction, prefix=prefix, after=after, limit=limit, **within)
        return [each.name for each in found]

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
    thousand = (*(f"team-{number}-*" for number in range(500)), *(f"other-{number}" for number in range(499)), "a*")
    assert page(within=thousand) == [name for name in NAMES if name.startswith("a")]


@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_give_each_document_once_and_in_order(catalog, newest_first):
    """Twenty documents in the order in which they came, every other one of them `even`."""
    create(catalog, "docs")
    metadatas = [{"even": number % 2 == 0, "rare": number == 7} for number in NUMBERS]
    add(catalog, "docs", map(str, NUMBERS), metadatas=metadatas)
    listing = FileListing(catalog)
    for where, expected in (
        (EVERYTHING, [*NUMBERS]),
        (Equals("even", True), [*NUMBERS[::2]]),
        (Equals("rare", True), [7]),
        (Equals("rare", 3), []),
    ):
        found, position = [], None
        while page := listing.neighbours("docs", where, position=position, newest_first=newest_first, limit=3):
            found += [int(each.id) for each in page]
            position = page[-1].position
        assert found == (expected[::-1] if newest_first else expected), where
    sizes = listing.held_bytes(["docs", "nobody"])
    assert sizes["docs"] > 20 * 2 * 4
    assert sizes["nobody"] == 0


@pytest.fixture
def open_catalog(open_database):
    """`open_catalog()` opens the test's one catalogue, each time as another service would."""

    def open_more():
        catalog = Catalog(open_database())
        catalog.open()
        return catalog

    return open_more


@pytest.fixture
def other_catalog(tmp_path):
    catalog = Catalog(SQLiteDatabase(tmp_path / "other.sqlite"))
    catalog.open()
    yield catalog
    catalog.close()


def _sealed(catalog, content=b"content"):
    with catalog.read() as transaction:
        return sealed(transaction, "documents", content)


def _opened(catalog, cursor, listing="documents"):
    with catalog.read() as transaction:
        return opened(transaction, listing, cursor)


def test_services_of_one_catalogue_read_each_others_cursors(open_catalog):
    one, two = open_catalog(), open_catalog()
    assert _opened(two, _sealed(one)) == b"content"
    assert _sealed(one) == _sealed(two)


def test_a_cursor_of_another_catalogue_or_listing_is_refused(open_catalog, other_catalog):
    catalog = open_catalog()
    for cursor, listing in ((_sealed(other_catalog), "documents"), (_sealed(catalog), "jobs")):
        with pytest.raises(InvalidInputError) as refused:
            _opened(catalog, cursor, listing)
        assert refused.value.code == "invalid_cursor"
