"""Resolve placeholders of a planted environment and a directory of secrets."""

import pytest

from registry.placeholders.resolving import Placeholders

ENVIRON = {
    "OPENAI_API_KEY": "sk-planted",
    "RAG_THEIR_URL": "http://127.0.0.1:1",
    "RAG_BATCH": "7",
    "RAG_EMPTY": "",
    "RAG_CATALOG_URL": "postgresql+psycopg://db/planted",
    "SOME_DATABASE_URL": "postgresql://me:planted@db/",
    "QUOTED_URL": '"http://host"',
    "TOKEN_URL": "http://host/?token=planted",
    "CHROMA_HOST": "chroma.internal",
    "PATH": "/planted",
    "openai_api_key": "planted",
}
SECRETS = {"properties": {key: {"writeOnly": True} for key in ("a", "k", "key", "fine", "a/b")}}
ADDRESS = {"properties": {"url": {"type": "string", "format": "uri"}}}


@pytest.fixture
def secret_dir(tmp_path):
    directory = tmp_path / "secrets"
    directory.mkdir()
    (directory / "key").write_text("sk-from-file\n")
    return directory


@pytest.fixture
def placeholders(secret_dir):
    return Placeholders(ENVIRON, secret_dirs=[secret_dir])
