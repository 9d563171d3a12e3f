"""The local model is loaded before the first question when there is something to search."""

from tests.support.apps import running_app
from tests.support.live import eventually


def _model(app):
    return app.extensions["rag.layers"].connections.open("default", "embedding")


def test_a_service_with_texts_loads_the_model_before_it_is_asked(tmp_path, processes):
    with running_app(tmp_path) as app:
        assert _model(app)._loaded == {}
        document = {"source": "warm", "path": "/up", "title": "Warm up", "text": "A text to ask about."}
        assert app.test_client().post("/api/rag/ingest", json=document).status_code == 200
    with running_app(tmp_path) as again:
        eventually(lambda: _model(again)._loaded != {})
