"""The text search measured by a real query set.

Embedding the set takes longer than all tests of this folder; `make bench-quality` measures the fused search.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from retrieval.bench.quality import mean, quality
from retrieval.bench.query_set import read_query_set
from retrieval.ingest.drafts import draft_of_record
from retrieval.ingest.sources import find_sources, read_records
from schemas.records import DocumentBatch
from schemas.where import EVERYTHING
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.catalog.text_search import text_search

QUERY_SET = Path(os.environ.get("QUERY_SET") or Path(__file__).parents[4] / "shared" / "bench" / "cranfield")


@pytest.fixture(scope="module")
def query_set():
    if not QUERY_SET.is_dir():
        pytest.skip(f"{QUERY_SET} is not there")
    return read_query_set(QUERY_SET)


@pytest.fixture(scope="module")
def transaction(query_set, tmp_path_factory):
    """A read of a catalogue whose collection `corpus` has all documents of the set."""
    catalog = Catalog(SQLiteDatabase(tmp_path_factory.mktemp("quality") / "catalog.sqlite"))
    catalog.open()
    [file] = find_sources(query_set.corpus).files
    drafts = [draft for record in read_records(file, "") if (draft := draft_of_record(record, "", "", model="none"))]

    def fill(transaction):
        collection_writes.create_collection(transaction, "corpus", {}, "cosine")
        columns = ([getattr(draft, name) for draft in drafts] for name in ("id", "text", "metadata"))
        vectors = np.ones((len(drafts), 1), dtype="<f4")
        writes.add_documents(transaction, "corpus", DocumentBatch(*columns, vectors))

    catalog.commit(fill)
    with catalog.read() as transaction:
        yield transaction
    catalog.close()


def test_titles_and_stop_words_keep_what_a_text_search_finds(query_set, transaction):
    """Without both it is 0.463; docs/quality.md has the rest of the table."""
    corpus = find_collection(transaction, "corpus")
    found = []
    for query in query_set.queries:
        matches, _ = text_search(transaction, corpus, query.text, EVERYTHING, HeldDocuments(), limit=10)
        found.append(quality([match.document.id for match in matches], query.judgements))
    assert mean(found).ndcg_at_10 >= 0.52
