"""Cursors are good at all services of one catalogue, and at no other."""

import pytest

from schemas.errors import InvalidInputError
from schemas.sealed_cursors import opened, sealed
from tests.wrapper.documents import as_before
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase


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


@pytest.mark.parametrize("had_a_key", [True, False])
def test_the_key_is_drawn_once_also_for_a_catalogue_of_an_earlier_release(tmp_path, had_a_key):
    database = SQLiteDatabase(tmp_path / "catalog.sqlite")
    catalog = Catalog(database)
    catalog.open()
    before = _sealed(catalog)
    as_before(database, 12, *([] if had_a_key else ["DROP TABLE cursor_keys"]))
    catalog.open()
    assert _opened(catalog, before if had_a_key else _sealed(catalog)) == b"content"
    catalog.close()
