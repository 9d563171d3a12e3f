"""Registration of providers: complete, unique, and listed even when they cannot be used."""

from importlib.metadata import EntryPoint

import pytest

from providers.base import Library, ProviderContext, RagProvider, SupportsSearch
from registry.provider_discovery import BUILTINS, Builtin, discover
from registry.provider_registry import ProviderNotFoundError, ProviderRegistry
from schemas.connections import KINDS
from schemas.errors import ConfigurationError, ConflictError
from tests.registry.test_connection_trial import Shelf


def test_a_registered_provider_is_listed_in_order_of_registration_and_others_are_not_found():
    class Cupboard(Shelf):
        id = "cupboard"

    registry = ProviderRegistry()
    registry.register(Shelf)
    registry.register(Cupboard)
    assert [entry.id for entry in registry.entries("rag")] == ["shelf", "cupboard"]
    assert registry.entries("llm") == []
    with pytest.raises(ProviderNotFoundError, match="Provider 'x' not found") as caught:
        registry.provider("rag", "x")
    assert caught.value.details["allowed"] == ["shelf", "cupboard"]


def test_a_provider_that_is_not_complete_of_an_unknown_type_or_registered_already_is_refused():
    class Half(RagProvider, SupportsSearch):
        id, display_name = "half", "Half"

        @classmethod
        def connection_schema(cls):
            return {"type": "object"}

    class Odd(Shelf):
        kind = "database"

    class Chat(Shelf):
        kind = "llm"

    registry = ProviderRegistry()
    with pytest.raises(ConfigurationError, match="does not implement check, collections, search"):
        registry.register(Half)
    with pytest.raises(ConfigurationError, match=", ".join(KINDS)):
        registry.register(Odd)
    registry.register(Shelf)
    registry.register(Chat)
    with pytest.raises(ConflictError, match="'shelf' of type rag already"):
        registry.register(Shelf)


def test_a_provider_whose_library_is_missing_is_listed_and_a_stranger_cannot_take_the_name_of_another():
    class Picky(Shelf):
        libraries = (Library("no_such_library", "pip install 'rag-wrapper[picky]'"),)

    registry = ProviderRegistry()
    registry.register(Picky)
    entry = registry.entry("shelf")
    assert not entry.viable
    assert entry.reason == "no_such_library is not installed: pip install 'rag-wrapper[picky]'"
    with pytest.raises(ConfigurationError, match="pip install"):
        registry.connect("rag", "shelf", {}, ProviderContext())
    strangers = [EntryPoint("local", "no_such_package:register", "rag.providers")]
    registry = ProviderRegistry()
    registry.register_missing("rag", "local", "first")
    discover(registry, builtins=(), strangers=strangers)
    assert [entry.reason for entry in registry.entries()] == ["first"]


def test_all_our_own_providers_are_here_and_can_be_used_and_one_that_cannot_be_imported_stays_listed():
    registry = discover(ProviderRegistry(), strangers=())
    assert [(entry.kind, entry.id) for entry in registry.entries()] == [(each.kind, each.id) for each in BUILTINS]
    assert {entry.id: entry.reason for entry in registry.entries() if not entry.viable} == {}
    registry = discover(ProviderRegistry(), [Builtin("rag", "lost", "providers.no_such_module")], strangers=())
    assert registry.entry("lost").reason == "providers.no_such_module cannot be imported"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_package:register", "it needs the module 'no_such_package'"),
        ("registry.provider_discovery:no_such_function", "its registration failed: AttributeError"),
        ("builtins:int", "its registration failed: TypeError"),
    ],
)
def test_a_strangers_package_that_fails_stays_listed_and_harms_nobody(value, reason):
    strangers = [
        EntryPoint("embedding.broken", value, "rag.providers"),
        EntryPoint("fine", "builtins:id", "rag.providers"),
    ]
    registry = discover(ProviderRegistry(), builtins=(), strangers=strangers)
    [entry] = registry.entries()
    assert (entry.kind, entry.id, entry.viable) == ("embedding", "broken", False)
    assert entry.reason.startswith(reason)
