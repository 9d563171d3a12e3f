"""Store documents in a catalogue that has no service around it, and find them."""

import numpy as np
from sqlalchemy import text

from schemas.records import DocumentBatch
from schemas.where import EVERYTHING
from wrapper.catalog import writes
from wrapper.catalog.held_documents import HeldDocuments
from wrapper.catalog.index_state import outbox, states
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.catalog.text_search import text_search


class NoIndex:
    """An engine that is away, so that what is not in memory is scanned."""

    def is_ready(self):
        return False

    def nearest(self, engine_id, embedding, n_results):
        raise AssertionError("asked though it is away")


def create(catalog, *names, metric="cosine", metadata=None):
    for name in names:
        catalog.commit(
            lambda transaction, name=name: collection_writes.create_collection(
                transaction, name, metadata or {}, metric
            )
        )


def as_before(database, version, *statements):
    """Make a database one of an earlier release, whose schema had this version: with these statements, and without a
    memory of the steps since."""

    def as_it_was(connection):
        for statement in (*statements, f"DELETE FROM schema_version WHERE version > {version}"):
            connection.execute(text(statement))

    database.migrate(as_it_was)


def numbered(count, prefix="d"):
    return [f"{prefix}{number}" for number in range(count)]


def normal(count, dimension, seed=0):
    """Return random vectors, the same ones each time."""
    return np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32)


def batch(ids, texts=None, metadatas=None, vectors=None):
    """Return documents of these ids. Unless a test says otherwise their texts are their ids, they have no metadata, and
    their vectors are equal."""
    ids = list(ids)
    return DocumentBatch(
        ids,
        ids if texts is None else list(texts),
        [{} for _ in ids] if metadatas is None else list(metadatas),
        np.ones((len(ids), 2), dtype="<f4") if vectors is None else np.asarray(vectors, dtype="<f4"),
    )


def add(catalog, name, ids, texts=None, metadatas=None, vectors=None, **options):
    documents = batch(ids, texts, metadatas, vectors)
    return catalog.commit(lambda transaction: writes.add_documents(transaction, name, documents, **options))


def delete(catalog, name, *ids):
    return catalog.commit(lambda transaction: writes.delete_documents(transaction, name, ids=ids))


def collection_of(catalog, name):
    with catalog.read() as transaction:
        return find_collection(transaction, name)


def settle(transaction, name, engine_id="engine-id"):
    """Have nothing wait for the index of a collection, as if the engine had been told of everything."""
    states.set_engine_collection(transaction, find_collection(transaction, name).key, engine_id, states.READY)
    outbox.remove(transaction, [entry.id for entry in outbox.oldest(transaction, limit=1000)])


def search(catalog, name, query, where=EVERYTHING, limit=100):
    """Return what a question for words finds, best first, and how many match."""
    with catalog.read() as transaction:
        return text_search(transaction, find_collection(transaction, name), query, where, HeldDocuments(), limit=limit)


def ids_found(catalog, name, query):
    return [match.document.id for match in search(catalog, name, query)[0]]
