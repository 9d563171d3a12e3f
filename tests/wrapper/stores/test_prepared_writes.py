"""Writes are prepared before they take the write lock, which costs a refused one nothing, and what changed since counts."""

import sqlite3
from contextlib import closing
from itertools import product

import numpy as np
import pytest

from schemas.errors import RagError
from schemas.records import DocumentBatch, DocumentChanges, DocumentPatch
from schemas.where import EVERYTHING, parse_where
from tests.support.worlds import OPTIONS, World
from tests.wrapper.indexing.foreign import make_foreign
from wrapper.catalog import writes
from wrapper.catalog.words.index import WordIndex
from wrapper.writing import WriteOptions

VECTORS = np.arange(6, dtype="<f4").reshape(2, 3) + 1
TWO = DocumentBatch(["d1", "new"], ["running houses", "laufende Häuser"], [{"title": "Wege"}, {"n": 1}], VECTORS)
FILLED = DocumentBatch(["d0", "d1"], ["one", "two"], [{"n": 0}, {"n": 1}], VECTORS)
N_IS_1 = parse_where({"n": 1})
WAYS = {
    "add": lambda store, name: store.add_documents(name, TWO),
    "replace": lambda store, name: store.add_documents(name, TWO, replace_where=N_IS_1),
    "unless": lambda store, name: store.add_documents(name, TWO, unless=parse_where({"n": 7})),
    "patch": lambda store, name: store.patch_document(name, "d1", DocumentPatch("new", {"title": "Paths"}), OPTIONS),
    "metadata": lambda store, name: store.patch_metadata(name, {"title": "Ways"}, OPTIONS, ids=None, where=EVERYTHING),
    "upsert": lambda store, name: store.records.merge(
        name, DocumentChanges(["d1", "new"], [*VECTORS], ["a", "b"], [{"x": 1}, None]), OPTIONS, adds=True, merges=True
    ),
}
OTHERS = {
    "part": lambda store, name: store.add_part(store.collection(name), TWO, OPTIONS, on_conflict="skip"),
    "copy": lambda store, name: store.copying.copy(name, "copy", OPTIONS),
    "re-embedding": lambda store, name: (
        store.reembeddings.begin(name, {"embedding_connection": "c", "embedding_model": "m"}),
        store.reembeddings.store(part := store.reembeddings.next_part(*store.reembeddings.under_way()), np.eye(3)),
        part,
    ),
}
MEANWHILE = {
    "another revision": lambda store, name: store.add_documents(name, DocumentBatch(["z"], [""], [{}], VECTORS[:1])),
    "the same documents": lambda store, name: store.add_documents(name, TWO),
    "others of the ids": lambda store, name: (
        store.patch_document("docs", "d1", DocumentPatch("other"), OPTIONS)
        and store.patch_document(name, "d1", DocumentPatch("other", {"n": 7}), OPTIONS)
    ),
    "one is gone": lambda store, name: store.delete_document(name, "d1", OPTIONS),
    "another language": lambda store, name: store.change_collection_metadata(
        name, {"language": "de"}, OPTIONS, merge=True
    ),
    "none is left": lambda store, name: store.empty_collection(name, OPTIONS),
    "another collection": lambda store, name: (
        store.delete_collection(name, OPTIONS) and store.create_collection(name, {"language": "fr"}, "l2", OPTIONS)
    ),
}


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.fill()
    yield world
    world.process.close()


@pytest.fixture
def prepared(world, monkeypatch):
    """The numbers of documents whose words were prepared. Nobody holds the write lock then, or while a filter is
    looked up."""

    def with_free_lock(work):
        def working(*asked):
            with closing(sqlite3.connect(world.process.path, timeout=0, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
            return work(*asked)

        return working

    numbers = []
    prepare = with_free_lock(WordIndex.prepare)
    monkeypatch.setattr(WordIndex, "prepare", lambda *asked: (numbers.append(len(asked[1])), prepare(*asked))[1])
    monkeypatch.setattr(writes, "positions", with_free_lock(writes.positions))
    return numbers


@pytest.mark.parametrize("way", WAYS | OTHERS)
def test_nobody_waits_while_a_write_is_prepared(world, prepared, way):
    (WAYS | OTHERS)[way](world.store, "docs")
    assert sum(prepared) >= 1


def test_nobody_waits_while_documents_are_looked_for_or_adopted(world, prepared):
    assert world.store.delete_documents("docs", where=N_IS_1).outcome.deleted == 1
    make_foreign(world.engine, number=3)
    world.process.lead_again()
    world.process.drain()
    assert sum(prepared) == 3


def test_what_is_refused_or_stored_is_not_prepared(world, prepared):
    once = WriteOptions(idempotency_key="k", digest="1")
    world.store.add_documents("docs", TWO, once)
    prepared.clear()
    wide = DocumentBatch(["w"], ["wide"], [{}], np.ones((1, 4), dtype="<f4"))
    assert world.store.add_documents("docs", TWO, once).replayed
    assert world.store.add_documents("docs", TWO).outcome.unchanged == 2
    for batch, options, conditions in (
        (wide, OPTIONS, {}),
        (TWO, OPTIONS, {"on_conflict": "error"}),
        (TWO, OPTIONS, {"unless": N_IS_1}),
        (wide, WriteOptions(if_match=frozenset({"another"})), {}),
    ):
        with pytest.raises(RagError):
            world.store.add_documents("docs", batch, options, **conditions)
    assert sum(prepared) == 0


def test_what_changes_before_a_write_is_stored_counts(world):
    """Each write leaves what it leaves when the change comes before it altogether."""
    commit = world.process.catalog.commit
    for number, (way, meanwhile) in enumerate(product(WAYS, MEANWHILE)):
        between, before = f"between-{number}", f"before-{number}"
        for name in (between, before):
            world.store.create_collection(name, {}, "l2")
            world.store.add_documents(name, FILLED)
        MEANWHILE[meanwhile](world.store, before)

        def late(operation, change=MEANWHILE[meanwhile], name=between):
            world.process.catalog.commit = commit
            change(world.store, name)
            return commit(operation)

        world.process.catalog.commit = late
        found = outcome(world, WAYS[way], between)
        assert world.process.catalog.commit == commit
        assert found == outcome(world, WAYS[way], before), (way, meanwhile)


def outcome(world, way, name):
    """Return what a write counts or why it is refused, and all that the collection has then, with its words."""
    try:
        written = way(world.store, name)
        told = getattr(written, "outcome", written)
        told = (getattr(told, "created", 0), getattr(told, "updated", 0), getattr(told, "deleted", 0))
    except RagError as error:
        told = error.code
    documents = [
        (each.id, each.text, each.metadata_json, each.embedding.tobytes())
        for each in world.store.page(name, EVERYTHING, limit=100, with_embeddings=True)[0].documents
    ]
    words = {word: world.store.text_search(name, word, EVERYTHING, limit=9)[1] for word in ("house", "haus", "ways")}
    fields = {key: world.store.distinct_values(name, key)[0] for key in ("title", "n", "x")}
    return told, documents, words, fields, world.store.collection(name).count
