"""A release that indexes words differently starts on an earlier one's data: `rag-wrapper serve`, as a user runs it."""

import numpy as np

from schemas.records import DocumentBatch
from tests.support.live import live_service
from tests.support.old_words import forget_words
from wrapper.catalog import writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.names import collection_writes
from wrapper.catalog.sqlite.database import SQLiteDatabase

NAME = "books"
DOCUMENTS = 2_100
"""More documents than are indexed in one transaction."""


def _leave_words_of_before(data_dir):
    data_dir.mkdir()
    catalog = Catalog(SQLiteDatabase(data_dir / "catalog.sqlite"))
    catalog.open()
    batch = DocumentBatch(
        [str(number) for number in range(DOCUMENTS)],
        [f"text number{number}" for number in range(DOCUMENTS)],
        [{"title": f"title{number}"} for number in range(DOCUMENTS)],
        np.ones((DOCUMENTS, 2), dtype="<f4"),
    )
    catalog.commit(lambda transaction: collection_writes.create_collection(transaction, NAME, {}, "cosine"))
    catalog.commit(lambda transaction: writes.add_documents(transaction, NAME, batch))
    catalog.commit(lambda transaction: forget_words(transaction, 5, [NAME]))
    catalog.close()


def test_words_are_indexed_anew_before_the_port_opens_and_before_a_worker_has_a_time_limit(tmp_path, processes):
    _leave_words_of_before(tmp_path / "data")
    with live_service(tmp_path, workers=2) as service:
        lines = service.log.read_text().splitlines()
        begun, done, listening, first_worker = (
            next(number for number, line in enumerate(lines) if words in line)
            for words in (
                "reindexing the words of all documents",
                "the words of all documents are indexed",
                "Listening at",
                "Booting worker",
            )
        )
        assert begun < done < min(listening, first_worker)
        assert sum("the words of all documents are indexed" in line for line in lines) == 1
        with service.session() as session:
            for query, document in (("title7", "7"), ("number2099", "2099")):
                found = session.post(f"{service.url}/collections/{NAME}/text-search", json={"query": query}).json()
                assert [each["id"] for each in found["results"]] == [document]
