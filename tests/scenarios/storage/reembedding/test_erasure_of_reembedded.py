"""What is erased of a collection is gone from the vectors that stand beside it, too, and nothing else is."""

import pytest

from tests.scenarios.databases import ON_BOTH
from tests.scenarios.storage.reembedding.conftest import add, complete, nearest, reembed, state
from tests.support.live import eventually
from tests.support.model_server import openai_answer
from wrapper.catalog.names.beside import with_beside
from wrapper.catalog.rows import named


def former_documents(erased):
    return [each["removed"] for each in erased.json["receipt"]["files"] if each["place"] == "former documents"]


@pytest.mark.slow
@ON_BOTH
def test_what_is_erased_is_gone_from_the_vectors_beside_too(app, client, name, connection):
    reembed(client, name, connection=connection)
    complete(client, name)
    assert texts_of(app, name, "Text 3") == 2
    assert client.post("/api/erase", json={"collection": name, "document": "d3"}).status_code == 200
    assert (texts_of(app, name, "Text 3"), texts_of(app, name, "Text 4")) == (0, 2)
    assert client.get(f"/collections/{name}").json["count"] == 4


def texts_of(app, name, text):
    """Return how often a text stands in a collection and beside it."""
    with app.extensions["rag.service"].catalog.read() as transaction:
        keys = [each.key for each in with_beside(transaction, named(transaction, name))]
        counted = "SELECT count(*) FROM documents WHERE text = ? AND collection_key = ?"
        return sum(transaction.row(counted, (text, key))[0] for key in keys)


@pytest.mark.slow
def test_what_is_erased_while_vectors_are_made_is_made_no_more_and_what_matched_once_is_made_anew(
    app, client, name, connection, models_up
):
    add(client, name, *range(5, 150))
    models_up.script[:] = [openai_answer] * 4
    models_up.script.append(lambda body: setattr(models_up, "is_down", True) or openai_answer(body))
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["documents_done"] == 100)
    assert client.patch(f"/collections/{name}/documents/d1", json={"metadata": {"n": 1000}}).status_code in (200, 202)
    erased = client.post("/api/erase", json={"collection": name, "where": {"n": {"$in": [1, 3]}}})
    assert erased.status_code == 200, erased.json
    assert [texts_of(app, name, f"Text {number}") for number in (1, 3, 4)] == [1, 0, 2]
    models_up.reset()
    complete(client, name)
    assert client.get(f"/collections/{name}").json["count"] == 149
    assert [nearest(client, name, f"Text {number}") for number in (0, 1, 2, 4)] == ["d0", "d1", "d2", "d4"]


@pytest.mark.slow
def test_what_no_model_can_do_fails_with_a_sentence_that_names_nothing_erased_and_goes_on_when_asked_again(
    app, client, name, connection
):
    textless = {"documents": [{"id": "ada@example.org", "text": " ", "embedding": [1, 1, 1]}]}
    assert client.post(f"/collections/{name}/documents", json=textless).status_code in (201, 202)
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    assert "'ada@example.org' has no text" in state(client, name)["error"]
    assert client.post("/api/erase", json={"collection": name, "document": "ada@example.org"}).status_code == 200
    assert "ada@example.org" not in state(client, name)["error"]
    with app.extensions["rag.service"].catalog.read() as transaction:
        assert not [row for row in transaction.rows("SELECT metadata FROM collections") if "ada@example.org" in row[0]]
    assert reembed(client, name, connection=connection).json["status"] == "running"
    complete(client, name)


@pytest.mark.slow
@ON_BOTH
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


@pytest.mark.slow
def test_a_former_chunk_is_erased_with_its_former_document_alone(client, name, connection):
    """Nor does that take the chunk that is another document's by now."""
    chunks = [
        {"id": f"{of}#0", "text": "A chunk", "embedding": [1, 1, 1], "metadata": {"document_id": of}}
        for of in ("a", "gone")
    ]
    assert client.post(f"/collections/{name}/documents", json={"documents": chunks}).status_code in (201, 202)
    reembed(client, name, connection=connection)
    complete(client, name)
    moved = client.patch(f"/collections/{name}/documents/a%230", json={"metadata": {"document_id": "b"}})
    assert moved.status_code in (200, 202), moved.json
    erased = client.post("/api/erase", json={"collection": name, "document": "a"})
    assert erased.status_code == 200, erased.json
    assert (erased.json["receipt"]["chunks"], former_documents(erased)) == (0, [1])
    assert client.get(f"/collections/{name}/documents/a%230").json["metadata"] == {"document_id": "b"}
    assert client.delete(f"/collections/{name}/documents/gone%230").status_code == 200
    refused = client.post("/api/erase", json={"collection": name, "document": "gone#0"})
    assert (refused.status_code, refused.json["code"]) == (400, "chunk_of_document")


@pytest.mark.slow
@pytest.mark.parametrize("told", ["planned for May", {"status": "running", "error": "of a user"}, None])
def test_metadata_of_a_user_are_not_taken_for_how_far_the_vectors_are(client, filled, connection, told):
    name = filled(3, reembedding=told)
    for count, document in ((4, "d3"), (3, "d2")):
        erased = client.post("/api/erase", json={"collection": name, "document": document})
        assert erased.status_code == 200, erased.json
        after = client.get(f"/collections/{name}").json
        assert (after["count"], after["metadata"]["reembedding"]) == (count, told)
        reembed(client, name, connection=connection)
        complete(client, name)
