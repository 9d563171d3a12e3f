"""Registry of providers by kind and name (contract *storage*, "RAG Provider Registry")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from providers.base import Provider, ProviderContext, capabilities, required
from schemas.configuration import JsonSchema
from schemas.connections import KINDS, ProviderDescription
from schemas.errors import ConfigurationError, ConflictError, NotFoundError

AbilityT = TypeVar("AbilityT")


class ProviderNotFoundError(NotFoundError):
    code = "provider_not_found"
    summary = "Provider not found"

    def __init__(self, kind: str | None, name: str, known: list[str]) -> None:
        super().__init__(f"Provider '{name}' not found", provider=name, type=kind, allowed=known)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the catalogue of providers.

    `provider` is None when its module could not be imported. `reason` says why the provider cannot be used on this
    machine and what to do about it; it is None when the provider can be used.
    """

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

    def described(self) -> ProviderDescription:
        """Return what users are told of the provider."""
        provider = self.provider
        return ProviderDescription(
            self.id,
            self.kind,
            self.capabilities,
            display_name=provider.display_name if provider else self.id,
            description=provider.description if provider else "",
            limits=dict(provider.limits) if provider else {},
            reason=self.reason,
            schema=provider.connection_schema() if provider else None,
        )


class ProviderRegistry:
    """Providers by kind and name, in the order of their registration."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}

    def register(self, provider: type[Provider]) -> None:
        """Make a provider known.

        Raises ConflictError when its name is taken and ConfigurationError when it is incomplete, so
        that a broken provider is found at its registration and not by its first user.
        """
        if provider.kind not in KINDS:
            raise ConfigurationError(f"{provider.__name__}.kind must be one of {', '.join(KINDS)}")
        unwritten = sorted(getattr(provider, "__abstractmethods__", ()))
        if unwritten:
            raise ConfigurationError(f"Provider '{provider.id}' does not implement {', '.join(unwritten)}")
        self._add(Entry(provider.kind, provider.id, provider, provider.unavailable_because()))

    def register_missing(self, kind: str, name: str, reason: str) -> None:
        """List a provider whose module cannot be imported; `reason` says what to do about it."""
        self._add(Entry(kind, name, None, reason))

    def _add(self, entry: Entry) -> None:
        if (entry.kind, entry.id) in self._entries:
            raise ConflictError(f"There is a provider '{entry.id}' of type {entry.kind} already", provider=entry.id)
        self._entries[entry.kind, entry.id] = entry

    def entries(self, kind: str | None = None) -> list[Entry]:
        return [entry for entry in self._entries.values() if kind in (None, entry.kind)]

    def entry(self, name: str, kind: str | None = None) -> Entry:
        """Return the entry of that name; without a kind, that of the first kind in KINDS that has one.

        Raises ProviderNotFoundError when there is none.
        """
        for each in KINDS if kind is None else (kind,):
            if (each, name) in self._entries:
                return self._entries[each, name]
        raise ProviderNotFoundError(kind, name, [entry.id for entry in self.entries(kind)])

    def form(self, name: str, kind: str | None = None) -> ProviderDescription:
        """Return the provider of `entry` for a form of its connections. Raises ProviderNotFoundError, or NotFoundError
        with the reason when its schema cannot be had."""
        entry = self.entry(name, kind)
        if entry.provider is None:
            raise NotFoundError(f"Provider '{entry.id}' has no schema: {entry.reason}", provider=entry.id)
        return entry.described()

    def schema(self, name: str, kind: str | None = None) -> JsonSchema:
        """Return the schema of a provider's connections, of any kind by default; empty when it is not known."""
        found = [entry.provider for entry in self.entries(kind) if entry.id == name and entry.provider is not None]
        return found[0].connection_schema() if found else {}

    def provider(self, kind: str, name: str) -> type[Provider]:
        """Return the class to connect with.

        Raises ProviderNotFoundError when it is not known, ConfigurationError with the reason when it cannot be used on
        this machine.
        """
        entry = self.entry(name, kind)
        if entry.provider is None or not entry.viable:
            raise ConfigurationError(
                f"Provider '{name}' cannot be used here: {entry.reason}", provider=name, error_type="invalid_config"
            )
        return entry.provider

    def connect(self, kind: str, name: str, config: Mapping[str, Any], context: ProviderContext) -> Provider:
        """Make a connection with that configuration (contract *storage*, "RAG Provider Selection").

        Asks no service yet. Raises what `provider` raises, and InvalidConfigurationError when the provider refuses the
        configuration.
        """
        return self.provider(kind, name)(config, context)

    def require(self, provider: Provider, ability: type[AbilityT]) -> AbilityT:
        """Return the provider, typed as one with this ability.

        Raises UnsupportedError, naming the capability and who has it, when the provider lacks it.
        """
        classes = ((entry.id, entry.provider) for entry in self.entries())
        return required(provider, ability, [name for name, found in classes if found and issubclass(found, ability)])
