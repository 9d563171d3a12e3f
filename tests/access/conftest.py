"""Services with keys, on both databases, with two workers."""

from __future__ import annotations

import pytest

from tests.access.keyed import KeyedService
from tests.support.live import live_service

ADMIN_KEY = "an-administrators-key-for-tests"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def keyed(request, tmp_path_factory, models, processes):
    """A service that wants keys, with a collection of somebody else whose every text is a canary. It chats with the
    stub of `models`."""
    directory = tmp_path_factory.mktemp("keyed")
    settings = {
        "workers": 2,
        "api_key": ADMIN_KEY,
        "mcp_write": "on",
        "log_level": "info",
        "chat_provider": "openai",
        "chat_url": f"{models.url}/v1",
        "chat_model": "chatty",
    }
    if request.param == "sqlite":
        with live_service(directory, **settings) as service:
            yield KeyedService(service, ADMIN_KEY)
        return
    with (
        request.getfixturevalue("postgres").catalogue() as url,
        live_service(directory, **settings, catalog_url=url) as service,
    ):
        yield KeyedService(service, ADMIN_KEY, url)
