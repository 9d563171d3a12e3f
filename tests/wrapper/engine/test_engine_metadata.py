"""Metadata through a real Chroma server: they come back exactly as given, and are replaced, never merged."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.live import PATIENCE_SECONDS
from tests.wrapper.engine.test_encoding import NUMBERS, SCALARS, exactly
from wrapper.engine.encoding import JSON_KEY
from wrapper.engine.server_access import STOCK

HOMOGENEOUS = st.one_of(
    st.lists(kind, min_size=1) for kind in (st.booleans(), st.integers(), NUMBERS, st.text(), st.floats(-1e6, 1e6))
)
VALUES = (
    SCALARS | HOMOGENEOUS | st.recursive(SCALARS, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=5)
)
OBJECTS = st.dictionaries(
    st.text() | st.sampled_from(["", "#a", "$a", "chroma:x", "hnsw:M", JSON_KEY]), VALUES, max_size=6
)
AGAINST_A_SERVER = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
VECTOR = np.array([[1.0, 2.0, 3.0]], dtype=np.float32)


@pytest.fixture(scope="module")
def engine_id(client):
    return client.create_collection("documents", metric="cosine")


@pytest.fixture(scope="module")
def store(client, engine_id):
    """Stores one document as the indexer does; `previous` is the metadata of the version it replaces."""

    def store(document_id, metadata, *, previous=None, text="text"):
        stale_keys = None if previous is None else [previous.keys()]
        client.upsert(engine_id, [document_id], VECTOR, [text], [metadata], stale_keys=stale_keys)
        records = client.get(engine_id, ids=[document_id])
        return records.metadatas[0], records.texts[0]

    return store


@pytest.mark.slow
@AGAINST_A_SERVER
@given(batch=st.lists(OBJECTS, min_size=1, max_size=25))
def test_documents_come_back_as_they_were_given(client, engine_id, batch):
    ids = [f"document-{number}" for number in range(len(batch))]
    client.delete(engine_id, ids)
    client.upsert(engine_id, ids, np.repeat(VECTOR, len(ids), axis=0), ids, batch)
    records = client.get(engine_id, ids=ids)
    found = dict(zip(records.ids, records.metadatas, strict=True))
    assert [exactly(found[name]) for name in ids] == [exactly(metadata) for metadata in batch]


@pytest.mark.slow
@AGAINST_A_SERVER
@given(versions=st.lists(OBJECTS, min_size=2, max_size=4))
def test_each_version_replaces_the_one_before(client, engine_id, store, versions):
    client.delete(engine_id, ["versions"])
    previous = {}
    for number, metadata in enumerate(versions):
        found, text = store("versions", metadata, previous=previous, text=f"version {number}")
        assert exactly(found) == exactly(metadata)
        assert text == f"version {number}"
        previous = metadata


@pytest.mark.slow
@AGAINST_A_SERVER
@given(metadata=OBJECTS, replacement=OBJECTS)
def test_collections_come_back_as_they_were_given(client, metadata, replacement):
    client.delete_collection("with-metadata")
    engine_id = client.create_collection("with-metadata", metric="l2", metadata=metadata)
    assert exactly(client.get_collection("with-metadata").metadata) == exactly(metadata)
    client.set_collection_metadata(engine_id, replacement)
    assert exactly(client.get_collection("with-metadata").metadata) == exactly(replacement)


def test_a_collections_own_engine_keys_stay_in_the_engine(client):
    engine_id = client.create_collection("adopted", metric="cosine")
    client.set_collection_metadata(engine_id, {"hnsw:space": "cosine", "title": "Adopted"})
    raw = client._transport.call("GET", f"{STOCK.collections_path}/adopted", timeout_seconds=PATIENCE_SECONDS)
    assert raw["metadata"]["hnsw:space"] == "cosine"
    assert client.get_collection("adopted").metadata == {"hnsw:space": "cosine", "title": "Adopted"}
