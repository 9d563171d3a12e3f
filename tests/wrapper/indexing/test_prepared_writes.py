"""Writes are prepared before they take the write lock, which costs a refused one nothing; what changed since counts."""

import sqlite3
from contextlib import closing
from itertools import product

import numpy as np
import pytest

from schemas.errors import RagError
from schemas.records import DocumentBatch, DocumentChanges, DocumentPatch
from schemas.where import EVERYTHING, parse_where
from tests.support.worlds import OPTIONS
from tests.wrapper.documents import batch
from tests.wrapper.indexing.foreign import make_foreign
from wrapper.catalog.changes import held_matches
from wrapper.catalog.words.index import WordIndex
from wrapper.writing import MOST_PLANS, WriteOptions

VECTORS = np.arange(6, dtype="<f4").reshape(2, 3) + 1
FILLED = DocumentBatch(["d0", "d1"], ["one", "two"], [{"n": 0}, {"n": 1}], VECTORS)
TWO = DocumentBatch(["d1", "new"], ["running houses", "laufende Häuser"], [{"title": "Wege"}, {"n": 1}], VECTORS)
CHANGES = DocumentChanges(["d1", "new"], [*VECTORS], ["a", "b"], [{"x": 1}, None])
N_IS_1, N_IS_7 = parse_where({"n": 1}), parse_where({"n": 7})
WAYS = {
    "add": lambda store, name: store.add_documents(name, TWO),
    "replace": lambda store, name: store.add_documents(name, TWO, replace_where=N_IS_1, unless=N_IS_7),
    "patch": lambda store, name: store.patch_document(name, "d1", DocumentPatch("new", {"title": "Paths"}), OPTIONS),
    "metadata": lambda store, name: store.patch_metadata(name, {"title": "Ways"}, OPTIONS, ids=None, where=EVERYTHING),
    "chosen": lambda store, name: store.patch_metadata(name, {"x": 1}, OPTIONS, ids=["d0", "d1", "z"], where=N_IS_1),
    "delete": lambda store, name: store.delete_documents(name, where=N_IS_1, may_match_all=False),
    "upsert": lambda store, name: store.records.merge(name, CHANGES, OPTIONS, adds=True, merges=True),
}
OTHERS = {
    "part": lambda store, name: store.add_part(store.collection(name), TWO, OPTIONS, on_conflict="skip"),
    "copy": lambda store, name: store.copying.copy(name, "copy", OPTIONS),
    "re-embedding": lambda store, name: (
        store.reembeddings.begin(name, {"embedding_connection": "c", "embedding_model": "m"}),
        store.reembeddings.store(store.reembeddings.next_part(*store.reembeddings.under_way()), np.eye(3)),
    ),
}
MEANWHILE = {
    "another revision": lambda store, name: store.add_documents(name, batch(["z"], vectors=VECTORS[:1])),
    "the same documents": lambda store, name: store.add_documents(name, TWO),
    "one is changed": lambda store, name: store.patch_document(name, "d1", DocumentPatch("other", {"n": 7}), OPTIONS),
    "one is gone": lambda store, name: store.delete_document(name, "d1", OPTIONS),
    "language": lambda store, name: store.change_collection_metadata(name, {"language": "de"}, OPTIONS, merge=True),
    "another collection": lambda store, name: (
        store.delete_collection(name),
        store.create_collection(name, {"language": "fr"}, "l2"),
    ),
}


@pytest.fixture
def prepared(world, monkeypatch):
    """The numbers of documents whose words were prepared: while nobody held the write lock, as when a filter is asked."""

    def with_free_lock(work):
        def working(*asked):
            with closing(sqlite3.connect(world.process.path, timeout=0, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
            return work(*asked)

        return working

    world.fill()
    numbers = []
    prepare = with_free_lock(WordIndex.prepare)
    monkeypatch.setattr(WordIndex, "prepare", lambda *asked: (numbers.append(len(asked[1])), prepare(*asked))[1])
    monkeypatch.setattr(held_matches, "all_positions", with_free_lock(held_matches.all_positions))
    return numbers


def test_nobody_waits_while_a_write_is_prepared(world, prepared):
    for number, way in enumerate((WAYS | OTHERS).values(), start=1):
        world.store.create_collection(f"c{number}", {}, "l2")
        world.store.add_documents(f"c{number}", FILLED)
        prepared.clear()
        way(world.store, f"c{number}")
        assert sum(prepared) >= 1 or way in (WAYS["chosen"], WAYS["delete"])
    assert world.store.delete_documents("docs", where=N_IS_1).outcome.deleted == 1
    prepared.clear()
    make_foreign(world.engine, number=3)
    world.process.lead_again()
    world.process.drain()
    assert sum(prepared) == 3


def test_what_is_refused_or_stored_is_not_prepared(world, prepared):
    once = WriteOptions(idempotency_key="k", digest="1")
    world.store.add_documents("docs", TWO, once)
    prepared.clear()
    assert world.store.add_documents("docs", TWO, once).replayed
    assert world.store.add_documents("docs", TWO).outcome.unchanged == 2
    wide, late = batch(["w"], vectors=np.ones((1, 4))), WriteOptions(if_match=frozenset({"another"}))
    refused = ((wide, OPTIONS, {}), (TWO, OPTIONS, {"on_conflict": "error"}), (TWO, OPTIONS, {"unless": N_IS_1}))
    for documents, options, conditions in (*refused, (wide, late, {})):
        with pytest.raises(RagError):
            world.store.add_documents("docs", documents, options, **conditions)
    assert sum(prepared) == 0


def test_a_write_leaves_what_it_would_have_left_after_all_that_came_before_it_was_stored(world):
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
        found = left_by(WAYS[way], world.store, between)
        assert world.process.catalog.commit == commit
        assert found == left_by(WAYS[way], world.store, before), (way, meanwhile)


def test_a_filter_is_looked_at_in_the_lock_for_few_documents_that_changed_and_else_again_before_it(
    world, prepared, monkeypatch
):
    commit, store, commits = world.process.catalog.commit, world.store, []

    def often(operation):
        world.process.catalog.commit = commit
        commits.append(store.add_documents("docs", batch([f"z{len(commits)}"], vectors=VECTORS[:1])))
        world.process.catalog.commit = often
        return commit(operation)

    store.add_documents("docs", FILLED)
    world.process.catalog.commit = often
    monkeypatch.setattr(held_matches, "MOST_LOOKED_AT", 0)
    with pytest.raises(held_matches.OutdatedPlanError) as refused:
        store.delete_documents("docs", where=N_IS_1)
    assert (refused.value.code, len(commits)) == ("busy", MOST_PLANS)
    monkeypatch.setattr(held_matches, "MOST_LOOKED_AT", 1)
    assert store.delete_documents("docs", where=N_IS_1).outcome.deleted == 1


def left_by(way, store, name):
    """Return why a write is refused, else None, and all that its collection has then, with words and fields."""
    try:
        error = way(store, name) and None
    except RagError as refused:
        error = refused.code
    page, collection = store.page(name, EVERYTHING, limit=100, with_embeddings=True)
    documents = [(each.id, each.text, each.metadata_json, each.embedding.tobytes()) for each in page.documents]
    words = [store.text_search(name, each, EVERYTHING, limit=9)[1] for each in ("house", "haus", "ways", "other")]
    return (
        error,
        documents,
        words,
        [store.distinct_values(name, each)[0] for each in ("title", "n", "x")],
        collection.count,
    )
