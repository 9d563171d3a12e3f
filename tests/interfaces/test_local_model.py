"""The local model: it is loaded before the first question when there is something to search, and measured by the
operator's calibration, `RAG_EMBEDDING_CALIBRATION`."""

import json

import pytest

from interfaces.model_checks import check_models, own_calibrations
from schemas.errors import ConfigurationError
from schemas.settings import RegistrySettings
from tests.support.apps import running_app
from tests.support.live import eventually

CURVE = {"models": ["all-MiniLM-L6-v2"], "midpoint": 0.9, "slope": 50, "missing_words": 0, "min_relevance": 0.7}
QUESTION = {"query": "backups", "context_key": "a:b"}


def settings_of(tmp_path, content):
    file = tmp_path / "calibration.json"
    file.write_text(content)
    return RegistrySettings(embedding_calibration=str(file))


def test_without_the_setting_there_is_none():
    assert own_calibrations(RegistrySettings()) == {}


@pytest.mark.parametrize("content", ["{", "[]", json.dumps(CURVE | {"slope": -1})])
def test_a_faulty_file_stops_the_start_with_the_name_of_the_setting(tmp_path, content):
    with pytest.raises(ConfigurationError, match="RAG_EMBEDDING_CALIBRATION: "):
        check_models(settings_of(tmp_path, content))
    with pytest.raises(ConfigurationError, match=r"RAG_EMBEDDING_CALIBRATION: .*nowhere.* cannot be read"):
        check_models(RegistrySettings(embedding_calibration=str(tmp_path / "nowhere.json")))


def _model(app):
    return app.extensions["rag.layers"].connections.open("default", "embedding")


def test_a_service_with_texts_loads_the_model_before_it_is_asked_and_measures_by_the_curve_of_the_file(
    tmp_path, processes
):
    document = {"source": "handbook", "path": "/b", "title": "Backups", "text": "Backups run every night."}
    with running_app(tmp_path / "data") as app:
        assert _model(app)._loaded == {}
        assert app.test_client().post("/api/rag/ingest", json=document).status_code == 200
    with running_app(tmp_path / "data", registry=settings_of(tmp_path, json.dumps(CURVE))) as app:
        eventually(lambda: _model(app)._loaded != {})
        client = app.test_client()
        [found] = client.post("/api/rag/search", json={"query": "backups"}).json["results"]
        assert 0.5 < found["score"] < 0.9
        assert found["relevance"] < 0.5
        assert client.post("/api/rag/retrieve", json=QUESTION).json["meets_threshold"] is False
        [same] = client.post("/api/rag/retrieve", json=QUESTION | {"min_relevance": 0}).json["document_chunks"]
        assert same["relevance_score"] == pytest.approx(found["relevance"])
