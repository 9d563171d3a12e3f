"""Every registered provider of documents keeps the contract on each of its backends."""

from __future__ import annotations

import pytest

from providers.contract_tests import RagProviderTests
from schemas.errors import RagError


class TestEveryProvider(RagProviderTests):
    @pytest.fixture
    def provider(self, backend, provider):
        _, found = backend
        self.unsupported_filters = found.refused
        self.finds_at_once = found.finds_at_once
        return provider

    @pytest.fixture
    def gone(self, backend, registry):
        name, found = backend
        config, context = found.gone
        options = {"sleep": lambda seconds: None} if "url" in config else {}
        with registry.provider("rag", name)(config, context, **options) as provider:
            yield provider

    def test_the_capabilities_are_those_of_the_harness(self, provider, backend, registry):
        assert set(registry.entry(provider.id, "rag").capabilities) == set(backend[1].capabilities)

    def test_health_reports_what_the_service_says_of_itself(self, provider, backend):
        details = provider.health().details
        assert details.keys() >= backend[1].details
        assert details.get("storage_bytes", 1) > 0

    def test_a_page_without_the_service_is_an_error(self, gone):
        with pytest.raises(RagError):
            gone.documents("abc")
