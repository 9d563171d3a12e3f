"""Catalogues of a test's own."""

import pytest

from tests.properties.catalogs import open_catalog
from tests.support.catalogues import one_database
from wrapper.catalog.catalog import Catalog


@pytest.fixture
def empty_catalog(tmp_path):
    """On SQLite, without waiting for the disk."""
    catalog = open_catalog(tmp_path / "catalog.sqlite")
    yield catalog
    catalog.close()


@pytest.fixture(params=["sqlite"])
def catalog(request):
    """On SQLite; a test that asks for it with parameters has one on PostgreSQL too."""
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        yield catalog
