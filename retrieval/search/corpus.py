"""The collections that are searched: all of one connection, reached through its provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from providers.base import RagProvider
from registry.connections import Connections
from registry.provider_registry import ProviderRegistry
from schemas.connections import CollectionInfo
from schemas.errors import CollectionNotFoundError
from schemas.storage.reembedding import recorded_model

AbilityT = TypeVar("AbilityT")


class Corpus:
    """The collections of the connection `connection_id`, which may change while this object lives."""

    def __init__(self, connections: Connections, connection_id: str = "local") -> None:
        self._connections = connections
        self._connection_id = connection_id

    def open(self) -> OpenCorpus:
        """Open the connection for one request. Raise what `Connections.open` raises."""
        provider = cast(RagProvider, self._connections.open(self._connection_id, "rag"))
        return OpenCorpus(provider, self._connections.registry)


class OpenCorpus:
    """The view of the collections that one request has: all parts of its answer share one open provider and speak of
    the same collections.

    The collections are listed once at most, and each is looked up by its name once at most, whether it exists or not.
    """

    def __init__(self, provider: RagProvider, registry: ProviderRegistry) -> None:
        self.provider = provider
        self._registry = registry
        self._listed: Mapping[str, CollectionInfo] | None = None
        self._looked_up: dict[str, CollectionInfo | None] = {}

    def able(self, ability: type[AbilityT]) -> AbilityT:
        """Return the provider as one that has the ability. Raises UnsupportedError when it lacks the ability."""
        return self._registry.require(self.provider, ability)

    def can(self, ability: type) -> bool:
        """Return whether the provider has the ability."""
        return isinstance(self.provider, ability)

    @property
    def collections(self) -> Mapping[str, CollectionInfo]:
        """All collections by name."""
        if self._listed is None:
            self._listed = {each.name: each for each in self.provider.collections()}
        return self._listed

    def named(self, names: Sequence[str]) -> tuple[CollectionInfo, ...]:
        """Return the collections of these names, each once. Raises CollectionNotFoundError for those that do not
        exist."""
        found = {each.name: each for each in self.existing(names)}
        missing = [name for name in dict.fromkeys(names) if name not in found]
        if missing:
            raise CollectionNotFoundError(*missing)
        return tuple(found.values())

    def existing(self, names: Sequence[str]) -> list[CollectionInfo]:
        """Return the collections of these names that exist, each once."""
        self._look_up(names)
        return [found for name in dict.fromkeys(names) if (found := self._find(name)) is not None]

    def keeps_model(self, name: str) -> bool:
        """Return whether the collection's vectors are now of the model that this request knows them by."""
        known, now = self.existing([name]), self.provider.collections_named([name])
        return _models_of(known) == _models_of(now)

    def _look_up(self, names: Sequence[str]) -> None:
        """Look up all of these names at once that are not known yet. A collection that every caller has a part of, such
        as that of the notes, may be there without being listed."""
        known = (self._listed or {}).keys() | self._looked_up.keys()
        unknown = [name for name in dict.fromkeys(names) if name not in known]
        if unknown:
            found = {each.name: each for each in self.provider.collections_named(unknown)}
            self._looked_up |= {name: found.get(name) for name in unknown}

    def _find(self, name: str) -> CollectionInfo | None:
        if self._listed is not None and name in self._listed:
            return self._listed[name]
        self._look_up([name])  # a few are read faster than all
        return self._looked_up[name]


def _models_of(infos: Sequence[CollectionInfo]) -> list[str | None]:
    return [recorded_model(info.metadata) for info in infos]
