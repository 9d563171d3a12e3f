"""Every registered provider of documents keeps the contract on each of its backends."""

import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers import base
from providers.base import CAPABILITIES, ProviderContext, capabilities
from providers.contract_tests import FailureTests, RagProviderTests
from providers.contract_tests.failures import SECRET
from providers.contract_tests.model import ModelCollection
from providers.contract_tests.samples import where
from providers.contract_tests.stub_server import serving
from registry.provider_discovery import discover
from registry.provider_registry import ProviderRegistry
from schemas.connections import InvalidConfigurationError
from schemas.errors import ConfigurationError, UnsupportedError
from tests.properties.strategies import documents, to_batch
from tests.providers.contracts.harnesses import HARNESSES


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

    def test_health_reports_what_the_service_says_of_itself(self, provider, backend):
        details = provider.health().details
        assert details.keys() >= backend[1].details
        assert details.get("storage_bytes", 1) > 0


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


def test_every_registered_provider_is_held_to_its_contract(registry):
    assert set(HARNESSES) == {entry.id for entry in registry.entries("rag")}
    assert all(entry.viable for entry in registry.entries("rag"))


@pytest.mark.parametrize("config", [{"match_threshold": -1}, {"partial_threshold": "near"}])
def test_a_threshold_that_does_not_fit_is_refused_by_field(provider, backend, config):
    _, found = backend
    with pytest.raises(InvalidConfigurationError) as raised:
        type(provider)({**found.config, **config}, found.context)
    (fault,) = raised.value.details["errors"]
    assert fault["pointer"] == f"/{next(iter(config))}"
    assert raised.value.details["error_type"] == "invalid_config"


def test_the_capabilities_are_those_implemented_and_a_missing_one_is_refused_with_the_providers_that_have_it(
    provider, backend, registry
):
    assert set(capabilities(type(provider))) == set(backend[1].capabilities)
    assert registry.entry(provider.id, "rag").capabilities == capabilities(type(provider))
    for capability, ability in CAPABILITIES.items():
        if capability in capabilities(type(provider)):
            assert registry.require(provider, ability) is provider
            continue
        with pytest.raises(UnsupportedError, match=f"cannot do '{capability}'") as raised:
            registry.require(provider, ability)
        able = [entry.id for entry in registry.entries("rag") if capability in entry.capabilities]
        assert raised.value.details["allowed"] == able
        assert {"local", "chromadb-wrapper"} <= set(able)


def test_a_missing_part_of_the_program_or_library_is_reported_when_connecting(registry):
    for name, config in (("local", {}), ("qdrant", {"path": "folder"})):
        with pytest.raises(ConfigurationError, match="this program has none"):
            registry.connect("rag", name, config, ProviderContext())
    missing = base.Library("no_such_library", "pip install no-such-library")
    qdrant = registry.entry("qdrant", "rag").provider
    lacking = type("Lacking", (qdrant,), {"libraries": (missing,)})
    assert lacking.unavailable_because() == "no_such_library is not installed: pip install no-such-library"


EXAMPLES, FILTERS_EACH = 30, 8


def test_generated_filters_select_what_the_model_selects(provider, backend):
    _, found = backend
    filters = st.lists(found.filters, min_size=1, max_size=FILTERS_EACH)

    @settings(max_examples=EXAMPLES)
    @given(documents(least=1, most=10, metadata=found.metadata), filters)
    def select(stored, conditions):
        name = f"test-{uuid.uuid4().hex[:16]}"
        provider.create_collection(name, {})
        try:
            provider.add_documents(name, to_batch(stored))
            model = ModelCollection(documents=stored)
            for condition in conditions:
                expected = {each.id for each in model.matching(condition)}
                page = provider.documents(name, where(condition), limit=100)
                assert {each.id for each in page.documents} == expected
                assert page.total == len(page.documents) == len(expected)
            near = provider.search(name, np.ones(4, "f4"), top_k=100, where=where(conditions[0]))
            assert {each.document.id for each in near} == {each.id for each in model.matching(conditions[0])}
        finally:
            provider.delete_collection(name)

    select()
