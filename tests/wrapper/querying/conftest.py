"""A catalogue for tests of queries, and how many examples property tests of them try."""

import pytest

from tests.properties.catalogs import open_catalog


@pytest.fixture
def empty_catalog(tmp_path):
    catalog = open_catalog(tmp_path / "catalog.sqlite")
    yield catalog
    catalog.close()
