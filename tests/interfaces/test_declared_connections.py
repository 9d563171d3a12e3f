"""Connections that the configuration file declares."""

import os

import pytest
import yaml

from interfaces import secrets_warnings
from interfaces.start_checks import look_before_start
from registry.placeholders.resolving import Placeholders
from schemas.settings import RegistrySettings
from tests.interfaces.environ import environ
from tests.support.live import live_service
from tests.support.logs import logs_of

GOOD = {
    "type": "rag",
    "provider": "chromadb",
    "config": {"url": "http://127.0.0.1:9", "api_key": "${CHROMA_API_KEY}"},
    "display_name": "The books",
}


def file_of(tmp_path, **connections):
    path = tmp_path / "rag.yaml"
    path.write_text(yaml.safe_dump({"connections": connections}))
    return path


def test_a_declared_connection_is_there_for_all_and_cannot_be_changed(tmp_path, processes):
    path = file_of(tmp_path, books=GOOD)
    with live_service(tmp_path, workers=2, config_file=path) as service, service.session() as session:
        shown = session.get(f"{service.url}/api/connections/books").json()
        assert (shown["origin"], shown["display_name"]) == ("declared", "The books")
        assert (shown["config"], shown["secrets"]) == ({"url": "http://127.0.0.1:9"}, {"api_key": ["CHROMA_API_KEY"]})
        refused = session.delete(f"{service.url}/api/connections/books")
        assert (refused.status_code, refused.json()["code"]) == (409, "connection_read_only")
        taken = session.post(f"{service.url}/api/connections", json={"id": "books", **GOOD})
        assert taken.status_code == 409


@pytest.mark.parametrize(
    ("connection", "sentence"),
    [
        ({**GOOD, "provider": "pinecone"}, "connections.books: Provider 'pinecone' not found"),
        ({**GOOD, "type": "database"}, "connections.books: type must be one of"),
        (
            {**GOOD, "config": {"url": "nowhere"}},
            "connections.books: The configuration for 'chromadb' is not valid: URL",
        ),
        ({**GOOD, "config": {"api_key": "sk-planted"}}, "API key is a secret"),
        ({**GOOD, "config": {"url": "http://${HOME}"}}, "HOME is not among those allowed"),
        ({**GOOD, "config": ["x"]}, "connections.books.config must be a mapping"),
        ({**GOOD, "colour": "red"}, "connections.books has an unknown field 'colour'"),
        ("books", "must map ids to connections"),
    ],
)
def test_one_that_is_no_good_stops_the_start_with_a_sentence(tmp_path, monkeypatch, connection, sentence):
    settings = environ(data_dir=tmp_path / "data", config_file=file_of(tmp_path, books=connection))
    monkeypatch.setattr(os, "environ", settings)
    (problem,) = look_before_start().problems
    assert sentence in problem
    assert "sk-planted" not in problem


@pytest.mark.parametrize(
    ("hosts", "environ", "warnings"),
    [
        ((), {"OPENAI_API_KEY": "sk-planted"}, 1),
        (("OPENAI_API_KEY=api.openai.com",), {"OPENAI_API_KEY": "sk-planted"}, 0),
        ((), {"PATH": "/bin", "RAG_CHAT_API_KEY": "sk-planted"}, 0),
    ],
)
def test_the_start_warns_of_secrets_that_are_bound_to_no_host(monkeypatch, hosts, environ, warnings):
    logs = logs_of(monkeypatch, "interfaces.secrets_warnings")
    secrets_warnings.warn_of_free_secrets(RegistrySettings(secret_hosts=hosts), Placeholders(environ))
    assert ([entry["event"].count("RAG_SECRET_HOSTS") for entry in logs], "planted" in str(logs)) == (
        [1] * warnings,
        False,
    )
