"""Word search finds texts in languages that it was not made for: one collection holds documents in five of them.

The documents and questions of `set` were written for this test: what people write down in offices and at home, and how
they ask for it, which is often in other words.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np
import orjson
import pytest

from retrieval.bench.query_set import read_query_set
from schemas.records import DocumentBatch
from schemas.where import EVERYTHING
from tests.support.catalogues import one_database
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.text_search import text_search

SET = read_query_set(Path(__file__).parent / "set")
LEAST_IN_FIRST_THREE = 0.9


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request):
    """A read of a catalogue whose collection `all` has all documents."""
    with one_database(request) as open_one:
        catalog = Catalog(open_one())
        catalog.open()
        records = [orjson.loads(line) for line in SET.corpus.read_bytes().splitlines()]

        def fill(transaction):
            collection_writes.create_collection(transaction, "all", {}, "cosine")
            ids = [record["_id"] for record in records]
            texts = [record["text"] for record in records]
            titles = [{"title": record["title"]} for record in records]
            vectors = np.ones((len(records), 1), dtype="<f4")
            writes.add_documents(transaction, "all", DocumentBatch(ids, texts, titles, vectors))

        catalog.commit(fill)
        with catalog.read() as transaction:
            yield transaction


def test_the_set_is_large_enough():
    asked = defaultdict(int)
    for query in SET.queries:
        [document] = query.judgements
        asked[document[:2]] += 1
    assert all(asked[language] >= 15 for language in ("de", "ja", "th", "zh"))
    assert asked["ko"] >= 8


def test_what_is_asked_for_is_among_the_first_three(filled):
    found = defaultdict(list)
    for query in SET.queries:
        [wanted] = query.judgements
        matches, _ = text_search(
            filled, find_collection(filled, "all"), query.text, EVERYTHING, HeldDocuments(), limit=3
        )
        found[wanted[:2]].append(wanted in [match.document.id for match in matches])
    shares = {language: sum(hits) / len(hits) for language, hits in found.items()}
    assert {language: share for language, share in shares.items() if share < LEAST_IN_FIRST_THREE} == {}
