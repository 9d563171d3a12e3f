"""Seed 003, "Provider Initialization with Schema" and "Provider Capabilities Declaration", for every provider."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from providers import base
from providers.base import CAPABILITIES, ProviderContext, capabilities
from schemas.connections import InvalidConfigurationError
from schemas.errors import ConfigurationError, UnsupportedError
from tests.providers.contracts.harnesses import HARNESSES


def test_every_registered_provider_is_held_to_its_contract(registry):
    assert set(HARNESSES) == {entry.id for entry in registry.entries("rag")}
    assert all(entry.viable for entry in registry.entries("rag"))


def test_the_connection_schema_is_exposed(provider):
    schema = provider.connection_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert all("title" in field for field in schema["properties"].values())


def test_a_valid_configuration_initializes(provider, backend):
    assert provider.config.items() >= backend[1].config.items()


@pytest.mark.parametrize("config", [{"no_such_field": 1}, {"match_threshold": -1}, {"partial_threshold": "near"}])
def test_a_configuration_that_does_not_fit_the_schema_is_refused_by_field(provider, backend, config):
    _, found = backend
    with pytest.raises(InvalidConfigurationError) as raised:
        type(provider)({**found.config, **config}, found.context)
    (fault,) = raised.value.details["errors"]
    assert fault["pointer"] == f"/{next(iter(config))}"
    assert raised.value.details["error_type"] == "invalid_config"


def test_the_capabilities_are_what_is_implemented(provider, backend, registry):
    assert set(capabilities(type(provider))) == set(backend[1].capabilities)
    assert registry.entry(provider.id, "rag").capabilities == capabilities(type(provider))


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_capability_that_is_missing_is_refused_with_those_who_have_it(provider, registry, capability):
    if capability in capabilities(type(provider)):
        assert registry.require(provider, CAPABILITIES[capability]) is provider
        return
    with pytest.raises(UnsupportedError, match=f"cannot do '{capability}'") as raised:
        registry.require(provider, CAPABILITIES[capability])
    able = [entry.id for entry in registry.entries("rag") if capability in entry.capabilities]
    assert raised.value.details["allowed"] == able
    assert {"local", "chromadb-wrapper"} <= set(able)


def test_what_a_provider_needs_of_this_program_is_asked_for_when_connecting(registry):
    for name, config in (("local", {}), ("qdrant", {"path": "folder"})):
        with pytest.raises(ConfigurationError, match="this program has none"):
            registry.connect("rag", name, config, ProviderContext())


def test_nothing_is_imported_of_a_library_before_it_is_used(registry):
    missing = base.Library("no_such_library", "pip install no-such-library")
    qdrant = registry.entry("qdrant", "rag").provider
    lacking = type("Lacking", (qdrant,), {"libraries": (missing,)})
    assert lacking.unavailable_because() == "no_such_library is not installed: pip install no-such-library"
