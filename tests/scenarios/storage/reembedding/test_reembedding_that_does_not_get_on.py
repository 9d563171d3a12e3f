"""Why a collection is not switched to its new vectors is said in a sentence."""

from __future__ import annotations

from itertools import count

import pytest

from tests.scenarios.storage.reembedding.switching import add, complete, reembed, state
from tests.support.live import eventually
from tests.support.model_server import DIMENSION, as_json, openai_answer

REFUSED = as_json({"error": {"message": "too long"}}, 400)


def test_a_collection_written_faster_than_it_is_embedded_is_told(app, client, name, connection, models_up, monkeypatch):
    beside, numbers = app.test_client(), count(5)

    def embedded_while_written(body):
        if any("Text" in text for text in body["input"]):
            add(beside, name, next(numbers))
        return openai_answer(body)

    with monkeypatch.context() as patch:
        patch.setitem(models_up.routes, "/v1/embeddings", embedded_while_written)
        reembed(client, name, connection=connection)
        error = eventually(lambda: state(client, name)["error"])
        assert "written faster than it is embedded" in error
        done = state(client, name)["documents_done"]
        eventually(lambda: state(client, name)["documents_done"] > done)
        assert state(client, name)["status"] == "running"
    complete(client, name)
    assert state(client, name)["error"] is None


@pytest.fixture
def refuse(models_up, monkeypatch):
    """`refuse(is_refused)`: the stub refuses requests whose texts are, and the list of these numbers grows by each."""

    def refuse(is_refused):
        asked = []

        def answer(body):
            asked.append(len(body["input"]))
            return REFUSED if is_refused(body["input"]) else openai_answer(body)

        monkeypatch.setitem(models_up.routes, "/v1/embeddings", answer)
        return asked

    return refuse


@pytest.mark.parametrize("refused", ["d0", "d41", "d99"])
def test_the_document_whose_text_is_refused_is_named_until_it_is_erased(client, name, connection, refuse, refused):
    add(client, name, *range(5, 150))
    asked = refuse(lambda texts: f"Text {refused[1:]}" in texts)
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    said = state(client, name)
    assert said["error"].startswith(f"Document '{refused}' is refused by connection '{connection}': ")
    assert said["error"].endswith("(HTTP 400): too long")
    assert len(asked) <= 4 + 2 + 6 + 2  # the hundred, by 32, its half, smaller ones, the text alone and another one
    assert client.post("/api/erase", json={"collection": name, "document": refused}).status_code == 200
    assert refused not in state(client, name)["error"]
    assert reembed(client, name, connection=connection).json["status"] == "running"
    complete(client, name)


@pytest.mark.parametrize(
    "is_refused", [lambda texts: True, lambda texts: len(texts) > 3], ids=["everything", "many at once"]
)
def test_no_document_is_blamed_for_what_every_one_is_refused_for(client, name, connection, refuse, is_refused):
    asked = refuse(is_refused)
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    assert state(client, name)["error"] == "The embedding service 'openai' refuses the request (HTTP 400): too long"
    assert len(asked) <= 6


def test_a_collections_own_metadata_are_not_taken_for_the_state(client, name):
    client.patch(f"/collections/{name}/metadata", json={"metadata": {"reembedding": "of spring"}})
    assert client.post("/api/erase", json={"collection": name, "document": "d1"}).status_code == 200
    assert client.get(f"/collections/{name}").json["metadata"]["reembedding"] == "of spring"


def test_metadata_that_are_nearly_too_large_are_refused_and_nothing_is_left(client, name, connection):
    client.put(f"/collections/{name}/metadata", json={"metadata": {"text": "x" * 65_500}})
    before = client.get(f"/collections/{name}").json
    answer = reembed(client, name, connection=connection)
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_metadata"), answer.json
    assert answer.json["details"] == {"field": "metadata", "limit": 65_536}
    assert "embedding_connection of the new vectors" in answer.json["error"]
    assert client.get(f"/collections/{name}/reembed").json["code"] == "reembedding_not_found"
    assert client.get(f"/collections/{name}").json == before


@pytest.mark.parametrize("is_opened_anew", [False, True])
def test_a_model_whose_dimension_changes_ends_it_and_the_next_one_has_the_new_dimension(
    client, name, connection, models_up, monkeypatch, is_opened_anew
):
    def open_anew(batch_size):
        config = {"url": f"{models_up.url}/v1", "model": "newer", "batch_size": batch_size}
        assert client.put(f"/api/connections/{connection}", json={"config": config}).status_code == 200

    def changed(body):
        data = [{"index": index, "embedding": [1.0] * 12} for index, _ in enumerate(body["input"])]
        return as_json({"data": data, "model": "newer"})

    def changes(body):
        monkeypatch.setitem(models_up.routes, "/v1/embeddings", changed)
        if is_opened_anew:
            open_anew(10)
            models_up.is_down = True
        return openai_answer(body)

    add(client, name, *range(5, 150))
    models_up.script[:] = [*[openai_answer] * 3, changes]
    reembed(client, name, connection=connection)
    if is_opened_anew:
        eventually(lambda: state(client, name)["documents_done"] == 100)
        models_up.is_down = False
    eventually(lambda: state(client, name)["status"] == "failed")
    said = state(client, name)
    assert said["documents_done"] == 100
    assert "of dimension 12" in said["error"]
    assert str(DIMENSION) in said["error"]
    assert client.delete(f"/collections/{name}/reembed").status_code == 200
    open_anew(20)
    assert reembed(client, name, connection=connection).status_code == 202
    complete(client, name)
    assert client.get(f"/collections/{name}").json["dimension"] == 12
