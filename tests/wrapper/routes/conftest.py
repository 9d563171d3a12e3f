"""Pages by both routes, and quickly started apps with settings of their own on an engine that never answers."""

import json
from contextlib import contextmanager

import pytest

from schemas.settings import WrapperSettings
from tests.support.contract import CheckedClient
from wrapper import create_app

NOBODY = "http://127.0.0.1:9"
TWO_DOCUMENTS = [
    {"id": "a", "text": "one", "metadata": {"page": 1}, "embedding": [1.0, 0.0]},
    {"id": "b", "text": "two", "metadata": {"page": 2}, "embedding": [0.0, 1.0]},
]
WRITES_TO_TWO = {
    "add": ("POST", "/documents", {"documents": [{"text": "made id", "embedding": [0.5, 0.5]}]}),
    "replace metadata": ("PUT", "/metadata", {"metadata": {"language": "en"}}),
    "merge metadata": ("PATCH", "/metadata", {"metadata": {"language": "en"}}),
    "patch": ("PATCH", "/documents/a", {"text": "patched"}),
    "delete by ids": ("DELETE", "/documents", {"ids": ["a"]}),
    "delete by filter": ("DELETE", "/documents", {"where": {"page": 2}}),
    "empty": ("DELETE", "/documents/all", None),
    "delete the collection": ("DELETE", "", None),
}


def numbered_document(number, **metadata):
    return {"id": f"doc-{number}", "text": f"text {number}", "metadata": metadata, "embedding": [1.0, float(number)]}


@contextmanager
def app_without_engine(data_dir, access=None, **settings):
    app = create_app(
        WrapperSettings(
            data_dir=data_dir,
            chroma_url=NOBODY,
            log_level="error",
            log_format="json",
            **{"disk_floor_mb": 1, "write_wait_seconds": 0.0, **settings},
        ),
        access,
    )
    app.test_client_class = CheckedClient
    try:
        yield app
    finally:
        app.extensions["rag.service"].close()


@pytest.fixture
def open_client(tmp_path):
    """`with open_client(max_body_mb=1) as client:` gives a client of an app without an engine."""

    @contextmanager
    def open_client(access=None, **settings):
        with app_without_engine(tmp_path, access, **settings) as app:
            yield app.test_client()

    return open_client


@pytest.fixture(params=["GET", "POST"])
def page(request, client):
    """`page(name, **arguments)` returns a page by either route; filters are given as objects."""

    def get(name, **arguments):
        if "where" in arguments:
            arguments["where"] = json.dumps(arguments["where"])
        return client.get(f"/collections/{name}/documents", query_string=arguments)

    def post(name, **arguments):
        return client.post(f"/collections/{name}/documents/search", json=arguments)

    return get if request.param == "GET" else post
