"""`rag-wrapper reembed` as a user runs it, against a real service."""

import uuid

import pytest

from tests.support.model_server import DIMENSION


@pytest.fixture
def connection(live, session, models_up):
    connection_id = f"newer-{uuid.uuid4().hex[:8]}"
    config = {"url": f"{models_up.url}/v1", "model": "newer"}
    body = {"id": connection_id, "type": "embedding", "provider": "openai", "config": config}
    assert session.post(f"{live.url}/api/connections", json=body).status_code == 201
    return connection_id


@pytest.fixture
def name(live, session):
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
    run_live, live, session, name, connection
):
    made = run_live("reembed", name, "--connection", connection, "--wait")
    assert (made.returncode, made.stderr) == (0, "")
    told = f"{name}: 2 documents, searched by the vectors of 'newer'; the vectors of 'older' are kept\n"
    assert made.stdout == told
    assert run_live("reembed", name).stdout == told
    assert session.get(f"{live.url}/collections/{name}").json()["dimension"] == DIMENSION
    back = run_live("reembed", name, "--back")
    assert (back.returncode, back.stdout) == (0, f"{name}: searched by the old vectors again, 'older'\n")
    refused = run_live("reembed", name, "--cancel")
    assert refused.returncode == 1
    assert "--drop drops the old ones" in refused.stderr
    assert run_live("reembed", name, "--connection", connection).stdout == told
    dropped = run_live("reembed", name, "--drop")
    assert dropped.stdout == f"{name}: dropped the vectors of 'older', searched by 'newer'\n"
    nothing = run_live("reembed", name)
    assert nothing.returncode == 2
    assert "is not being re-embedded" in nothing.stderr


def test_a_failure_is_told_and_what_is_under_way_can_be_cancelled(run_live, live, session, name, connection):
    add(live, session, name, {"blank": " "}, 3)
    failed = run_live("reembed", name, "--connection", connection, "--wait")
    assert failed.returncode == 1
    assert failed.stdout == f"{name}: failed, 0 of 3 documents by 'newer'\n"
    assert "'blank' has no text" in failed.stderr
    assert "--cancel gives them up" in run_live("reembed", name, "--drop").stderr
    cancelled = run_live("reembed", name, "--cancel")
    assert cancelled.stdout == f"{name}: dropped the vectors of 'newer', searched by 'older'\n"


@pytest.mark.parametrize("wrong", [["--back", "--drop"], ["--connection", "x", "--cancel"], ["--wait", "--drop"]])
def test_options_that_exclude_each_other_are_refused(run_live, wrong):
    refused = run_live("reembed", "docs", *wrong)
    assert refused.returncode == 2
    assert refused.stdout == ""
