"""The collections that are searched: all of one connection, reached through its provider, and the choice of those that
a question is asked of: the text collections, unless it names others.

A text collection says of itself that its embeddings are of the model that embeds its questions: by `embedding_model` in
its metadata, and by its dimension. Where its metadata name an `embedding_connection`, that embeds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from providers.base import RagProvider
from providers.embeddings.base import EmbeddingProvider
from registry.connections import Connections
from registry.embedding.queries import USUAL, connection_of
from registry.provider_registry import ProviderRegistry
from registry.stored_connections import ConnectionNotFoundError
from schemas.connections import CollectionInfo
from schemas.contracts.search import HOLDS_NOTES, IS_EMPTY, NO_TEXTS, CollectionsReceipt
from schemas.errors import CollectionNotFoundError, RagError
from schemas.names import is_pattern, matches_pattern
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
        """Return the collections of these names that exist, each once.

        Those that are not known yet are looked up at once: a few are read faster than all, and a collection that every
        caller has a part of, such as that of the notes, may be there without being listed.
        """
        listed, wanted = self._listed or {}, dict.fromkeys(names)
        unknown = [name for name in wanted if name not in listed and name not in self._looked_up]
        if unknown:
            found = {each.name: each for each in self.provider.collections_named(unknown)}
            self._looked_up |= {name: found.get(name) for name in unknown}
        known = [listed.get(name) or self._looked_up.get(name) for name in wanted]
        return [each for each in known if each is not None]

    def keeps_model(self, name: str) -> bool:
        """Return whether the collection's vectors are now of the model that this request knows them by."""
        known, now = self.existing([name]), self.provider.collections_named([name])
        return _models_of(known) == _models_of(now)


def _models_of(infos: Sequence[CollectionInfo]) -> list[str | None]:
    return [recorded_model(info.metadata) for info in infos]


EVERYTHING = ("*",)
MAX_NAMED = 100
"""The most left-out collections that a receipt names. It counts the others."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The collections chosen for a question, `asked` in this order."""

    corpus: OpenCorpus
    asked: tuple[CollectionInfo, ...]
    receipt: CollectionsReceipt


class CollectionChoice:
    """The choice of collections for questions, usable by several threads.

    `own` are the collections of the service's contracts: they are asked first, and need not say which model embedded
    them. The collection `notes` is left to the oracle *persona*. At most `most` collections are asked at a time, beside
    those that a question names in full.
    """

    def __init__(
        self,
        corpus: Corpus,
        connections: Connections,
        *,
        own: Sequence[str],
        notes: str | None = None,
        most: int = 100,
    ) -> None:
        self.corpus = corpus
        self._connections = connections
        self._own = {name: place for place, name in enumerate(own)}
        self._notes = notes
        self._most = most

    def elsewhere(self, collections: Sequence[CollectionInfo]) -> list[str]:
        """Return the connections to other services that embed questions to these collections."""
        return self._connections.elsewhere({connection_of(each) for each in collections})

    def models_of(self, collections: Sequence[CollectionInfo]) -> list[str | None]:
        """Return the models that embed questions to these collections now, None for one that cannot be used."""
        connections = {connection_of(each) for each in collections}
        opened = [self._embedding(connection) for connection in sorted(connections)]
        return [None if each is None else each.model for each in opened]

    def choose(self, names: Sequence[str] | None = None) -> Chosen:
        """Return the collections that `names` gives in full or by a pattern (`prefix*`), all text collections for None.

        A collection named in full is asked whatever it holds, while a pattern finds only text collections. Raise
        CollectionNotFoundError and what the store raises.
        """
        corpus = self.corpus.open()
        patterns = EVERYTHING if names is None else tuple(filter(is_pattern, names))
        if not patterns:
            asked = corpus.named(names or ())
            return Chosen(corpus, asked, CollectionsReceipt(tuple(each.name for each in asked), {}))
        everything = corpus.collections
        named = corpus.named([name for name in names or () if not is_pattern(name)])
        left_out = {
            pattern: "no collection has a name that begins so"
            for pattern in patterns
            if names is not None and not any(matches_pattern(name, pattern) for name in everything)
        }
        fitting: list[CollectionInfo] = []
        strange: dict[str, str] = {}
        embeddings: dict[str, EmbeddingProvider | None] = {}
        for each in everything.values():
            if each in named or not any(matches_pattern(each.name, pattern) for pattern in patterns):
                continue
            connection = connection_of(each)
            if connection not in embeddings:
                embeddings[connection] = self._embedding(connection)
            reason = self._reason_against(each, embeddings[connection])
            if reason is None:
                fitting.append(each)
            else:
                strange[each.name] = reason
        fitting.sort(key=self._place)
        room = max(0, self._most - len(named))
        asked = (*named, *fitting[:room])
        for each in fitting[room:]:
            left_out[each.name] = f"Only {self._most} collections are asked at a time; name this one to have it asked"
        # Where not all can be named, those are in which there might have been an answer.
        left_out |= dict(sorted(strange.items(), key=lambda each: each[1] in (IS_EMPTY, HOLDS_NOTES, NO_TEXTS)))
        shown = dict(list(left_out.items())[:MAX_NAMED])
        receipt = CollectionsReceipt(tuple(each.name for each in asked), shown, len(left_out) - len(shown))
        return Chosen(corpus, asked, receipt)

    def _place(self, info: CollectionInfo) -> tuple[int, int, str]:
        """Return the sort key: own collections first, then the newest, so that what was just loaded is always asked."""
        return self._own.get(info.name, len(self._own)), -(info.number or 0), info.name

    def _embedding(self, connection: str) -> EmbeddingProvider | None:
        """Return an embedding connection, the usual one where it is not here; None while it cannot be used: words are
        searched all the same."""
        try:
            return cast(EmbeddingProvider, self._connections.open(connection, "embedding"))
        except ConnectionNotFoundError:
            return None if connection == USUAL else self._embedding(USUAL)
        except RagError:
            return None

    def _reason_against(self, info: CollectionInfo, embedding: EmbeddingProvider | None) -> str | None:
        if info.name == self._notes:
            return HOLDS_NOTES
        if info.count == 0:
            return IS_EMPTY
        recorded = recorded_model(info.metadata)
        if recorded is None:
            if info.name not in self._own:
                return NO_TEXTS
        elif embedding is not None and recorded != embedding.model:
            return f"its embeddings are of '{recorded}', those of questions of '{embedding.model}'"
        dimension = None if embedding is None else embedding.dimension
        if None not in (info.dimension, dimension) and info.dimension != dimension:
            return f"its embeddings have {info.dimension} dimensions, those of questions {dimension}"
        return None
