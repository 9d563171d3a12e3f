"""A catalogue of its own for each test."""

from __future__ import annotations

import pytest

from tests.properties.profiles import load_profile
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite import SQLiteDatabase

load_profile()


@pytest.fixture
def catalog(tmp_path):
    catalog = Catalog(SQLiteDatabase(tmp_path / "catalog.sqlite"))
    catalog.open()
    yield catalog
    catalog.close()
