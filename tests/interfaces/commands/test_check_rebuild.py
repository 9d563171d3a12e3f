"""`rag-wrapper check` and `rag-wrapper rebuild` as a user runs them, against a real service."""

import uuid
from contextlib import closing

import numpy as np
import pytest

from providers.outbound.json_client import JsonClient
from providers.outbound.network import Network
from providers.rag_wrapper.client import WrapperClient
from providers.rag_wrapper.dialect import WrapperDialect
from schemas.errors import InvalidInputError
from tests.support.live import eventually

DOCUMENTS = 1_200


@pytest.fixture
def name(live, session):
    """A collection with enough documents for its index to have files."""
    name = f"examined-{uuid.uuid4().hex[:10]}"
    assert session.post(f"{live.url}/collections", json={"name": name}).status_code == 201
    vectors = np.random.default_rng(5).normal(size=(DOCUMENTS, 8)).tolist()
    documents = [{"id": f"d{n}", "text": f"text {n}", "embedding": vectors[n]} for n in range(DOCUMENTS)]
    for start in range(0, DOCUMENTS, 400):
        body = {"documents": documents[start : start + 400]}
        assert session.post(f"{live.url}/collections/{name}/documents", json=body).status_code == 201
    return name


def _index(live, session, name):
    return session.get(f"{live.url}/collections/{name}/index").json()


def test_a_sound_index_is_looked_at_and_its_recall_measured(run_live, live, session, name):
    checked = run_live("check", name)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "1 of 1 indexes are well" in checked.stdout
    assert f"{name}: {DOCUMENTS} documents" in checked.stdout
    index = _index(live, session, name)
    assert (index["state"], index["documents_held"], index["fault"]) == ("ready", DOCUMENTS, None)
    assert index["recall_at_10"] > 0.9
    assert index["index_bytes"] > 0
    shown = f'rag_index_recall_at_10{{collection="{name}"}} {index["recall_at_10"]}'
    eventually(lambda: shown in session.get(f"{live.url}/metrics").text)
    assert session.get(f"{live.url}/health").json()["indexes"]["lowest_recall_at_10"]["recall"] <= 1


def test_an_index_is_rebuilt_when_asked(run_live, live, session, name):
    before = _index(live, session, name)["rebuilds"]
    rebuilt = run_live("rebuild", name, "--records", "full")
    assert (rebuilt.returncode, rebuilt.stderr) == (0, "")
    assert rebuilt.stdout == f"{name}: rebuilt, {DOCUMENTS} documents\n"
    after = _index(live, session, name)
    assert (after["rebuilds"], after["rebuild"], after["state"]) == (before + 1, None, "ready")
    assert after["records"] == "full"
    eventually(lambda: _index(live, session, name)["recall_at_10"] is not None)


def test_progress_and_reason_of_a_rebuild_are_told(live, session, name):
    asked = session.post(f"{live.url}/collections/{name}/index/rebuild")
    assert asked.status_code == 202

    def finished():
        index = _index(live, session, name)
        if index["rebuild"] is not None:
            assert index["rebuild"]["reason"] == "it was asked for"
            assert 0 <= index["rebuild"]["documents"] <= index["rebuild"]["of"] == DOCUMENTS
        return index["rebuilds"] > asked.json()["rebuilds"]

    eventually(finished)


@pytest.mark.parametrize("command", ["check", "rebuild"])
def test_a_collection_that_is_not_there_is_named(run_live, command):
    refused = run_live(command, "no-such-collection")
    assert refused.returncode == 2
    assert "no-such-collection" in refused.stderr


def test_what_records_are_to_have_is_asked_of_the_service(run_live, live, name):
    refused = run_live("rebuild", name, "--records", "lean")
    assert refused.returncode == 2
    assert "'lean' is not one of 'full', 'vectors'" in refused.stderr
    client = WrapperClient(JsonClient(live.url, WrapperDialect(live.url), network=Network()))
    with closing(client), pytest.raises(InvalidInputError, match="records must be one of full, vectors"):
        client.rebuild_index(name, records="lean")


def test_a_rebuild_needs_the_name_of_a_collection(run_live):
    assert run_live("rebuild").returncode == 2
