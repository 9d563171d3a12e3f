"""The collections that are searched: all at one connection, reached through its provider."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar, cast

from providers.base import RagProvider
from registry.connections import Connections
from registry.registry import ProviderRegistry
from schemas.connections import CollectionInfo
from schemas.errors import CollectionNotFoundError

AbilityT = TypeVar("AbilityT")


class Corpus:
    """`connection_id` names a connection of documents; what it is may change while this lives."""

    def __init__(self, connections: Connections, connection_id: str = "local") -> None:
        self._connections = connections
        self._connection_id = connection_id

    def open(self) -> OpenCorpus:
        """What one request reads. Raises what `Connections.open` raises."""
        provider = cast(RagProvider, self._connections.open(self._connection_id, "rag"))
        return OpenCorpus(provider, self._connections.registry)


class OpenCorpus:
    """For one request: the provider is opened once, and its collections are listed once at most, so that all parts of
    an answer speak of the same ones."""

    def __init__(self, provider: RagProvider, registry: ProviderRegistry) -> None:
        self.provider = provider
        self._registry = registry

    def able(self, ability: type[AbilityT]) -> AbilityT:
        """The provider as one that can do this. Raises UnsupportedError."""
        return self._registry.require(self.provider, ability)

    def can(self, ability: type) -> bool:
        return isinstance(self.provider, ability)

    @cached_property
    def collections(self) -> dict[str, CollectionInfo]:
        """All of them, by name."""
        return {each.name: each for each in self.provider.collections()}

    def collection(self, name: str) -> CollectionInfo:
        """Raises CollectionNotFoundError."""
        if "collections" not in self.__dict__:  # not listed yet: one is read faster than all
            return self.provider.collection(name)
        if name not in self.collections:
            raise CollectionNotFoundError(name)
        return self.collections[name]

    def existing(self, names: Sequence[str]) -> list[CollectionInfo]:
        """Those of the collections that exist, each once."""
        found = []
        for name in dict.fromkeys(names):
            try:
                found.append(self.collection(name))
            except CollectionNotFoundError:
                continue
        return found
