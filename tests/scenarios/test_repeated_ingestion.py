"""With an `Idempotency-Key`, a repeated ingestion gets the first answer and nothing is done again."""

import uuid

import pytest

from tests.support.apps import running_app

RULE = {
    "filename": "a.md",
    "content": "# A\n\nWords.",
    "metadata": {"source": "s", "doc_type": "faq", "last_update_date": "2026-01-01"},
}


@pytest.fixture
def key():
    return {"Idempotency-Key": str(uuid.uuid4())}


@pytest.fixture
def bodies():
    unique = uuid.uuid4().hex
    return {
        "/api/rag/ingest": {"source": unique, "path": "p", "title": "t", "text": "words"},
        "/api/rag/documents:batch": {"documents": [{**RULE, "filename": f"{unique}.md"}]},
        "/tools/rag_context_index": {"content": f"words of {unique}", "contentType": "documentation"},
    }


def test_the_repeat_gets_the_first_answer_another_request_a_conflict_and_the_key_of_a_failed_one_is_free(
    client, bodies, key
):
    for path, body in bodies.items():
        headers = {"Idempotency-Key": f"{key['Idempotency-Key']}{path}"}
        first, again = (client.post(path, json=body, headers=headers) for _ in range(2))
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.data == first.data, path
        assert ("Idempotent-Replayed" in first.headers, again.headers["Idempotent-Replayed"]) == (False, "true")
    # Without the key it is another ingestion.
    assert client.post("/api/rag/ingest", json=bodies["/api/rag/ingest"]).json["status"] == "unchanged"
    body = {**bodies["/api/rag/ingest"], "path": "another"}
    assert client.post("/api/rag/ingest", json={**body, "text": " "}, headers=key).status_code == 400
    assert client.post("/api/rag/ingest", json=body, headers=key).status_code == 200
    other = client.post("/api/rag/ingest", json={**body, "text": "others"}, headers=key)
    assert (other.status_code, other.json["code"]) == (409, "idempotency_key_reused")


REFUSED = {
    "/api/rag/ingest": {"source": "s", "path": "p", "title": "t", "text": " "},
    "/api/rag/documents:batch": {"documents": [{**RULE, "content": " "}, {**RULE, "metadata": {}}]},
    "/tools/rag_context_index": {"content": " ", "contentType": "documentation"},
}


@pytest.mark.slow
def test_a_repeat_of_what_was_refused_before_there_is_a_collection_gets_the_first_answer(tmp_path, key):
    with running_app(tmp_path / "data") as app, app.test_client() as client:
        for path, body in REFUSED.items():
            plain, first, again = (client.post(path, json=body, headers=given) for given in ({}, key, key))
            of_this_run = {name: first.json[name] for name in ("job_id", "duration_seconds") if name in first.json}
            assert (first.status_code, first.json) == (plain.status_code, plain.json | of_this_run)
            assert (again.status_code, again.data) == (first.status_code, first.data)
            was_kept = first.status_code == 200
            assert ("Idempotent-Replayed" in first.headers, "Idempotent-Replayed" in again.headers) == (False, was_kept)
            assert was_kept == (path == "/api/rag/documents:batch")
        assert client.get("/collections").json["collections"] == []
        answer = client.post("/api/rag/documents:batch", json={"documents": [RULE]}, headers=key)
        assert (answer.status_code, answer.json["code"]) == (409, "idempotency_key_reused")
