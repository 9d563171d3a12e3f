"""Abilities of a provider of documents: to write to one collection, whatever its name means by then, and to keep the
vectors of one model apart from those of another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from schemas.connections import CollectionInfo


class PinsWrites(ABC):
    @abstractmethod
    def pinned(self, collection: str, collection_id: str) -> Self:
        """Return the provider such that its writes to `collection` go to the collection of this id alone.

        They raise CollectionNotFoundError, and change nothing, once that is the name of another one or of none.
        """


class PinsEmbeddings(ABC):
    @abstractmethod
    def embedded_as(self, collection: str, described: CollectionInfo) -> Self:
        """Return the provider such that it stores documents in `collection`, and reads vectors by id there, only while
        these are of the model of which they were when it was described so.

        It raises ReembeddedMeanwhileError, and stores nothing, while they are of another one. A document may come
        without its vector where it cannot be told of which model that is.
        """
