"""Commands that ask a service in this process, the folders that they load, and files of exports."""

import hashlib
import uuid

import orjson
import pytest
from click.testing import CliRunner

from interfaces.cli import main
from interfaces.commands.work.collection_files import MANIFEST
from tests.support.apps import served


@pytest.fixture(scope="module")
def url(app):
    with served(app) as url:
        yield url


@pytest.fixture
def root(tmp_path):
    """A folder with a name that no other test uses."""
    root = tmp_path / f"notes {uuid.uuid4().hex[:8]}"
    root.mkdir()
    return root


@pytest.fixture
def run(url, collection, client):
    """`run(command, …)`: (exit code, output, lines on stderr) of a command for the collection of the test."""

    def run(command, *arguments):
        result = CliRunner().invoke(main, [command, *map(str, arguments), "--collection", collection, "--url", url])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout.removeprefix(f"{collection}: "), result.stderr.splitlines()

    yield run
    client.delete(f"/collections/{collection}")


@pytest.fixture
def exported(tmp_path):
    """`exported(model)`: the folder of an export of 300 documents with vectors of that model."""

    def export(model):
        content = b"".join(orjson.dumps({"id": f"d{n}", "embedding": "AACAPwAAAAA="}) + b"\n" for n in range(300))
        told = {"name": "docs", "file": "docs.ndjson", "count": 300, "bytes": len(content)}
        described = {"sha256": hashlib.sha256(content).hexdigest(), "metric": "cosine", "dimension": 2}
        metadata = {"hnsw:M": 8} | ({} if model is None else {"embedding_model": model})
        named = {"metadata": metadata, "embedding_model": model if isinstance(model, str) else None}
        manifest = {"format": "rag-wrapper export", "version": 1, "collections": [{**told, **described, **named}]}
        (tmp_path / "docs.ndjson").write_bytes(content)
        (tmp_path / MANIFEST).write_bytes(orjson.dumps(manifest))
        return tmp_path

    return export
