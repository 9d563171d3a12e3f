"""Which providers there are: an object that they are registered on, by name (seed 003, "RAG Provider Registry")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from providers.base import CAPABILITIES, Provider, ProviderContext, capabilities
from schemas.configuration import JsonSchema
from schemas.connections import KINDS
from schemas.errors import ConfigurationError, ConflictError, NotFoundError, UnsupportedError

AbilityT = TypeVar("AbilityT")


class ProviderNotFoundError(NotFoundError):
    code = "provider_not_found"
    summary = "Provider not found"

    def __init__(self, kind: str | None, name: str, known: list[str]) -> None:
        super().__init__(f"Provider '{name}' not found", provider=name, type=kind, allowed=known)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the catalogue of providers. `provider` is None when its module could not be imported; `reason` says
    why it cannot be used on this machine and what to do about it, None when it can."""

    kind: str
    id: str
    provider: type[Provider] | None
    reason: str | None

    @property
    def viable(self) -> bool:
        return self.reason is None

    @property
    def capabilities(self) -> list[str]:
        return capabilities(self.provider) if self.provider else []


class ProviderRegistry:
    """Providers by kind and name, in the order of their registration."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}

    def register(self, provider: type[Provider]) -> None:
        """Make a provider known. Raises ConflictError when its name is taken and ConfigurationError when it is not
        complete: a provider that cannot be used must not be found out by its first user."""
        if provider.kind not in KINDS:
            raise ConfigurationError(f"{provider.__name__}.kind must be one of {', '.join(KINDS)}")
        unwritten = sorted(getattr(provider, "__abstractmethods__", ()))
        if unwritten:
            raise ConfigurationError(f"Provider '{provider.id}' does not implement {', '.join(unwritten)}")
        self._add(Entry(provider.kind, provider.id, provider, provider.unavailable_because()))

    def register_missing(self, kind: str, name: str, reason: str) -> None:
        """List a provider whose module cannot be imported, with the sentence that says what to do."""
        self._add(Entry(kind, name, None, reason))

    def _add(self, entry: Entry) -> None:
        if (entry.kind, entry.id) in self._entries:
            raise ConflictError(f"There is a provider '{entry.id}' of type {entry.kind} already", provider=entry.id)
        self._entries[entry.kind, entry.id] = entry

    def entries(self, kind: str | None = None) -> list[Entry]:
        return [entry for entry in self._entries.values() if kind in (None, entry.kind)]

    def entry(self, name: str, kind: str | None = None) -> Entry:
        """The entry of that name; without a kind, the first of KINDS that has one. Raises ProviderNotFoundError."""
        for each in KINDS if kind is None else (kind,):
            if (each, name) in self._entries:
                return self._entries[each, name]
        raise ProviderNotFoundError(kind, name, [entry.id for entry in self.entries(kind)])

    def schema(self, name: str, kind: str | None = None) -> JsonSchema:
        """The schema of a provider's connections, by default of whatever kind; empty for one that is not known."""
        found = [entry.provider for entry in self.entries(kind) if entry.id == name and entry.provider is not None]
        return found[0].connection_schema() if found else {}

    def provider(self, kind: str, name: str) -> type[Provider]:
        """The class to connect with. Raises ProviderNotFoundError, or ConfigurationError with the reason when it
        cannot be used on this machine."""
        entry = self.entry(name, kind)
        if entry.provider is None or not entry.viable:
            raise ConfigurationError(
                f"Provider '{name}' cannot be used here: {entry.reason}", provider=name, error_type="invalid_config"
            )
        return entry.provider

    def connect(self, kind: str, name: str, config: Mapping[str, Any], context: ProviderContext) -> Provider:
        """A connection with that configuration (seed 003, "RAG Provider Selection"). Raises what `provider` raises and
        InvalidConfigurationError; asks no service yet."""
        return self.provider(kind, name)(config, context)

    def require(self, provider: Provider, ability: type[AbilityT]) -> AbilityT:
        """The provider as one that has this ability. Raises UnsupportedError naming the capability and who has it."""
        if isinstance(provider, ability):
            return provider
        name = next(name for name, kind in CAPABILITIES.items() if kind is ability)
        able = [entry.id for entry in self.entries() if name in entry.capabilities]
        raise UnsupportedError(
            f"Provider '{provider.id}' cannot do '{name}'; {', '.join(able) or 'no provider'} can",
            code="capability_missing",
            provider=provider.id,
            capability=name,
            allowed=able,
        )
