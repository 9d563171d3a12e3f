"""Run every scenario twice: on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from schemas.settings import RetrievalSettings
from tests.support.apps import running_app

WRITING = RetrievalSettings(mcp_write=True)
"""The setting that offers all of MCP's tools."""


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def app(request, tmp_path_factory, processes):
    data_dir = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        with running_app(data_dir, retrieval=WRITING) as app:
            yield app
        return
    with (
        request.getfixturevalue("postgres").catalogue() as url,
        running_app(data_dir, retrieval=WRITING, catalog_url=url) as app,
    ):
        yield app
