"""New vectors beside old ones: whatever is written meanwhile, and whatever ends the work, nothing else changes."""

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import CollectionNotFoundError, ConflictError, InvalidInputError, TooOldError
from schemas.metadata import MAX_COLLECTION_BYTES
from schemas.records import Since
from schemas.storage.reembedding import ReembeddingNotFoundError
from tests.wrapper.stores.conftest import BOTH
from tests.wrapper.stores.reembedded import NEW, NEWER, Collection, Crash, embedded
from wrapper.catalog.changes.feed import check_since, history_of
from wrapper.catalog.names import aliases, collection_writes
from wrapper.catalog.rows import all_collections, collections_page, count_collections, dump_json, find_collection
from wrapper.catalog.stored_bytes import held

IDS = st.sampled_from("abcdef")
SOME = st.lists(IDS, min_size=1, max_size=4, unique=True)
ACTION = st.one_of(
    st.tuples(st.sampled_from(["add", "delete", "describe", "erase"]), SOME),
    st.tuples(st.just("change"), st.tuples(IDS)),
    st.tuples(st.sampled_from(["step", "step", "empty", "rename"]), st.just(())),
)


@pytest.mark.slow
@given(st.lists(ACTION, max_size=12), st.lists(ACTION, max_size=12), st.sets(st.integers(0, 12), max_size=4))
@BOTH
def test_whatever_is_written_meanwhile_the_new_vectors_are_those_of_all_documents(catalog, before, beside, dies_at):
    docs = Collection(catalog, ())
    docs.add("a", "b", "c", "d", "e")
    for name, ids in before:
        getattr(docs, name)(*ids)
    docs.work.begin(docs.name, NEW)
    docs.catalog.die_at(dies_at)
    revision, identity = docs.collection().revision, docs.collection().id
    for name, ids in beside:
        try:
            getattr(docs, name)(*ids)
        except Crash:
            docs.work = docs.restarted()
    contents = docs.contents()
    if docs.work.under_way():
        docs.finish()
        docs.check_switched(contents)
    after = docs.collection()
    assert (after.id, after.count) == (identity, len(contents))
    assert after.revision > revision
    assert after.metadata == {"of": 1, **NEW}


@BOTH
def test_a_crash_at_any_commit_changes_nothing(catalog):
    for turn in range(30):
        docs = Collection(catalog, ())
        docs.add(*"abcde")
        docs.work.begin(docs.name, NEW)
        docs.step()
        docs.delete("b")
        docs.add("f")
        docs.catalog.die_at({turn})
        before_restarts, written = docs.work, docs.contents()
        docs.finish()
        docs.check_switched(written)
        assert [each[0] for each in docs.contents()] == list("acdef")
        if docs.work is before_restarts:
            return
    raise AssertionError("it never came through without a crash")


def test_nobody_sees_the_new_vectors_before_they_are_complete(docs):
    docs.add(*"abc")
    before = docs.collection()
    with docs.catalog.read() as transaction:
        listed, counted, stored = collections_page(transaction), count_collections(transaction), held(transaction, None)
    docs.work.begin(docs.name, NEW)
    docs.step()
    assert docs.collection() == before
    with docs.catalog.read() as transaction:
        assert collections_page(transaction) == listed
        assert count_collections(transaction) == counted
        assert held(transaction, None) == stored
        assert len(all_collections(transaction)) == counted + 1
    state = docs.work.of(docs.name)
    assert (state.status, state.documents_done, state.documents, state.model) == ("running", 2, 3, "new")


def begun(docs):
    """Begin to re-embed three documents. Return the hidden collection's name, a part of all of them, and its vectors."""
    docs.add(*"abc")
    docs.work.begin(docs.name, NEW)
    [name] = docs.work.under_way()
    part = docs.work.next_part(name)
    return name, part, np.stack([embedded(each.text) for each in part.documents])


def test_a_part_that_another_process_did_is_not_done_again(docs):
    _, part, vectors = begun(docs)
    assert docs.work.store(part, vectors)
    revision = docs.collection().revision
    assert not docs.work.store(part, vectors)
    assert docs.collection().revision == revision


def test_a_reason_is_kept_in_short(docs):
    _, part, _ = begun(docs)
    docs.work.tell(part, f"Document '{'x' * 100_000}' is refused", is_final=True)
    assert docs.work.of(docs.name).error == "Document '" + "x" * 989 + "…"


def test_what_was_made_for_an_ended_work_is_not_taken_for_the_next_one(docs):
    docs.add(*"abc")
    docs.work.begin(docs.name, NEWER)
    [hidden] = docs.work.under_way()
    part = docs.work.next_part(hidden)
    docs.work.end(docs.name)
    docs.work.begin(docs.name, NEW)
    assert not docs.work.store(part, np.ones((3, 3), "<f4"))
    docs.work.tell(part, "it was the other model", is_final=True)
    state = docs.work.of(docs.name)
    assert (state.status, state.error, state.documents_done) == ("running", None, 0)
    docs.finish()
    docs.check_switched(docs.contents())


def describe(docs, change):
    docs._write(lambda transaction: collection_writes.change_collection_metadata(transaction, docs.name, change))


def fill_metadata(docs, *, room):
    """Give the collection metadata that have `room` for that many bytes."""
    metadata = {"of": 1, "text": ""}
    metadata["text"] = "x" * (MAX_COLLECTION_BYTES - room - len(dump_json(metadata)))
    describe(docs, lambda _: metadata)
    return metadata


def test_metadata_without_room_for_the_names_of_the_new_model_are_refused(docs):
    docs.add(*"abc")
    room = len(dump_json(NEW)) - 1
    fill_metadata(docs, room=room - 1)
    with pytest.raises(InvalidInputError, match=r"65,537 bytes, 65,536 are allowed: make .* smaller") as refused:
        docs.work.begin(docs.name, NEW)
    assert (refused.value.code, refused.value.details["field"]) == ("invalid_metadata", "metadata")
    with docs.catalog.read() as transaction:
        assert len(all_collections(transaction)) == 1
    metadata = fill_metadata(docs, room=room)
    docs.work.begin(docs.name, NEW)
    docs.step()
    fill_metadata(docs, room=0)
    with pytest.raises(InvalidInputError, match="make the collection's metadata smaller"):
        docs.finish()
    fill_metadata(docs, room=room)
    docs.finish()
    assert docs.collection().metadata == {**metadata, **NEW}


@pytest.mark.parametrize("told", [["a"], {"of": "a"}, 5, None, ""])
def test_what_is_recorded_and_is_no_name_is_not_told(docs, told):
    describe(docs, lambda metadata: metadata | {"embedding_model": told, "embedding_connection": told})
    docs.add("a")
    docs.work.begin(docs.name, NEW)
    state = docs.work.of(docs.name)
    assert (state.from_model, state.from_connection, state.model) == (None, None, "new")
    docs.finish()
    assert docs.work.of(docs.name).from_model is None
    docs.work.go_back(docs.name)
    assert docs.collection().metadata["embedding_model"] == told


def test_an_alias_goes_with_the_name_and_followers_begin_anew_after_the_switch(docs):
    docs.add(*"abc")
    docs.delete("a")
    alias = f"alias-of-{docs.name}"
    docs._write(lambda transaction: aliases.put(transaction, alias, docs.name))
    with docs.catalog.read() as transaction:
        source = find_collection(transaction, docs.name)
        since = Since(source.revision, history=history_of(transaction, source))
    docs.work.begin(alias, NEW)
    docs.finish()
    with docs.catalog.read() as transaction:
        source = find_collection(transaction, docs.name)
        assert find_collection(transaction, alias).metadata == source.metadata == {"of": 1, **NEW}
        with pytest.raises(TooOldError):
            check_since(transaction, source, since)
        check_since(transaction, source, Since(source.revision, history=history_of(transaction, source)))
        check_since(transaction, source, Since())


@BOTH
def test_the_old_vectors_stay_until_they_are_dropped_and_can_be_had_back(docs):
    docs.add(*"abc")
    contents, old = docs.contents(), docs.documents()
    docs.switch()
    switched = docs.collection()
    with pytest.raises(ConflictError, match="drop them first"):
        docs.work.begin(docs.name, NEWER)
    docs.rename()
    state = docs.work.go_back(docs.name)
    assert (state.status, state.model, state.from_model, state.can_go_back) == ("complete", None, "new", False)
    back = docs.collection()
    assert back.metadata == {"of": 1}
    assert back.revision > switched.revision
    assert docs.contents() == contents
    assert [each.embedding.tolist() for each in docs.documents()] == [each.embedding.tolist() for each in old]
    assert docs.work.go_back(docs.name) == state
    assert docs.collection() == back
    assert docs.work.begin(docs.name, NEW).can_go_back
    docs.check_switched(contents)
    assert docs.work.end(docs.name).from_model is None
    with pytest.raises(ReembeddingNotFoundError):
        docs.work.end(docs.name)
    docs.work.begin(docs.name, NEWER)
    docs.finish()
    docs.check_switched(contents)


@pytest.mark.parametrize("write", [lambda docs: docs.add("d", dimension=3), lambda docs: docs.delete("a")])
def test_there_is_no_way_back_once_documents_were_written(docs, write):
    docs.add(*"abc")
    docs.switch()
    write(docs)
    assert not docs.work.of(docs.name).can_go_back
    with pytest.raises(ConflictError, match="no old vectors of all documents"):
        docs.work.go_back(docs.name)


@BOTH
def test_a_collection_that_is_emptied_or_deleted_takes_both_along(docs):
    docs.add(*"abc")
    docs.switch()
    docs.empty()
    with docs.catalog.read() as transaction:
        assert transaction.value("SELECT count(*) FROM documents") == 0
    docs.work.end(docs.name)
    for is_complete in (False, True):
        docs.add(*"abc")
        docs.work.begin(docs.name, NEW)
        docs.step()
        if is_complete:
            docs.finish()
        docs._write(lambda transaction: collection_writes.delete_collection(transaction, docs.name))
        with docs.catalog.read() as transaction:
            assert all_collections(transaction) == []
            assert transaction.value("SELECT count(*) FROM documents") == 0
        docs._write(lambda transaction: collection_writes.create_collection(transaction, docs.name, {"of": 1}, "l2"))


def test_a_part_knows_how_much_is_left_behind_it(docs):
    docs.add(*"abcde")
    docs.work.begin(docs.name, NEW)
    [name] = docs.work.under_way()
    assert docs.work.next_part(name, 2).left == 3
    docs.step(limit=4)
    docs.change("a")
    docs.change("b")
    docs.add(*"fgh")
    assert docs.work.next_part(name, 2).left == 4
    docs.delete("c", "d")
    assert docs.work.next_part(name, 5).left == 1
    assert docs.work.next_part(name, 7).left == 0


def test_of_documents_that_one_write_changed_no_part_passes_one_by(docs):
    docs.add(*"abcdef")
    docs.work.begin(docs.name, NEW)
    docs.step(limit=5)
    docs.describe(*"abcde")
    written = docs.contents()
    docs.finish()
    docs.check_switched(written)


def test_one_that_failed_goes_on_where_it_was_and_another_model_begins_anew(docs):
    docs.add(*"abcde")
    docs.work.begin(docs.name, NEW)
    docs.step()
    [name] = docs.work.under_way()
    docs.work.tell(docs.work.next_part(name), "The model is gone", is_final=True)
    state = docs.work.of(docs.name)
    assert (state.status, state.error, state.documents_done) == ("failed", "The model is gone", 2)
    assert docs.work.under_way() == {}
    assert docs.work.begin(docs.name, NEW).documents_done == 2
    with pytest.raises(ConflictError, match="cancel that first"):
        docs.work.begin(docs.name, NEWER)
    docs.work.tell(docs.work.next_part(name), "Again", is_final=True)
    state = docs.work.begin(docs.name, NEWER)
    assert (state.model, state.documents_done, state.error) == ("newer", 0, None)


def test_vectors_of_another_dimension_are_refused_and_cancelling_drops_what_was_made(docs):
    docs.add(*"abcde")
    docs.work.begin(docs.name, NEW)
    docs.step()
    [name] = docs.work.under_way()
    part = docs.work.next_part(name, 1)
    with pytest.raises(InvalidInputError, match="dimension"):
        docs.work.store(part, np.ones((1, 9), "<f4"))
    contents = docs.contents()
    docs.work.end(docs.name)
    assert docs.contents() == contents
    assert not docs.work.store(part, np.ones((1, 3), "<f4"))
    assert docs.work.next_part(name) is None
    with pytest.raises(ReembeddingNotFoundError):
        docs.work.of(docs.name)
    with pytest.raises(CollectionNotFoundError):
        docs.work.of("nowhere")


def test_the_embedding_function_of_a_client_stays_with_the_vectors_that_it_makes(docs):
    docs.add(*"abc")
    function = {"type": "known", "name": "openai", "config": {"model_name": "old"}}

    def configure(**configuration):
        docs._write(
            lambda transaction: transaction.run(
                "UPDATE collections SET configuration = ? WHERE name = ?",
                (orjson.dumps(configuration).decode(), docs.name),
            )
        )

    def configured():
        return orjson.loads(docs.collection().configuration)

    configure(hnsw={"ef_search": 10}, embedding_function=function)
    docs.work.begin(docs.name, NEW)
    configure(hnsw={"ef_search": 20}, embedding_function=function)
    docs.finish()
    assert configured() == {"hnsw": {"ef_search": 20}, "embedding_function": None}
    newer = {**function, "config": {"model_name": "new"}}
    configure(hnsw={"ef_search": 30}, embedding_function=newer)
    docs.work.go_back(docs.name)
    assert configured() == {"hnsw": {"ef_search": 30}, "embedding_function": function}
    docs.work.begin(docs.name, NEW)
    assert configured() == {"hnsw": {"ef_search": 30}, "embedding_function": newer}
