"""A batch of rules goes on for as long as its key may write; what it has stored by then stays."""

from __future__ import annotations

import uuid

import pytest

from retrieval.rules import pipeline
from schemas.access.callers import Scope
from tests.support.model_server import openai_answer

METADATA = {"source": "house", "doc_type": "ops", "last_update_date": "2026-01-31"}
DOCUMENTS = [
    {"filename": f"{n}.md", "content": f"# Rule {n}\n\nThe door opens at {n}.", "metadata": METADATA} for n in range(3)
]


@pytest.fixture
def ingested(clocked):
    """`ingested(key_text, then, at=0, **body)`: the answer to a batch, in which `then` is done while the document at
    that index is embedded, and the file names that are stored by then."""

    def ingest(key_text, then, at=0, **body):
        def answer(asked):
            then()
            return openai_answer(asked)

        client = clocked.app.test_client()
        clocked.models.script += [*[openai_answer] * at, answer]
        body = {"collection": f"rules-{uuid.uuid4()}", "documents": DOCUMENTS, **body}
        answered = client.post("/api/rag/documents:batch", json=body, headers={"Authorization": f"Bearer {key_text}"})
        assert not clocked.models.script
        reader = {"Authorization": f"Bearer {clocked.key(Scope.READ)[1]}"}
        stored = client.get(f"/collections/{body['collection']}/documents", headers=reader).json["documents"]
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
    answer, stored = ingested(text, lambda: end(clocked, key), at=1)
    assert (answer.status_code, answer.json["code"]) == (401, code)
    told = answer.json["details"]
    assert (told["documents_processed"], told["documents_failed"], told["index"]) == (1, 0, 1)
    assert stored == ["0.md"]


def test_nothing_is_deleted_by_a_key_that_ended_after_the_last_document(clocked, ingested, monkeypatch):
    """Of a collection with three documents, two are named in the batch, and one of these is new."""
    key, text = clocked.key(Scope.WRITE)
    name, delete_others = f"rules-{uuid.uuid4()}", pipeline._delete_others
    answer, stored = ingested(text, lambda: None, collection=name)
    assert (answer.status_code, len(stored)) == (200, 3)

    def revoke_before(*arguments):
        clocked.revoke(key)
        delete_others(*arguments)

    monkeypatch.setattr(pipeline, "_delete_others", revoke_before)
    new = {**DOCUMENTS[0], "filename": "new.md", "content": "# New\n\nThe door is new."}
    body = {"documents": [DOCUMENTS[0], new], "replace_missing": True}
    answer, stored = ingested(text, lambda: None, collection=name, **body)
    assert (answer.status_code, answer.json["details"]["documents_processed"]) == (401, 2)
    assert set(stored) == {"0.md", "1.md", "2.md", "new.md"}


def test_a_batch_goes_on_within_the_limits_of_now(clocked, ingested):
    key, text = clocked.key(Scope.WRITE)
    answer, stored = ingested(text, lambda: clocked.change(key, Scope.WRITE, embedded_tokens_per_day=0))
    assert (answer.status_code, answer.json["details"]["limit"]) == (429, "embedded_tokens_per_day")
    assert answer.json["details"]["documents_processed"] == len(stored) == 1
