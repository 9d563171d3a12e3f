"""What is erased of a collection is gone from the vectors that stand beside it, too, and nothing else is."""

from __future__ import annotations

import pytest

from tests.scenarios.storage.reembedding.switching import add, complete, nearest, reembed, state
from tests.support.live import eventually
from tests.support.model_server import openai_answer


@pytest.mark.parametrize("is_complete", [False, True])
def test_what_is_erased_is_gone_from_the_vectors_beside_too(app, client, name, connection, models_up, is_complete):
    add(client, name, *range(5, 150))
    if not is_complete:
        models_up.script[:] = [openai_answer] * 4
        models_up.script.append(lambda body: setattr(models_up, "is_down", True) or openai_answer(body))
    reembed(client, name, connection=connection)
    if is_complete:
        complete(client, name)
    else:
        eventually(lambda: state(client, name)["documents_done"] == 100)
    erased = client.post("/api/erase", json={"collection": name, "document": "d3"})
    assert erased.status_code == 200, erased.json
    with app.extensions["rag.service"].catalog.read() as transaction:
        counted = "SELECT count(*) FROM documents WHERE text = ?"
        assert transaction.row(counted, ("Text 3",)) == (0,)
        assert transaction.row(counted, ("Text 4",)) == (2,)
    models_up.reset()
    if not is_complete:
        complete(client, name)
    assert client.get(f"/collections/{name}").json["count"] == 149
    assert not state(client, name)["can_go_back"] or not is_complete


def test_the_reason_of_a_failure_names_nothing_that_is_erased(app, client, name, connection):
    client.post(
        f"/collections/{name}/documents",
        json={"documents": [{"id": "ada@example.org", "text": " ", "embedding": [1, 1, 1]}]},
    )
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    assert "ada@example.org" in state(client, name)["error"]
    assert client.post("/api/erase", json={"collection": name, "document": "ada@example.org"}).status_code == 200
    assert "ada@example.org" not in state(client, name)["error"]
    with app.extensions["rag.service"].catalog.read() as transaction:
        assert not [row for row in transaction.rows("SELECT metadata FROM collections") if "ada@example.org" in row[0]]
    reembed(client, name, connection=connection)
    complete(client, name)


def former_documents(erased):
    return [each["removed"] for each in erased.json["receipt"]["files"] if each["place"] == "former documents"]


def test_only_the_vectors_beside_lose_what_matched_once_and_does_not_now(client, name, connection):
    reembed(client, name, connection=connection)
    complete(client, name)
    for number, now in ((1, 10), (2, 20)):
        answer = client.patch(f"/collections/{name}/documents/d{number}", json={"metadata": {"n": now}})
        assert answer.status_code in (200, 202)
    client.delete(f"/collections/{name}/documents/d4")
    erased = client.post("/api/erase", json={"collection": name, "where": {"n": {"$in": [1, 3, 4]}}})
    assert erased.status_code == 200, erased.json
    assert erased.json["receipt"]["chunks"] == 2  # d3, and d4 as the old vectors had it
    assert former_documents(erased) == [1]  # d1
    left = client.get(f"/collections/{name}/documents").json["documents"]
    assert [each["id"] for each in left] == ["d0", "d1", "d2"]
    again = client.post("/api/erase", json={"collection": name, "where": {"n": 2}})
    assert again.status_code == 200, again.json
    assert (again.json["receipt"]["chunks"], former_documents(again)) == (0, [1])
    assert client.get(f"/collections/{name}").json["count"] == 3


def reembed_with_a_chunk(client, name, connection):
    """Re-embed the collection and chunk `a#0` of document `a`."""
    chunk = {"id": "a#0", "text": "A chunk", "embedding": [1, 1, 1], "metadata": {"document_id": "a"}}
    assert client.post(f"/collections/{name}/documents", json={"documents": [chunk]}).status_code in (201, 202)
    reembed(client, name, connection=connection)
    complete(client, name)


def test_a_chunk_that_is_another_documents_by_now_stays_when_its_former_document_is_erased(client, name, connection):
    reembed_with_a_chunk(client, name, connection)
    moved = client.patch(f"/collections/{name}/documents/a%230", json={"metadata": {"document_id": "b"}})
    assert moved.status_code in (200, 202), moved.json
    erased = client.post("/api/erase", json={"collection": name, "document": "a"})
    assert erased.status_code == 200, erased.json
    assert (erased.json["receipt"]["chunks"], former_documents(erased)) == (0, [1])
    assert client.get(f"/collections/{name}/documents/a%230").json["metadata"] == {"document_id": "b"}


def test_a_former_chunk_is_not_erased_without_its_document(client, name, connection):
    reembed_with_a_chunk(client, name, connection)
    assert client.delete(f"/collections/{name}/documents/a%230").status_code == 200
    refused = client.post("/api/erase", json={"collection": name, "document": "a#0"})
    assert (refused.status_code, refused.json["code"]) == (400, "chunk_of_document")


def test_what_matched_once_is_embedded_anew_after_an_erasure(client, name, connection, models_up):
    add(client, name, *range(5, 150))
    models_up.script[:] = [openai_answer] * 4
    models_up.script.append(lambda body: setattr(models_up, "is_down", True) or openai_answer(body))
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["documents_done"] == 100)
    assert client.patch(f"/collections/{name}/documents/d1", json={"metadata": {"n": 1000}}).status_code in (200, 202)
    assert client.post("/api/erase", json={"collection": name, "where": {"n": 1}}).status_code == 200
    models_up.reset()
    complete(client, name)
    assert client.get(f"/collections/{name}").json["count"] == 150
    assert [nearest(client, name, f"Text {number}") for number in range(5)] == [f"d{number}" for number in range(5)]


@pytest.mark.parametrize("told", ["planned for May", {"status": "running", "error": "of a user"}, None])
@pytest.mark.parametrize("is_reembedded", [False, True])
def test_metadata_of_a_user_are_not_taken_for_how_far_the_vectors_are(client, filled, connection, told, is_reembedded):
    name = filled(3, reembedding=told)
    if is_reembedded:
        reembed(client, name, connection=connection)
        complete(client, name)
    erased = client.post("/api/erase", json={"collection": name, "document": "d3"})
    assert erased.status_code == 200, erased.json
    after = client.get(f"/collections/{name}").json
    assert (after["count"], after["metadata"]["reembedding"]) == (4, told)
