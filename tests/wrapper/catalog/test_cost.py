"""What a read costs SQLite, in instructions of its virtual machine, does not grow with the collection."""

import itertools
import math
from contextlib import ExitStack, closing

import pytest

from schemas.records import GatherSpec, OrderBy
from schemas.where import EVERYTHING, parse_where
from tests.wrapper.documents import add, create, numbered
from wrapper.catalog import gathering, grouping, reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import find_collection
from wrapper.catalog.sqlite import database
from wrapper.catalog.sqlite.database import SQLiteDatabase

SMALL, LARGE, SECTION = 400, 4_000, 10
SEVENTH = {"section": 7}
READS = {
    "documents by id": lambda *at: reads.by_ids(*at, ["d71", "d90", "d75"]),
    "all that matches a filter": lambda *at: reads.page(*at, parse_where(SEVENTH), limit=100).documents,
    "a section": lambda *at: (
        gathering.gather(*at, GatherSpec(("section",), (OrderBy("place"),)), ["d75"], None, EVERYTHING).groups
    ),
    "facets of what matches": lambda *at: grouping.facets(*at, parse_where(SEVENTH), ["place"], limit=100)[0],
    "two pages, the second by cursor": lambda *at: (
        reads.page(*at, EVERYTHING, limit=20, cursor=reads.page(*at, EVERYTHING, limit=20).next_cursor).documents
    ),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Two catalogues, the second with ten times the documents, as functions that count the instructions of a read."""
    paths = [_filled(tmp_path_factory.mktemp("cost") / "catalog.sqlite", count) for count in (SMALL, LARGE)]
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(database, "INSTRUCTIONS_BETWEEN_LOOKS", 1)
        yield [_counting(path, stack) for path in paths]


def _filled(path, count):
    with closing(Catalog(SQLiteDatabase(path))) as catalog:
        catalog.open()
        create(catalog, "all")
        places = [{"section": number // SECTION, "place": number % SECTION} for number in range(count)]
        add(catalog, "all", numbered(count), metadatas=places)
    return path


def _counting(path, stack):
    ticks = itertools.count()
    counted = SQLiteDatabase(path, clock=lambda: next(ticks), statement_seconds=math.inf)
    stack.callback(counted.close)

    def instructions(read):
        with counted.read() as transaction:
            collection = find_collection(transaction, "all")
            read(transaction, collection)  # how many match is counted once, and known from then on
            before = next(ticks)
            assert len(read(transaction, collection))
            return next(ticks) - before

    return instructions


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_costs_what_it_returns(read, filled):
    small, large = (instructions(read) for instructions in filled)
    assert large <= 1.2 * small


def test_a_read_of_all_documents_costs_more_where_there_are_more(filled):
    small, large = (instructions(reads.all_positions) for instructions in filled)
    assert large > 5 * small
