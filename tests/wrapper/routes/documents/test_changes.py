"""The route of changes: its lines, its last line, what it refuses, and waiting."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import orjson
import pytest

from schemas.errors import NoThreadError
from schemas.records import Since
from schemas.storage.reembedding import EmbeddingModelDiffersError
from tests.support.live import PATIENCE_SECONDS, eventually, no_thread_begins
from wrapper.stores.following import Following
from wrapper.web.lanes import FOLLOWERS, NOBODY, Lane, _Turn

BOTH = [
    {"id": "a", "text": "one", "metadata": {"page": 1}, "embedding": [1, 0]},
    {"id": "b", "text": "two\nlines", "metadata": {}, "embedding": [0, 1]},
]


@pytest.fixture
def follow(client, collection):
    """`follow(since=…)` returns (lines, last line)."""

    def follow(**asked):
        answer = client.get(f"/collections/{collection}/changes", query_string=asked)
        assert (answer.status_code, answer.mimetype) == (200, "application/x-ndjson"), answer.get_data()
        *lines, last = [orjson.loads(line) for line in answer.get_data().splitlines()]
        return lines, last

    return follow


def following(last):
    """Return what to ask with next time."""
    return {"since": last["next"], **{name: last[name] for name in ("as_of", "history") if name in last}}


def test_who_begins_is_told_of_all_documents_and_then_of_what_changes(client, filled, follow):
    name = filled(BOTH)
    lines, last = follow()
    assert lines == [
        {"revision": 2, "op": "upsert", "id": "a", "text": "one", "metadata": {"page": 1}},
        {"revision": 2, "op": "upsert", "id": "b", "text": "two\nlines", "metadata": {}},
    ]
    assert last == {"next": 2, "history": last["history"], "more": False}
    assert follow(**following(last)) == ([], last)

    assert client.delete(f"/collections/{name}/documents", json={"ids": ["a"]}).status_code == 200
    assert client.patch(f"/collections/{name}/documents/b", json={"metadata": {"new": True}}).status_code == 200
    lines, last = follow(**following(last))
    assert lines == [
        {"revision": 3, "op": "delete", "id": "a"},
        {"revision": 4, "op": "upsert", "id": "b", "text": "two\nlines", "metadata": {"new": True}},
    ]
    assert (last["next"], last["more"]) == (4, False)


def test_lines_with_embeddings_are_lines_of_documents(client, filled, follow):
    name = filled(BOTH)
    lines, _ = follow(include="embedding")
    vectors = [np.frombuffer(base64.b64decode(line["embedding"]), dtype="<f4").tolist() for line in lines]
    assert vectors == [[1, 0], [0, 1]]
    copy = f"{name}-copy"
    assert client.post("/collections", json={"name": copy}).status_code == 201
    body = b"\n".join(
        orjson.dumps({key: value for key, value in line.items() if key not in ("revision", "op")}) for line in lines
    )
    added = client.post(f"/collections/{copy}/documents", data=body, content_type="application/x-ndjson")
    assert added.json["created"] == 2
    exports = [client.get(f"/collections/{each}/export").get_data() for each in (name, copy)]
    assert exports[0] == exports[1]


def test_a_copy_in_parts_is_told_what_to_ask_with(client, filled, follow):
    name = filled(BOTH)
    more = [{"id": "c", "text": "three", "embedding": [1, 1]}]
    assert client.post(f"/collections/{name}/documents", json={"documents": more}).status_code == 201
    lines, last = follow(limit=1)
    assert [line["id"] for line in lines] == ["a", "b"]
    assert last == {"next": 2, "as_of": 3, "history": last["history"], "more": True}
    assert client.delete(f"/collections/{name}/documents", json={"ids": ["a"]}).status_code == 200
    lines, last = follow(**following(last))
    assert [(line["op"], line["id"]) for line in lines] == [("upsert", "c"), ("delete", "a")]
    assert last == {"next": 4, "history": last["history"], "more": False}


@pytest.mark.parametrize("asked", [{"since": 99}, {"since": 2, "as_of": 99}, {"since": 2, "history": "another"}])
def test_a_revision_that_the_collection_never_had_is_too_old(client, filled, asked):
    answer = client.get(f"/collections/{filled(BOTH)}/changes", query_string=asked)
    assert (answer.status_code, answer.json["code"]) == (410, "too_old")
    assert answer.json["details"] == {"field": "since", "oldest": 0}


def test_a_copy_whose_embeddings_are_of_another_model_is_told_so(client, filled, follow):
    name = filled(BOTH)

    def refused(model):
        answer = client.get(f"/collections/{name}/changes", query_string={"embedding_model": model})
        assert (answer.status_code, answer.json["code"]) == (409, "embedding_model_differs")
        assert "None" not in answer.json["error"]
        return answer.json["details"]

    assert len(follow(embedding_model="")[0]) == 2
    assert refused("older") == {"given": "older"}
    body = {"metadata": {"embedding_model": "newer"}}
    assert client.put(f"/collections/{name}/metadata", json=body).status_code == 200
    assert len(follow(embedding_model="newer")[0]) == 2
    assert refused("older") == {"stored": "newer", "given": "older"}
    assert refused("") == {"stored": "newer", "given": ""}


def test_a_copy_of_another_model_does_not_wait_for_changes_that_it_cannot_have(client, filled, app):
    name = filled(BOTH)
    waiting = Following(app.extensions["rag.service"].store._catalog)
    with pytest.raises(EmbeddingModelDiffersError):
        waiting.wait(name, Since(2), 60, lambda: pytest.fail("it waits"), embedding_model="older")
    asked = {"since": 2, "wait": 60, "embedding_model": "older"}
    assert client.get(f"/collections/{name}/changes", query_string=asked).status_code == 409


def test_who_waits_is_answered_when_something_changes(client, filled, app):
    name = filled(BOTH)
    waiting = Following(app.extensions["rag.service"].store._catalog)
    looked = []
    with no_thread_begins(), pytest.raises(NoThreadError):
        waiting.wait(name, Since(2), 60, lambda: pytest.fail("it waits"))

    def is_gone():
        looked.append(threading.get_ident())
        return False

    def lookers():
        return sum(each.name == "followed changes" for each in threading.enumerate())

    with ThreadPoolExecutor(3) as threads, ExitStack() as stack:
        stack.callback(waiting.stop_waiting)
        waits = [threads.submit(waiting.wait, name, Since(2), 10 * PATIENCE_SECONDS, is_gone) for _ in range(3)]
        eventually(lambda: len(set(looked)) == 3 and lookers() == 1)
        assert not any(each.done() for each in waits)
        assert client.delete(f"/collections/{name}/documents", json={"ids": ["a"]}).status_code == 200
        for each in waits:
            each.result(PATIENCE_SECONDS)
    eventually(lambda: lookers() == 0)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


def test_nobody_waits_longer_than_asked_nor_for_who_is_gone_nor_while_the_service_stops(client, filled, app):
    name, catalog = filled(BOTH), app.extensions["rag.service"].store._catalog
    clock = Clock()
    Following(catalog, clock).wait(name, Since(2), 3, lambda: False)
    assert clock.now < 10
    Following(catalog).wait(name, Since(2), 60, lambda: True)
    stopping = Following(catalog)
    stopping.stop_waiting()
    stopping.wait(name, Since(2), 60, lambda: False)


def test_who_has_something_to_read_does_not_wait_for_those_who_have_not(client, filled, app):
    """Nor does a reader wait for those who follow."""
    name = filled(BOTH)
    lanes = app.extensions["rag.lanes"]
    with ExitStack() as places:
        for _ in range(FOLLOWERS):
            places.callback(lanes.enter(Lane.FOLLOWING, lambda: False))
        answer = client.get(f"/collections/{name}/changes", query_string={"since": 1, "wait": 60})
        assert [orjson.loads(line).get("id") for line in answer.get_data().splitlines()] == ["a", "b", None]
        assert client.get(f"/collections/{name}/documents").status_code == 200
        for _ in range(app.extensions["rag.service"].settings.max_queue):
            lanes._places[Lane.FOLLOWING]._waiting.append(_Turn(NOBODY))
        answer = client.get(f"/collections/{name}/changes", query_string={"since": 2, "wait": 60})
        assert (answer.status_code, answer.json["code"]) == (503, "busy")
        lanes._places[Lane.FOLLOWING]._waiting.clear()
