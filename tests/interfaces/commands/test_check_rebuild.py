"""`rag-wrapper check`, `rebuild` and `reembed` as a user runs them, against a real service."""

import uuid

import numpy as np
import pytest

from tests.support.live import eventually
from tests.support.model_server import DIMENSION

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


@pytest.fixture
def connection(live, session, models_up):
    connection_id = f"newer-{uuid.uuid4().hex[:8]}"
    config = {"url": f"{models_up.url}/v1", "model": "newer"}
    body = {"id": connection_id, "type": "embedding", "provider": "openai", "config": config}
    assert session.post(f"{live.url}/api/connections", json=body).status_code == 201
    return connection_id


@pytest.fixture
def older(live, session):
    name = f"docs-{uuid.uuid4().hex[:8]}"
    collection = {"name": name, "metadata": {"embedding_model": "older"}}
    assert session.post(f"{live.url}/collections", json=collection).status_code == 201
    add(live, session, name, {"a": "Text a", "b": "Text b"}, 3)
    return name


def add(live, session, name, texts, dimension):
    documents = [{"id": each, "text": text, "embedding": [1.0] * dimension} for each, text in texts.items()]
    answer = session.post(f"{live.url}/collections/{name}/documents", json={"documents": documents})
    assert answer.status_code in (201, 202)


def test_a_collection_gets_new_vectors_goes_back_and_forth_and_drops_the_old_ones(
    run_live, live, session, older, connection
):
    name = older
    made = run_live("reembed", name, "--connection", connection, "--wait")
    assert (made.returncode, made.stderr) == (0, "")
    told = f"{name}: 2 documents, searched by the vectors of 'newer'; the vectors of 'older' are kept\n"
    assert made.stdout == told
    assert run_live("reembed", name).stdout == told
    assert session.get(f"{live.url}/collections/{name}").json()["dimension"] == DIMENSION
    back = run_live("reembed", name, "--back")
    assert (back.returncode, back.stdout) == (0, f"{name}: searched by the old vectors again, 'older'\n")
    refused = run_live("reembed", name, "--cancel")
    assert refused.returncode == 2
    assert "--drop drops the old ones" in refused.stderr
    assert run_live("reembed", name, "--connection", connection).stdout == told
    dropped = run_live("reembed", name, "--drop")
    assert dropped.stdout == f"{name}: dropped the vectors of 'older', searched by 'newer'\n"
    nothing = run_live("reembed", name)
    assert nothing.returncode == 2
    assert "is not being re-embedded" in nothing.stderr


def test_a_failure_is_told_and_what_is_under_way_can_be_cancelled(run_live, live, session, older, connection):
    name = older
    add(live, session, name, {"blank": " "}, 3)
    failed = run_live("reembed", name, "--connection", connection, "--wait")
    assert failed.returncode == 1
    assert failed.stdout == f"{name}: failed, 0 of 3 documents by 'newer'\n"
    assert "'blank' has no text" in failed.stderr
    assert "--cancel gives them up" in run_live("reembed", name, "--drop").stderr
    cancelled = run_live("reembed", name, "--cancel")
    assert cancelled.stdout == f"{name}: dropped the vectors of 'newer', searched by 'older'\n"
