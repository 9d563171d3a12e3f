"""Why a collection is not switched to its new vectors is said in a sentence."""

from __future__ import annotations

from itertools import count

from tests.scenarios.storage.reembedding import PATIENCE_SECONDS, add, complete, reembed, state
from tests.support.live import eventually
from tests.support.model_server import openai_answer


def test_a_collection_written_faster_than_it_is_embedded_is_told(app, client, name, connection, models_up, monkeypatch):
    beside, numbers = app.test_client(), count(5)

    def embedded_while_written(body):
        if any("Text" in text for text in body["input"]):
            add(beside, name, next(numbers))
        return openai_answer(body)

    with monkeypatch.context() as patch:
        patch.setitem(models_up.routes, "/v1/embeddings", embedded_while_written)
        reembed(client, name, connection=connection)
        error = eventually(lambda: state(client, name)["error"], seconds=PATIENCE_SECONDS)
        assert "written faster than it is embedded" in error
        done = state(client, name)["documents_done"]
        eventually(lambda: state(client, name)["documents_done"] > done, seconds=PATIENCE_SECONDS)
        assert state(client, name)["status"] == "running"
    complete(client, name)
    assert state(client, name)["error"] is None
