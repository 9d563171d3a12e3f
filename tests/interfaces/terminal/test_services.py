"""Which service a command asks, and that it answers alike from a service and from its data directory alone."""

import json

import pytest
import requests

from interfaces.terminal import services
from schemas.errors import ConfigurationError
from tests.support.commands import run_command
from tests.support.live import start_service

ASKED = (
    ("search", "when do backups run?", "--json"),
    ("ask", "when do backups run?"),
    ("documents",),
)
UNHURRIED = {"retrieve_seconds": 100}
"""A busy machine may take long to load the model; an oracle that is late is missing in an answer."""


def shown(command, data_dir):
    done = run_command(*command, "--data-dir", data_dir, **UNHURRIED)
    if "--json" not in command:
        return done.returncode, done.stdout, done.stderr
    answer = json.loads(done.stdout)
    for oracle in answer["receipt"]["oracles"].values():
        oracle.pop("latency_ms", None)
    return done.returncode, answer, done.stderr


def test_a_service_and_its_data_directory_answer_alike(tmp_path, processes):
    service = start_service(tmp_path, workers=1, **UNHURRIED)
    try:
        body = {"source": "wiki", "path": "/b", "title": "Backups", "text": "Backups run every night."}
        assert requests.post(f"{service.url}/api/rag/ingest", json=body, timeout=60).status_code == 200
        served = [shown(command, service.data_dir) for command in ASKED]
        assert "healthy, version" in shown(("status",), service.data_dir)[1]
    finally:
        service.stop()
    alone = [shown(command, service.data_dir) for command in ASKED]
    assert alone == served
    assert [each[0] for each in alone] == [0, 0, 0]


def test_a_directory_without_data_is_not_made(tmp_path):
    nothing = tmp_path / "nothing"
    with pytest.raises(ConfigurationError, match="No data is in"), services.service_to_ask(None, nothing):
        pass
    assert not nothing.exists()


def test_without_a_service_and_data_the_sentence_names_both(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAG_PORT", "1")
    with (
        pytest.raises(ConfigurationError, match=r"No service answers at http://127\.0\.0\.1:1, and no data is in"),
        services.service_to_ask(None, None),
    ):
        pass
