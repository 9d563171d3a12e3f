"""A batch of rules goes on for as long as its key may write; what it has stored by then stays."""

from __future__ import annotations

import uuid

import pytest

from schemas.access.callers import Scope
from tests.support.model_server import openai_answer

METADATA = {"source": "house", "doc_type": "ops", "last_update_date": "2026-01-31"}
DOCUMENTS = [
    {"filename": f"{n}.md", "content": f"# Rule {n}\n\nThe door opens at {n}.", "metadata": METADATA} for n in range(3)
]


@pytest.fixture
def ingested(clocked):
    """`ingested(key_text, then, **body)`: the answer to a batch, in the first document of which `then` is done, and the
    file names that are stored by then."""

    def ingest(key_text, then, **body):
        def answer(asked):
            then()
            return openai_answer(asked)

        client, name = clocked.app.test_client(), f"rules-{uuid.uuid4()}"
        clocked.models.script.append(answer)
        body = {"collection": name, "documents": DOCUMENTS, **body}
        answered = client.post("/api/rag/documents:batch", json=body, headers={"Authorization": f"Bearer {key_text}"})
        assert not clocked.models.script
        reader = {"Authorization": f"Bearer {clocked.key(Scope.READ)[1]}"}
        stored = client.get(f"/collections/{name}/documents", headers=reader).json["documents"]
        return answered, [each["metadata"]["path"] for each in stored]

    return ingest


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda clocked, key: clocked.revoke(key), "key_revoked"),
        (lambda clocked, key: clocked.change(key, Scope.READ), "key_unknown"),
        (lambda clocked, key: clocked.change(key, Scope.WRITE, collections=("other-*",)), "key_unknown"),
    ],
    ids=["revoked", "scopes", "collections"],
)
def test_a_batch_ends_with_the_rights_of_its_key(clocked, ingested, end, code):
    key, text = clocked.key(Scope.WRITE)
    answer, stored = ingested(text, lambda: end(clocked, key))
    assert (answer.status_code, answer.json["code"]) == (401, code)
    told = answer.json["details"]
    assert (told["documents_processed"], told["documents_failed"], told["index"]) == (1, 0, 1)
    assert stored == ["0.md"]


def test_nothing_is_deleted_by_a_key_that_ended_with_the_last_document(clocked, ingested):
    key, text = clocked.key(Scope.WRITE)
    answer, stored = ingested(text, lambda: clocked.revoke(key), documents=DOCUMENTS[:1], replace_missing=True)
    assert (answer.status_code, answer.json["details"]["documents_processed"]) == (401, 1)
    assert stored == ["0.md"]


def test_a_batch_goes_on_within_the_limits_of_now(clocked, ingested):
    key, text = clocked.key(Scope.WRITE)
    answer, stored = ingested(text, lambda: clocked.change(key, Scope.WRITE, embedded_tokens_per_day=0))
    assert (answer.status_code, answer.json["details"]["limit"]) == (429, "embedded_tokens_per_day")
    assert answer.json["details"]["documents_processed"] == len(stored) == 1
