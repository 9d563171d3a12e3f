"""Why a collection is not switched to its new vectors is said in a sentence."""

from itertools import count

import pytest

from tests.scenarios.storage.reembedding.conftest import add, complete, reembed, state
from tests.support.live import eventually
from tests.support.model_server import DIMENSION, as_json, openai_answer

REFUSED = as_json({"error": {"message": "too long"}}, 400)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_document_whose_text_is_refused_is_named_until_it_is_erased(client, name, connection, refuse):
    add(client, name, *range(5, 150))
    refused = "d41"
    asked = refuse(lambda texts: "Text 41" in texts)
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


@pytest.mark.slow
def test_a_model_whose_dimension_changes_ends_it_and_the_next_one_has_the_new_dimension(
    client, name, connection, models_up, monkeypatch
):
    def changed(body):
        data = [{"index": index, "embedding": [1.0] * 12} for index, _ in enumerate(body["input"])]
        return as_json({"data": data, "model": "newer"})

    def changes(body):
        monkeypatch.setitem(models_up.routes, "/v1/embeddings", changed)
        return openai_answer(body)

    add(client, name, *range(5, 150))
    models_up.script[:] = [*[openai_answer] * 3, changes]
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    said = state(client, name)
    assert said["documents_done"] == 100
    assert "of dimension 12" in said["error"]
    assert str(DIMENSION) in said["error"]
    assert client.delete(f"/collections/{name}/reembed").status_code == 200
    config = {"url": f"{models_up.url}/v1", "model": "newer", "batch_size": 20}
    assert client.put(f"/api/connections/{connection}", json={"config": config}).status_code == 200
    assert reembed(client, name, connection=connection).status_code == 202
    complete(client, name)
    assert client.get(f"/collections/{name}").json["dimension"] == 12
