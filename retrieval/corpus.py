"""The collections that are searched: all at one connection, reached through its provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from providers.base import RagProvider
from registry.connections import Connections
from schemas.connections import CollectionInfo
from schemas.errors import CollectionNotFoundError

AbilityT = TypeVar("AbilityT")


class Corpus:
    """`connection_id` names a connection of documents; what it is may change while this lives."""

    def __init__(self, connections: Connections, connection_id: str = "local") -> None:
        self._connections = connections
        self._connection_id = connection_id

    def provider(self) -> RagProvider:
        """Raises what `Connections.open` raises."""
        return cast(RagProvider, self._connections.open(self._connection_id, "rag"))

    def able(self, ability: type[AbilityT]) -> AbilityT:
        """The provider as one that can do this. Raises UnsupportedError, and what `Connections.open` raises."""
        return self._connections.registry.require(self.provider(), ability)

    def can(self, ability: type) -> bool:
        return isinstance(self.provider(), ability)

    def named(self, names: Sequence[str]) -> list[CollectionInfo]:
        """The collections of these names, each once. Raises CollectionNotFoundError."""
        provider = self.provider()
        return [provider.collection(name) for name in dict.fromkeys(names)]

    def existing(self, names: Sequence[str]) -> list[CollectionInfo]:
        """Those of the collections that exist."""
        provider = self.provider()
        found = []
        for name in dict.fromkeys(names):
            try:
                found.append(provider.collection(name))
            except CollectionNotFoundError:
                continue
        return found
