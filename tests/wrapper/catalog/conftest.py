"""A catalogue of its own for each test, on SQLite and, where SQL or locks differ, on PostgreSQL."""

import pytest

from tests.support.catalogues import one_database
from wrapper.catalog.catalog import Catalog

SQLITE = pytest.mark.parametrize("open_database", ["sqlite"], indirect=True)
POSTGRESQL = pytest.mark.parametrize("open_database", ["postgresql"], indirect=True)
"""Both unless a test says otherwise: what it checks is done in Python, the same for either."""


@pytest.fixture(params=["sqlite", "postgresql"])
def open_database(request):
    """`open_database(kind=None, **settings)`: the test's one database, each time by an object of its own."""
    with one_database(request) as open_one:
        yield open_one


@pytest.fixture(params=["sqlite", "postgresql"])
def open_empty_database(request):
    """The same of a database in which nobody has made tables yet."""
    with one_database(request, empty=True) as open_one:
        yield open_one


@pytest.fixture
def catalog(open_database):
    catalog = Catalog(open_database())
    catalog.open()
    return catalog
