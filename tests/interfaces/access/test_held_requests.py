"""Whoever holds a request open goes on with the rights of now: their key may end, be narrowed or stay while models
work for it, and while it is answered."""

import io
import json
import threading
import uuid
from contextlib import suppress

import pytest
from flask.testing import FlaskClient

from retrieval.rules import pipeline
from schemas.access.callers import Scope, acting_as, acting_still, carried, current
from schemas.errors import UnauthorizedError
from tests.access.faults import all_faults
from tests.interfaces.access.conftest import ENDS, Asking, code_of, mcp
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.support.model_server import as_events
from wrapper.web.callers import PART_BYTES, AnswerBrokenOffError

METADATA = {"source": "house", "doc_type": "ops", "last_update_date": "2026-01-31"}
RULES = [
    {"filename": f"{n}.md", "content": f"# Rule {n}\n\nThe door opens at {n}.", "metadata": METADATA} for n in range(3)
]
INGESTED = {"text": "NEW", "title": "Doors", "source": "house", "path": "NEW", "hash": "1", "tags": []}
FOR_MODELS = {
    "/api/search": (Scope.READ, {"query": "NEW", "oracles": ["semantic"], "collections": ["rag-documents"]}),
    "/tools/rag_context_search": (Scope.READ, {"query": "NEW"}),
    "/api/chat": (Scope.CHAT, {"message": "NEW", "conversationId": "held"}),
    "/api/rag/ingest": (Scope.WRITE, INGESTED),
    "/tools/rag_context_index": (Scope.WRITE, {"content": "NEW"}),
}
"""Requests for which a model works, with `NEW` for a text of their own."""
NOTES = {"session_note": "note", "session_end": "summary"}
"""The argument that becomes a note, of each tool that keeps one."""
LONG = "\n\n".join(f"# Part {number}\n\n" + f"Words of part {number}. " * 30 for number in range(100))
"""A Markdown text of a hundred chunks: several calls of the embedding service, also for an upload."""


def test_a_request_is_carried_out_for_a_key_that_stays_while_a_model_works_alone(clocked, admin):
    """For one that ends nothing is told and nothing kept."""
    with all_faults() as case:
        for path, (scope, body) in FOR_MODELS.items():
            for how in ENDS:
                with case(path, how):
                    _check_ended(Asking(clocked, scope), path, body, how)
            with case(path):
                asking = Asking(clocked, scope)
                asking.while_models_work(asking.stay)
                assert asking.post(path, body).status_code < 300
                assert len(asking.traces()) == (scope is not Scope.READ)


def _check_ended(asking, path, body, how):
    once = {"Idempotency-Key": str(uuid.uuid4())} if asking.scope is Scope.WRITE else {}
    asking.while_models_work(lambda: asking.end(how))
    answer = asking.post(path, body, **once)
    assert (answer.status_code, answer.json["code"]) == (401, code_of(how))
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert "So it is." not in answer.text
    assert asking.traces() == []
    if once and how != "revoked":
        asking.stay()
        again = asking.post(path, body, **once)
        assert (again.status_code < 300, "Idempotent-Replayed" in again.headers) == (True, False)
        assert len(asking.traces()) == 1


def test_a_note_is_kept_for_a_key_that_stays_alone(clocked):
    with all_faults() as case:
        for tool, argument in NOTES.items():
            for how in (*ENDS, None):
                with case(tool, how):
                    asking = Asking(clocked, Scope.WRITE)
                    started = mcp(asking.client, "session_start", asking.headers, name="doors")
                    assert not started.json["result"]["isError"]
                    asking.while_models_work(asking.stay if how is None else lambda a=asking, h=how: a.end(h))
                    answer = mcp(asking.client, tool, asking.headers, **{argument: asking.text})
                    assert answer.json["result"]["isError"] is (how is not None)
                    assert asking.traces() == ([] if how else ["rag-notes"])


def test_a_long_text_is_not_embedded_to_its_end(clocked):
    asking = Asking(clocked, Scope.WRITE)
    calls = asking.while_models_work(asking.end)
    body = {**INGESTED, "text": f"{asking.text}\n\n{LONG * 3}"}
    assert asking.post("/api/rag/ingest", body).status_code == 401
    assert (len(calls), asking.traces()) == (1, [])


@pytest.mark.parametrize(
    ("how", "code"),
    [("revoked", "key_revoked"), ("other scopes", "scope_missing"), ("other collections", "collection_forbidden")],
)
def test_a_file_that_is_embedded_for_a_key_that_ends_fails_with_those_that_are_left(clocked, admin, how, code):
    asking = Asking(clocked, Scope.WRITE)
    calls = asking.while_models_work(lambda: asking.end(how))
    files = [(io.BytesIO(f"{asking.text}\n\n{LONG}".encode()), "a.md"), (io.BytesIO(asking.text.encode()), "b.md")]
    form = {"file": files, "collection": f"docs-{uuid.uuid4()}"}
    place = f"/api/jobs/{asking.client.post('/api/documents', data=form, headers=asking.headers).json['job']['id']}"

    def job():
        return admin("GET", place).json

    eventually(lambda: job()["status"] in ("done", "failed"), complaint=lambda: str(job()))
    assert [(each["status"], each["code"]) for each in job()["files"]] == [("failed", code)] * 2
    assert (len(calls), asking.traces()) == (1, [])


@pytest.fixture
def ingested(clocked, admin):
    """`ingested(asking, then, at=0, **body)`: the answer to a batch of rules, in which `then` is done while the
    document at that index is embedded, and the file names that are stored by then."""

    def ingest(asking, then, at=0, **body):
        body = {"collection": f"rules-{uuid.uuid4()}", "documents": RULES, **body}
        asking.while_models_work(then, at)
        answer = asking.post("/api/rag/documents:batch", body)
        stored = admin("GET", f"/collections/{body['collection']}/documents").json["documents"]
        return answer, [each["metadata"]["path"] for each in stored]

    return ingest


@pytest.mark.parametrize("how", ENDS)
def test_a_batch_ends_with_the_rights_of_its_key_and_what_is_stored_by_then_stays(clocked, ingested, how):
    asking = Asking(clocked, Scope.WRITE)
    answer, stored = ingested(asking, lambda: asking.end(how), at=1)
    assert (answer.status_code, answer.json["code"]) == (401, code_of(how))
    told = answer.json["details"]
    assert (told["documents_processed"], told["documents_failed"], told["index"]) == (1, 0, 1)
    assert stored == ["0.md"]


def test_nothing_is_deleted_by_a_key_that_ended_after_the_last_document(clocked, ingested, monkeypatch):
    """Of a collection with three documents, two are named in the batch, and one of these is new."""
    asking = Asking(clocked, Scope.WRITE)
    name, delete_others = f"rules-{uuid.uuid4()}", pipeline._delete_others
    answer, stored = ingested(asking, lambda: None, collection=name)
    assert (answer.status_code, len(stored)) == (200, 3)
    monkeypatch.setattr(pipeline, "_delete_others", lambda *given: (asking.end(), delete_others(*given)))
    new = {**RULES[0], "filename": "new.md", "content": "# New\n\nThe door is new."}
    body = {"documents": [RULES[0], new], "replace_missing": True}
    answer, stored = ingested(asking, lambda: None, collection=name, **body)
    assert (answer.status_code, answer.json["details"]["documents_processed"]) == (401, 2)
    assert set(stored) == {"0.md", "1.md", "2.md", "new.md"}


def test_a_batch_goes_on_within_the_limits_of_now(clocked, ingested):
    asking = Asking(clocked, Scope.WRITE)
    limit = lambda: clocked.change(asking.key, Scope.WRITE, embedded_tokens_per_day=0)  # noqa: E731
    answer, stored = ingested(asking, limit)
    assert (answer.status_code, answer.json["details"]["limit"]) == (429, "embedded_tokens_per_day")
    assert answer.json["details"]["documents_processed"] == len(stored) == 1


# What other models are told.


@pytest.mark.parametrize("stream", [False, True])
def test_no_model_is_told_of_documents_for_a_key_that_ended_while_the_question_was_embedded(clocked, admin, stream):
    asking = Asking(clocked, Scope.CHAT, Scope.READ)
    calls = asking.while_models_work(asking.end)
    with suppress(AnswerBrokenOffError):
        assert asking.post("/api/chat", {"message": "NEW", "useRag": True, "stream": stream}).status_code == 401
    asked = [each.path for each in calls]
    assert "/v1/embeddings" in asked
    assert "/v1/chat/completions" not in asked


def test_no_question_is_embedded_for_a_key_that_has_ended(clocked):
    key, text = clocked.key(Scope.READ)
    access, embeddings = clocked.app.extensions["rag.access"], clocked.app.extensions["rag.layers"].embeddings
    caller = access.caller_with(text)
    clocked.models.requests.clear()
    with acting_as(caller, lambda: access.still(caller)):
        embeddings.embed("default", uuid.uuid4().hex)
        clocked.revoke(key)
        with pytest.raises(UnauthorizedError):
            embeddings.embed("default", uuid.uuid4().hex)
    assert len(clocked.models.requests) == 1


# While it is answered.


@pytest.mark.parametrize("says", ["nothing", "a word"])
def test_a_streamed_chat_ends_with_its_key_while_the_model_is_silent(clocked, says):
    asking = Asking(clocked, Scope.CHAT)
    words = [{"choices": [{"delta": {"content": "So"}}]}] if says == "a word" else []
    silent = as_events(*words, hung_up=threading.Event())
    silent.headers["Content-Length"] = "1000000"

    def answer(body):
        if says == "nothing":
            asking.end()
        return silent

    clocked.models.script.append(answer)
    body = {"message": "And?", "stream": True}
    given = FlaskClient(clocked.app).post("/api/chat", json=body, headers=asking.headers)
    if says == "nothing":
        assert (given.status_code, given.json["code"]) == (401, "key_revoked")
    else:
        parts = iter(given.response)
        assert b"So" in next(parts)
        asking.end()
        with pytest.raises(AnswerBrokenOffError):
            next(parts)
        given.close()
    assert silent.hung_up.wait(PATIENCE_SECONDS)


@pytest.mark.slow
def test_a_large_answer_is_given_to_its_end_to_a_key_that_ends_meanwhile_only_if_it_is_about_a_change(clocked, admin):
    large = {"id": "large", "text": "word " * (PART_BYTES // 4), "embedding": [1.0, 0.0]}
    assert admin("POST", "/collections/docs/documents", {"documents": [large]}).status_code == 202
    place, client = "/collections/docs/documents/large", FlaskClient(clocked.app)
    reading, writing = Asking(clocked, Scope.READ), Asking(clocked, Scope.WRITE)
    whole = client.get(place, headers=reading.headers)
    assert int(whole.headers["Content-Length"]) == len(whole.data) > PART_BYTES
    parts = iter(client.get(place, headers=reading.headers).response)
    assert len(next(parts)) == PART_BYTES
    changed = client.patch(place, json={"metadata": {"n": 1}}, headers=writing.headers)
    reading.end()
    writing.end()
    with pytest.raises(AnswerBrokenOffError):
        next(parts)
    told = b"".join(changed.response)
    assert int(changed.headers["Content-Length"]) == len(told) > PART_BYTES
    assert (changed.status_code, json.loads(told)["metadata"]) == (202, {"n": 1})
    assert admin("DELETE", "/collections/docs/documents", {"ids": ["large"]}).status_code in (200, 202)


def test_a_step_is_done_for_the_caller_of_then_in_every_thread_that_works_for_them(clocked):
    now = iter([clocked.key(Scope.WRITE)[0].caller() for _ in range(2)])
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
