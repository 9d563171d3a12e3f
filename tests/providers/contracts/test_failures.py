"""All providers that have a server report its failures in the same way."""

from __future__ import annotations

import pytest

from providers.base import ProviderContext
from providers.contract_tests import FailureTests
from providers.contract_tests.failures import SECRET
from providers.contract_tests.stub_server import serving
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry

REMOTE = [
    entry.id
    for entry in discover(ProviderRegistry(), strangers=()).entries("rag")
    if "url" in entry.provider.connection_schema()["properties"]
]


def at_once(seconds):
    """Replace the sleep of a provider that tries again."""


class TestEveryRemoteProvider(FailureTests):
    @pytest.fixture(autouse=True, params=REMOTE)
    def chosen(self, request, registry):
        self.kind = registry.provider("rag", request.param)

    def connect(self, url, api_key, context, *, timeout_seconds):
        return self.kind({"url": url, "api_key": api_key, "timeout_seconds": timeout_seconds}, context, sleep=at_once)


@pytest.mark.parametrize(
    ("name", "header"), [("chromadb-wrapper", "Authorization"), ("chromadb", "x-chroma-token"), ("qdrant", "api-key")]
)
def test_the_key_goes_where_the_server_looks_for_it(registry, name, header):
    with serving() as stub:
        config = {"url": stub.url, "api_key": SECRET}
        with registry.provider("rag", name)(config, ProviderContext(), sleep=at_once) as provider:
            provider.health()
        assert stub.requests
        assert all(SECRET in headers[header] for _, headers in stub.requests)
