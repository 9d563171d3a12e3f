import os
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from schemas.errors import InvalidInputError
from wrapper.engine import client as client_module
from wrapper.engine.client import HNSW, EngineClient
from wrapper.engine.failures import (
    EngineCollectionMissingError,
    EngineConflictError,
    EngineRefusedError,
    EngineUnavailableError,
)
from wrapper.engine.keeper.state import EngineStateReader

MISSING = "00000000-0000-0000-0000-000000000000"


def vectors(count, dimension=4, seed=7):
    return np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)


@pytest.fixture
def engine_id(client, request):
    name = f"c-{request.node.name.replace('_', '-')}"[:60].strip("-")
    return client.create_collection(name, metric="l2")


@pytest.fixture
def stored(client, engine_id):
    """The vectors of ten stored documents."""
    embeddings = vectors(10)
    ids = [f"id-{number}" for number in range(10)]
    client.upsert(engine_id, ids, embeddings, [f"text {name}" for name in ids], [{"n": n} for n in range(10)])
    return embeddings


def test_a_collection_from_creation_to_deletion(client):
    engine_id = client.create_collection("life", metric="ip", metadata={"a": [1]})
    made = client.get_collection("life")
    assert (made.id, made.name, made.metric) == (engine_id, "life", "ip")
    assert (made.metadata, made.dimension) == ({"a": [1]}, None)
    client.upsert(engine_id, ["a"], vectors(1), ["t"], [{}])
    assert client.get_collection("life").dimension == 4
    client.rename_collection(engine_id, "after-life")
    assert client.get_collection("life") is None
    assert "after-life" in {collection.name for collection in client.list_collections()}
    assert client.delete_collection("after-life")
    assert not client.delete_collection("after-life")


def test_lists_of_a_deleted_collection_do_not_come_back_with_later_documents(client):
    ids = [f"id-{number}" for number in range(3)]
    old = client.create_collection("with-lists", metric="l2")
    client.upsert(old, ids, vectors(3), ids, [{"tags": ["a", "b"], "n": n} for n in range(3)])
    assert client.get(old).metadatas == [{"tags": ["a", "b"], "n": n} for n in range(3)]
    assert client.delete_collection("with-lists")
    new = client.create_collection("without-lists", metric="l2")
    client.upsert(new, ids, vectors(3), ids, [{"n": n} for n in range(3)])
    assert client.get(new).metadatas == [{"n": n} for n in range(3)]


@pytest.mark.parametrize(("made_with", "then"), [(150, HNSW["ef_search"]), (1_000, 1_000)])
def test_an_index_of_an_earlier_release_searches_as_widely_as_new_ones(client, engine_dir, made_with, then):
    earlier = EngineClient(EngineStateReader(engine_dir).url, hnsw={**HNSW, "ef_search": made_with})
    name = f"narrow-{made_with}"
    engine_id = earlier.create_collection(name, metric="ip", metadata={"a": 1})
    earlier.close()
    client.upsert(engine_id, ["a"], vectors(1), ["t"], [{}])
    client.widen_search(name, engine_id=MISSING)
    assert client.get_collection(name).search_width == made_with
    client.widen_search(name)
    found = client.get_collection(name)
    assert (found.search_width, found.metric, found.metadata) == (then, "ip", {"a": 1})
    assert client.query(engine_id, vectors(1), 1) == [["a"]]
    client.widen_search("nobody's")


def test_a_collection_that_ever_had_a_document_is_not_unused(client, engine_dir):
    earlier = EngineClient(EngineStateReader(engine_dir).url, hnsw={**HNSW, "ef_search": 150})
    narrow = earlier.create_collection("narrow-and-unused", metric="l2")
    earlier.close()
    unused, used = (client.create_collection(name, metric="l2") for name in ("never-used", "used-once"))
    client.upsert(used, ["a"], vectors(1), ["t"], [{}])
    client.delete(used, ["a"])
    assert client.count(used) == 0
    found = client.unused_collections()
    assert (unused in found, used in found, narrow in found) == (True, False, False)


def test_a_taken_name_is_a_conflict(client):
    client.create_collection("taken", metric="l2")
    other = client.create_collection("other", metric="l2")
    with pytest.raises(EngineConflictError):
        client.create_collection("taken", metric="l2")
    with pytest.raises(EngineConflictError):
        client.rename_collection(other, "taken")


def test_records_are_found_by_vector_nearest_first_until_they_are_deleted(client, engine_id, stored):
    target = stored[3]
    by_distance = np.argsort(((stored - target) ** 2).sum(axis=1))
    assert client.query(engine_id, target[np.newaxis], 4)[0] == [f"id-{n}" for n in by_distance[:4]]
    assert len(client.query(engine_id, target[np.newaxis], 50)[0]) == 10
    assert client.count(engine_id) == 10
    client.delete(engine_id, ["id-3", "unknown"])
    client.delete(engine_id, [])
    assert client.count(engine_id) == 9
    assert "id-3" not in client.query(engine_id, stored[3:4], 10)[0]


def test_an_empty_collection_answers_with_nothing(client, engine_id):
    assert client.query(engine_id, vectors(2), 3) == [[], []]
    assert client.count(engine_id) == 0
    everything = client.get(engine_id, include=("documents", "metadatas", "embeddings"))
    assert (everything.ids, everything.texts, everything.metadatas) == ([], [], [])
    assert everything.embeddings.shape == (0, 0)


def test_parts_come_back_as_they_were_stored(client, engine_id, stored):
    records = client.get(engine_id, ids=["id-4", "unknown", "id-2"], include=("documents", "metadatas", "embeddings"))
    assert records.ids == ["id-2", "id-4"]
    assert records.texts == ["text id-2", "text id-4"]
    assert records.metadatas == [{"n": 2}, {"n": 4}]
    assert records.embeddings.dtype == np.float32
    assert np.array_equal(records.embeddings, stored[[2, 4]])
    only_ids = client.get(engine_id, ids=["id-1"], include=())
    assert (only_ids.ids, only_ids.texts, only_ids.metadatas, only_ids.embeddings) == (["id-1"], None, None, None)


def test_pages(client, engine_id, stored, monkeypatch):
    monkeypatch.setattr(client_module, "RECORDS_PER_CALL", 3)
    everything = [f"id-{number}" for number in range(10)]
    assert client.get(engine_id).ids == everything
    assert client.get(engine_id, limit=4, offset=5).ids == everything[5:9]
    assert client.get(engine_id, limit=4, offset=8).ids == everything[8:]
    assert client.get(engine_id, limit=0).ids == []
    assert client.get(engine_id, ids=everything).ids == everything
    assert client.get(engine_id, ids=[]).ids == []


def test_a_record_is_replaced_whole(client, engine_id, stored):
    changed = vectors(1, seed=8)
    client.upsert(engine_id, ["id-3"], changed, ["new text"], [{"m": "x"}], stale_keys=[{"n"}])
    records = client.get(engine_id, ids=["id-3"], include=("documents", "metadatas", "embeddings"))
    assert (records.texts, records.metadatas) == (["new text"], [{"m": "x"}])
    assert np.array_equal(records.embeddings, changed)
    assert client.query(engine_id, changed[:1], 1)[0] == ["id-3"]
    assert client.count(engine_id) == 10


@pytest.mark.slow
def test_a_large_batch_goes_in_parts(client, engine_id, monkeypatch):
    monkeypatch.setattr(client_module, "MAX_BODY_BYTES", 20_000)
    ids = [f"id-{number}" for number in range(5600)]
    client.upsert(engine_id, ids, vectors(5600, dimension=2), ["t"] * 5600, [{"n": n} for n in range(5600)])
    assert client.count(engine_id) == 5600
    assert client.get(engine_id).metadatas == [{"n": n} for n in range(5600)]
    client.delete(engine_id, ids)
    assert client.count(engine_id) == 0


@pytest.mark.parametrize(
    "metadata",
    [
        {f"k{n}": n for n in range(20_000)},
        {"list": list(range(12_000))},
        {f"list {n}": list(range(2_000)) for n in range(10)},
        {f"{n:04}".ljust(512, "x"): n for n in range(2_000)} | {"list": list(range(5_000))},
    ],
    ids=["fields", "elements", "lists", "keys"],
)
def test_metadata_beyond_what_the_engine_bears_breaks_no_collection(client, metadata):
    name = f"large-{uuid.uuid4()}"
    engine_id = client.create_collection(name, metric="l2")
    client.upsert(engine_id, ["small", "large"], vectors(2), ["a", "b"], [{"a": 1}, metadata], all_new=True)
    assert client.count(engine_id) == 2
    stored = client.get(engine_id, ids=["large"]).metadatas
    assert stored == [metadata]
    client.upsert(engine_id, ["large"], vectors(1), ["b"], [{"b": 2}], stale_keys=[metadata])
    assert client.get(engine_id, ids=["large"]).metadatas == [{"b": 2}]
    client.delete_collection(name)


def test_more_keys_than_can_be_taken_back_leave_nothing_behind(client, engine_id, stored):
    stale = {f"k{n}": n for n in range(40_000)}
    client.upsert(engine_id, ["id-1"], vectors(1), ["new"], [{"b": 2}], stale_keys=[stale])
    assert client.count(engine_id) == 10
    assert client.get(engine_id, ids=["id-1"]).metadatas == [{"b": 2}]


def test_records_of_many_fields_go_in_parts(client, engine_id, monkeypatch):
    monkeypatch.setattr(client_module, "VALUES_PER_CALL", 100)
    sent = []
    send = client._transport.send
    monkeypatch.setattr(
        client._transport, "send", lambda *args, **kwargs: sent.append(args[1]) or send(*args, **kwargs)
    )
    many = [{**{f"k{n}": n for n in range(40)}, "list": [1, 2]} for _ in range(10)]
    client.upsert(engine_id, [str(n) for n in range(10)], vectors(10), ["t"] * 10, many)
    assert client.count(engine_id) == 10
    assert sum(path.endswith("/upsert") for path in sent) == 6


@pytest.mark.slow
def test_a_body_beyond_a_stock_servers_limit_is_taken(client, engine_id):
    assert client.get(engine_id, ids=["x" * 41_000_000]).ids == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_never_reach_the_engine(value):
    unreachable = EngineClient(lambda: pytest.fail("the engine was asked"))
    embeddings = vectors(3)
    embeddings[1, 2] = value
    with pytest.raises(InvalidInputError, match="finite"):
        unreachable.upsert(MISSING, ["a", "b", "c"], embeddings, ["", "", ""], [{}, {}, {}])
    with pytest.raises(InvalidInputError, match="finite"):
        unreachable.query(MISSING, embeddings[1:2], 3)


def test_any_text_is_an_id_and_a_document_and_what_is_repeated_or_no_unicode_is_refused(client, engine_id):
    with pytest.raises(InvalidInputError, match="unique"):
        client.upsert(engine_id, ["a", "a"], vectors(2), ["", ""], [{}, {}])
    with pytest.raises(InvalidInputError):
        client.upsert(engine_id, ["a"], vectors(1), ["\ud800"], [{}])
    ids = ["\x00", " ", "ü/../?#%", "😀" * 500]
    client.upsert(engine_id, ids, vectors(4), ["", "\x00", " ", "é"], [{}] * 4)
    records = client.get(engine_id, ids=ids)
    assert (records.ids, records.texts) == (ids, ["", "\x00", " ", "é"])


def test_another_dimension_is_refused_and_nothing_stored(client, engine_id, stored):
    with pytest.raises(EngineRefusedError) as refused:
        client.upsert(engine_id, ["x"], vectors(1, dimension=5), ["t"], [{}])
    assert "dimension" in refused.value.details["engine_message"]
    with pytest.raises(EngineRefusedError):
        client.query(engine_id, vectors(1, dimension=5), 1)
    assert client.count(engine_id) == 10


def test_a_missing_collection_is_named_so_by_every_method(client):
    for call in (
        lambda: client.upsert(MISSING, ["a"], vectors(1), ["t"], [{}]),
        lambda: client.delete(MISSING, ["a"]),
        lambda: client.count(MISSING),
        lambda: client.query(MISSING, vectors(1), 1),
        lambda: client.get(MISSING),
        lambda: client.rename_collection(MISSING, "new-name"),
        lambda: client.set_collection_metadata(MISSING, {"a": 1}),
    ):
        with pytest.raises(EngineCollectionMissingError):
            call()
    assert client.get_collection("nowhere") is None


def test_no_engine_is_unavailable():
    for address in ("", "http://127.0.0.1:9", "http://[broken"):
        with pytest.raises(EngineUnavailableError):
            EngineClient(lambda address=address: address).heartbeat()


def test_many_threads_share_one_client(client, engine_id, stored):
    def work(number):
        for step in range(20):
            other = (number + step) % 10
            assert client.query(engine_id, stored[other : other + 1], 1) == [[f"id-{other}"]]

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))


@pytest.mark.usefixtures("client")
def test_a_forked_process_gets_connections_of_its_own(engine_dir):
    client = EngineClient(EngineStateReader(engine_dir).url)
    client.heartbeat()
    pool = client._transport._current_pool()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        client.heartbeat()
        os.write(writer, b"own" if client._transport._current_pool() is not pool else b"shared")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 16) == b"own"
    os.close(reader)
    os.close(writer)
    client.heartbeat()
    assert client._transport._current_pool() is pool
    client.close()


def test_new_records_may_be_added_and_existing_ones_stay(client, engine_id, stored):
    client.upsert(engine_id, ["new", "id-3"], vectors(2, seed=9), ["t", "other"], [{"a": [1, "x"]}, {}], all_new=True)
    records = client.get(engine_id, ids=["new", "id-3"])
    assert (records.ids, records.texts) == (["id-3", "new"], ["text id-3", "t"])
    assert records.metadatas == [{"n": 3}, {"a": [1, "x"]}]
