"""Pages by both routes, and quickly started apps with settings of their own on an engine that never answers."""

import json
from contextlib import contextmanager

import pytest

from schemas.settings import WrapperSettings
from tests.support.contract import CheckedClient
from wrapper import create_app

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def open_client(tmp_path):
    """`with open_client(max_body_mb=1) as client:` gives a client of an app without an engine."""

    @contextmanager
    def open_client(access=None, **settings):
        app = create_app(
            WrapperSettings(
                data_dir=tmp_path,
                chroma_url=NOBODY,
                log_level="error",
                log_format="json",
                **{"disk_floor_mb": 1, "write_wait_seconds": 0.0, **settings},
            ),
            access,
        )
        app.test_client_class = CheckedClient
        try:
            yield app.test_client()
        finally:
            app.extensions["rag.service"].close()

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
