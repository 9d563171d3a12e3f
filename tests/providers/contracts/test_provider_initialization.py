"""Contract *storage*, "Provider Initialization with Schema" and "Provider Capabilities Declaration", is kept by every
provider."""

from __future__ import annotations

import pytest

from providers import base
from providers.base import CAPABILITIES, ProviderContext, capabilities
from schemas.connections import InvalidConfigurationError
from schemas.errors import ConfigurationError, UnsupportedError
from tests.providers.contracts.harnesses import HARNESSES


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


def test_the_capabilities_are_those_implemented(provider, backend, registry):
    assert set(capabilities(type(provider))) == set(backend[1].capabilities)
    assert registry.entry(provider.id, "rag").capabilities == capabilities(type(provider))


def test_a_missing_capability_is_refused_with_the_providers_that_have_it(provider, registry):
    for capability, ability in CAPABILITIES.items():
        if capability in capabilities(type(provider)):
            assert registry.require(provider, ability) is provider
            continue
        with pytest.raises(UnsupportedError, match=f"cannot do '{capability}'") as raised:
            registry.require(provider, ability)
        able = [entry.id for entry in registry.entries("rag") if capability in entry.capabilities]
        assert raised.value.details["allowed"] == able
        assert {"local", "chromadb-wrapper"} <= set(able)


def test_a_missing_part_of_the_program_is_reported_when_connecting(registry):
    for name, config in (("local", {}), ("qdrant", {"path": "folder"})):
        with pytest.raises(ConfigurationError, match="this program has none"):
            registry.connect("rag", name, config, ProviderContext())


def test_a_library_is_not_imported_before_it_is_used(registry):
    missing = base.Library("no_such_library", "pip install no-such-library")
    qdrant = registry.entry("qdrant", "rag").provider
    lacking = type("Lacking", (qdrant,), {"libraries": (missing,)})
    assert lacking.unavailable_because() == "no_such_library is not installed: pip install no-such-library"
