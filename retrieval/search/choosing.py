"""Chooses the collections that a question is asked of: the text collections, unless it names others.

A text collection says of itself that its embeddings are of the model that embeds its questions: by `embedding_model` in
its metadata, and by its dimension. Where its metadata name an `embedding_connection`, that embeds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from providers.embeddings.base import EmbeddingProvider
from registry.connections import Connections
from registry.embedding.queries import connection_of
from registry.stored_connections import ConnectionNotFoundError
from retrieval.search.corpus import Corpus, OpenCorpus
from schemas.connections import CollectionInfo
from schemas.contracts.search import HOLDS_NOTES, IS_EMPTY, NO_TEXTS, CollectionsReceipt
from schemas.errors import RagError
from schemas.names import is_pattern, matches_pattern
from schemas.storage.reembedding import recorded_model

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
        embedding_connection: str = "default",
    ) -> None:
        self.corpus = corpus
        self._connections = connections
        self._own = {name: place for place, name in enumerate(own)}
        self._notes = notes
        self._most = most
        self._embedding_connection = embedding_connection

    def elsewhere(self, collections: Sequence[CollectionInfo]) -> list[str]:
        """Return the connections to other services that embed questions to these collections."""
        return self._connections.elsewhere({connection_of(each, self._embedding_connection) for each in collections})

    def models_of(self, collections: Sequence[CollectionInfo]) -> list[str | None]:
        """Return the models that embed questions to these collections now, None for one that cannot be used."""
        connections = {connection_of(each, self._embedding_connection) for each in collections}
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
            connection = connection_of(each, self._embedding_connection)
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
            usual = self._embedding_connection
            return None if connection == usual else self._embedding(usual)
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
