"""A catalogue for tests of queries, and how many examples property tests of them try."""

import pytest

from tests.properties.catalogs import open_catalog
from tests.properties.profiles import load_profile

load_profile()


@pytest.fixture
def empty_catalog(tmp_path):
    catalog = open_catalog(tmp_path / "catalog.sqlite")
    yield catalog
    catalog.close()
