"""What is known of the indexes of collections, and what their doctor may be asked."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.records import Collection
from schemas.storage.index_reports import IndexStatus
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.index_state import outbox
from wrapper.catalog.index_state.status import status
from wrapper.catalog.names import collection_writes
from wrapper.catalog.rows import find_collection
from wrapper.indexing.indexer import Indexer
from wrapper.writing import Writing


class IndexRequests:
    """Methods with a name raise CollectionNotFoundError for one that no collection has."""

    def __init__(self, catalog: Catalog, indexer: Indexer, writing: Writing) -> None:
        self._catalog = catalog
        self._indexer = indexer
        self._writing = writing

    def of(self, name: str) -> IndexStatus:
        """Return what is known of the collection's index."""
        with self._catalog.read() as transaction:
            return status(transaction, find_collection(transaction, name))

    def of_all(self, collections: Sequence[Collection]) -> list[IndexStatus]:
        """Return what is known of the indexes of these collections, which were read before."""
        with self._catalog.read() as transaction:
            return [status(transaction, each) for each in collections]

    def check(self, name: str) -> IndexStatus:
        """Have the doctor check the index, after the earlier writes. Return what is known of it so far."""
        return self._ask_doctor(name, outbox.CHECK)

    def rebuild(self, name: str, *, records: str | None = None) -> IndexStatus:
        """Have the index rebuilt from the catalogue, after the earlier writes. Return what is known of it so far.

        `records` is what the engine's records are to have from then on, None for no change.
        """
        self._writing.check_disk()
        return self._ask_doctor(name, outbox.REBUILD, records)

    def _ask_doctor(self, name: str, kind: str, records: str | None = None) -> IndexStatus:
        self._catalog.commit(lambda transaction: collection_writes.ask_doctor(transaction, name, kind, records))
        self._indexer.notify()
        return self.of(name)
