"""A catalogue of its own for each test, on SQLite and on PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.properties.profiles import load_profile
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite import SQLiteDatabase

load_profile()


@pytest.fixture(params=["sqlite", "postgresql"])
def open_database(request, tmp_path):
    """`open_database(kind=None, **settings)`: the test's one database, each time by an object of its own."""
    with ExitStack() as stack:
        if request.param == "sqlite":

            def open_one(kind=SQLiteDatabase, **settings):
                database = kind(tmp_path / "catalog.sqlite", **settings)
                stack.callback(database.close)
                return database

        else:
            from wrapper.catalog.postgres import PostgresDatabase

            url = stack.enter_context(request.getfixturevalue("postgres").catalogue())

            def open_one(kind=PostgresDatabase, **settings):
                database = kind(url, **settings)
                stack.callback(database.close)
                return database

        yield open_one


@pytest.fixture
def catalog(open_database):
    catalog = Catalog(open_database())
    catalog.open()
    return catalog
