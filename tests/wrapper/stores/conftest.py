"""A collection to be re-embedded."""

import pytest

from tests.support.catalogues import one_database
from tests.wrapper.stores.reembedded import Collection
from wrapper.catalog.catalog import Catalog

BOTH = pytest.mark.parametrize("catalog", ["sqlite", "postgresql"], indirect=True)
"""The SQL of re-embedding is tried on both databases by its properties; what else is decided is the same on either."""


@pytest.fixture(params=["sqlite"])
def catalog(request):
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        yield catalog


@pytest.fixture
def docs(catalog):
    return Collection(catalog)
