"""Commands take no other catalogue for that of a data directory, and know their own however its mark was saved."""

import pytest

from schemas.errors import ConfigurationError
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.catalogue_mark import MARK_FILE, check_mark, is_marked, mark


@pytest.fixture
def new_catalog(tmp_path):
    """`new_catalog(name)`: a catalogue in a file of that name."""
    opened = []

    def make(name):
        database = SQLiteDatabase(tmp_path / name)
        opened.append(database)
        catalog = Catalog(database)
        catalog.open()
        return catalog

    yield make
    for database in opened:
        database.close()


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_mark_counts_that_was_saved_with_the_end_of_a_line(tmp_path, new_catalog, ending):
    own, other = new_catalog("own"), new_catalog("other")
    mark(tmp_path, own)
    file = tmp_path / MARK_FILE
    file.write_bytes(file.read_bytes() + ending.encode())
    check_mark(tmp_path, own)
    with pytest.raises(ConfigurationError):
        check_mark(tmp_path, other)


def test_an_empty_mark_is_none(tmp_path, new_catalog):
    (tmp_path / MARK_FILE).write_text("\n")
    assert not is_marked(tmp_path)
    check_mark(tmp_path, new_catalog("own"))
