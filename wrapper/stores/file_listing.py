"""What lists of stores and of their documents need beside pages: neighbours of a document, and how much is held."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.records import Document
from schemas.where import Where
from wrapper.catalog import reads, stored_bytes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import find_collection


class FileListing:
    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def neighbours(
        self, name: str, where: Where, *, position: int | None, newest_first: bool, limit: int
    ) -> list[Document]:
        """Return the next `limit` documents that match behind a position, in the order in which they came or against
        it; None begins."""
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            return reads.neighbours(
                transaction, collection, where, position=position, newest_first=newest_first, limit=limit
            )

    def held_bytes(self, names: Sequence[str]) -> dict[str, int]:
        """Return how many bytes each of these collections holds."""
        with self._catalog.read() as transaction:
            return {name: stored_bytes.of_one(transaction, name).bytes for name in names}
