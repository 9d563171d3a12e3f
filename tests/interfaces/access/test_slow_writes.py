"""What is embedded before it is stored is not stored for a key that was revoked or changed meanwhile."""

from __future__ import annotations

import io
import uuid

import pytest

from schemas.access.callers import Scope, acting_as, acting_still, carried, current
from schemas.errors import UnauthorizedError
from tests.interfaces.access.conftest import mcp
from tests.support.live import eventually
from tests.support.model_server import openai_answer

LONG = "\n\n".join(f"# Part {number}\n\n" + f"Words of part {number}. " * 30 for number in range(100))
"""A Markdown text of a hundred chunks: several calls of the embedding service, also for an upload."""
ENDS = [
    pytest.param(lambda clocked, key: clocked.revoke(key), "key_revoked", id="revoked"),
    pytest.param(lambda clocked, key: clocked.change(key, Scope.READ), "key_unknown", id="scopes"),
    pytest.param(
        lambda clocked, key: clocked.change(key, Scope.WRITE, collections=("other-*",)), "key_unknown", id="collections"
    ),
]
SENTENCES = {"key_revoked": "was revoked", "key_unknown": "has other rights by now"}
REQUESTS = {
    "/api/rag/ingest": {"text": "NEW", "title": "Doors", "source": "house", "path": "NEW", "hash": "1", "tags": []},
    "/tools/rag_context_index": {"content": "NEW"},
}
NOTES = {"session_note": "note", "session_end": "summary"}
"""The argument that becomes a note, of each tool that keeps one."""


class Asking:
    """A client that asks with a key, and may do something while a text is embedded for it."""

    def __init__(self, clocked):
        self.clocked, self.client = clocked, clocked.app.test_client()
        self.key, text = clocked.key(Scope.WRITE)
        self.headers = {"Authorization": f"Bearer {text}"}
        self.admin = {"Authorization": f"Bearer {clocked.key(Scope.ADMIN)[1]}"}

    def post(self, path, body, **headers):
        """Post the body with a text of its own in place of `NEW`."""
        body = {name: self.text if value == "NEW" else value for name, value in body.items()}
        return self.client.post(path, json=body, headers={**self.headers, **headers})

    def while_embedding(self, then):
        """Have `then` done during the next call of the embedding service, and return the calls of which that is one."""

        def answer(asked):
            then()
            return openai_answer(asked)

        self.clocked.models.requests.clear()
        self.clocked.models.script.append(answer)
        return self.clocked.models.requests

    def stored(self):
        """Return the collections that have a document with the text."""
        names = [each["name"] for each in self.client.get("/collections", headers=self.admin).json["collections"]]
        return [name for name in names if any(self.text in text for text in self._texts(name))]

    def _texts(self, name):
        page = self.client.get(f"/collections/{name}/documents?limit=1000", headers=self.admin).json
        return [each["text"] for each in page["documents"]]


@pytest.fixture
def asking(clocked):
    made = Asking(clocked)
    made.text = f"The door {uuid.uuid4()} opens at nine."
    assert not mcp(made.client, "session_start", made.headers, name="doors").json["result"]["isError"]
    yield made
    assert not clocked.models.script


@pytest.mark.parametrize(("end", "code"), ENDS)
@pytest.mark.parametrize("path", REQUESTS)
def test_a_request_stores_nothing_for_a_key_that_ends_while_it_embeds(asking, path, end, code):
    asking.while_embedding(lambda: end(asking.clocked, asking.key))
    once = {"Idempotency-Key": str(uuid.uuid4())}
    answer = asking.post(path, REQUESTS[path], **once)
    assert (answer.status_code, answer.json["code"]) == (401, code)
    assert asking.stored() == []
    asking.clocked.change(asking.key, Scope.WRITE)
    again = asking.post(path, REQUESTS[path], **once)
    if code == "key_revoked":
        assert again.status_code == 401
    else:
        assert again.status_code < 300
        assert "Idempotent-Replayed" not in again.headers
        assert len(asking.stored()) == 1


@pytest.mark.parametrize("path", REQUESTS)
def test_a_request_is_carried_out_for_a_key_that_stays(asking, path):
    asking.while_embedding(lambda: asking.clocked.change(asking.key, Scope.WRITE, chats_per_day=1))
    assert asking.post(path, REQUESTS[path]).status_code < 300
    assert len(asking.stored()) == 1


def test_a_caller_is_asked_for_after_each_wait_before_embedding_before_writing_and_in_the_store(asking, monkeypatch):
    access, asked = asking.clocked.app.extensions["rag.access"], []
    still = access.still
    monkeypatch.setattr(access, "still", lambda *arguments: asked.append(arguments) or still(*arguments))
    body = REQUESTS["/api/rag/ingest"]
    outcomes = [(asking.post("/api/rag/ingest", body).json["status"], len(asked)) for _ in range(2)]
    # Each request waits for its turn, for its body, and for room to parse it.
    assert outcomes == [("created", 6), ("unchanged", 9)]


def test_a_long_text_is_not_embedded_to_its_end(asking):
    calls = asking.while_embedding(lambda: asking.clocked.revoke(asking.key))
    body = {**REQUESTS["/api/rag/ingest"], "text": f"{asking.text}\n\n{LONG * 3}"}
    assert asking.post("/api/rag/ingest", body).status_code == 401
    assert len(calls) == 1
    assert asking.stored() == []


@pytest.mark.parametrize(("end", "code"), ENDS)
@pytest.mark.parametrize("tool", NOTES)
def test_a_note_is_not_kept_for_a_key_that_ends_while_it_is_embedded(asking, tool, end, code):
    asking.while_embedding(lambda: end(asking.clocked, asking.key))
    answer = mcp(asking.client, tool, asking.headers, **{NOTES[tool]: asking.text})
    assert answer.json["result"]["isError"]
    assert SENTENCES[code] in answer.text
    assert asking.stored() == []


@pytest.mark.parametrize("tool", NOTES)
def test_a_note_is_kept_for_a_key_that_stays(asking, tool):
    asking.while_embedding(lambda: asking.clocked.change(asking.key, Scope.WRITE, chats_per_day=1))
    answer = mcp(asking.client, tool, asking.headers, **{NOTES[tool]: asking.text})
    assert not answer.json["result"]["isError"]
    assert asking.stored() == ["rag-notes"]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda clocked, key: clocked.revoke(key), "key_revoked"),
        (lambda clocked, key: clocked.change(key, Scope.READ), "scope_missing"),
        (lambda clocked, key: clocked.change(key, Scope.WRITE, collections=("other-*",)), "collection_forbidden"),
    ],
    ids=["revoked", "scopes", "collections"],
)
def test_a_file_that_is_embedded_for_a_key_that_ends_fails_with_those_that_are_left(asking, end, code):
    calls = asking.while_embedding(lambda: end(asking.clocked, asking.key))
    files = [(io.BytesIO(f"{asking.text}\n\n{LONG}".encode()), "a.md"), (io.BytesIO(asking.text.encode()), "b.md")]
    sent = asking.client.post(
        "/api/documents", data={"file": files, "collection": f"docs-{uuid.uuid4()}"}, headers=asking.headers
    )
    place = f"/api/jobs/{sent.json['job']['id']}"

    def job():
        return asking.client.get(place, headers=asking.admin).json

    eventually(lambda: job()["status"] in ("done", "failed"), complaint=lambda: str(job()))
    assert [(each["status"], each["code"]) for each in job()["files"]] == [("failed", code)] * 2
    assert len(calls) == 1
    assert asking.stored() == []


def test_a_step_is_done_for_the_caller_of_then_in_every_thread_that_works_for_them(clocked):
    now = iter(clocked.key(Scope.WRITE)[0].caller() for _ in range(2))
    before = clocked.key(Scope.WRITE)[0].caller()

    def still():
        try:
            return next(now)
        except StopIteration:
            raise UnauthorizedError("ended") from None

    def step():
        with acting_still():
            return current()

    with acting_as(before, still):
        work = carried(step)
        assert step() != before
        assert current() == before
    assert work() != before
    with pytest.raises(UnauthorizedError):
        work()
    with acting_as(before):
        assert step() == before
    with acting_still():
        pass
