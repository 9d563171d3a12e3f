"""A service with documents, and clients of it."""

import pytest

from tests.support.live import live_service
from tests.support.mcp_clients import over_http, over_stdio


@pytest.fixture(scope="session")
def writing(tmp_path_factory, processes):
    """A service with two workers whose `/mcp` offers the tools that write."""
    with live_service(tmp_path_factory.mktemp("mcp"), mcp_write="on", workers=2) as service:
        yield service


@pytest.fixture(scope="session")
def stored(writing):
    """The service with documents to find, ingested as text."""
    documents = {
        "backups": "# Backups\n\nBackups run every night.\n\n## Retention\n\nThey are kept for thirty days.",
        "coffee": "The coffee machine on the second floor is cleaned every Friday.",
    }
    with writing.session() as session:
        for path, text in documents.items():
            body = {"source": "wiki", "path": path, "title": path.title(), "text": text}
            assert session.post(f"{writing.url}/api/rag/ingest", json=body).status_code == 200
        rule = {
            "filename": "rules/retention.md",
            "content": "# Retention rule\n\nBackups must be encrypted before they leave the building.",
            "metadata": {"source": "handbook", "doc_type": "ops", "last_update_date": "2026-01-31"},
        }
        batch = session.post(f"{writing.url}/api/rag/documents:batch", json={"documents": [rule]})
        assert batch.json()["documents_failed"] == 0
    return writing


@pytest.fixture(params=["http", "stdio"])
def connect(request, stored):
    """`connect()`: a client of the service with documents; over standard input through the command."""
    if request.param == "http":
        return lambda: over_http(stored.url)
    return lambda: over_stdio("--url", stored.url)
