"""The ability of a provider of documents to write to one collection, whatever its name means by then."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class PinsWrites(ABC):
    @abstractmethod
    def pinned(self, collection: str, collection_id: str) -> Self:
        """Return the provider such that its writes to `collection` go to the collection of this id alone.

        They raise CollectionNotFoundError, and change nothing, once that is the name of another one or of none.
        """
