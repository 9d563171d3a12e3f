"""Cursors are good at all services of one catalogue, and at no other."""

import pytest
from sqlalchemy import text

from schemas.errors import InvalidInputError
from schemas.sealed_cursors import opened, sealed
from tests.support.catalogues import one_database
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase


@pytest.fixture(params=["sqlite", "postgresql"])
def open_catalog(request):
    """`open_catalog()` opens the test's one catalogue, each time as another service would."""
    with one_database(request) as open_one:

        def open_more():
            catalog = Catalog(open_one())
            catalog.open()
            return catalog

        yield open_more


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


def test_the_key_is_drawn_once(tmp_path):
    database = SQLiteDatabase(tmp_path / "catalog.sqlite")
    catalog = Catalog(database)
    catalog.open()
    cursor = _sealed(catalog)
    database.migrate(lambda connection: connection.execute(text("DELETE FROM schema_version WHERE version > 12")))
    catalog.open()
    assert _opened(catalog, cursor) == b"content"
    catalog.close()


def test_a_catalogue_of_an_earlier_release_gets_a_key(tmp_path):
    database = SQLiteDatabase(tmp_path / "catalog.sqlite")
    catalog = Catalog(database)
    catalog.open()

    def as_it_was(connection):
        connection.execute(text("DROP TABLE cursor_keys"))
        connection.execute(text("DELETE FROM schema_version WHERE version > 12"))

    database.migrate(as_it_was)
    catalog.open()
    assert _opened(catalog, _sealed(catalog)) == b"content"
    catalog.close()
