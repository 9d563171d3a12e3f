"""A collection to be re-embedded, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.properties.profiles import load_profile
from tests.support.catalogues import one_database
from tests.wrapper.stores.reembedded import Collection
from wrapper.catalog.catalog import Catalog

load_profile()


@pytest.fixture(params=["sqlite", "postgresql"])
def catalog(request):
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        yield catalog


@pytest.fixture
def docs(catalog):
    return Collection(catalog)
