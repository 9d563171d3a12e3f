"""Documents as clients of Chroma know them: changed column by column, and read without a bound, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from schemas.errors import CollectionNotFoundError
from schemas.records import Collection, Document, DocumentChanges
from schemas.storage.outcomes import CollectionOutcome, WriteOutcome
from schemas.where import EVERYTHING, Where
from wrapper.catalog import document_changes, reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox
from wrapper.catalog.names import changing
from wrapper.catalog.rows import collection_by_id, find_collection
from wrapper.stores.collection_names import check_not_in_transit
from wrapper.writing import WriteOptions, Writing, Written

READ_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Reading:
    """What a filter matched: the `number` of documents, and what reads them once more, block by block, with or without
    their embeddings."""

    number: int
    read: Callable[[bool], Iterator[list[Document]]]


class RecordStore:
    def __init__(self, catalog: Catalog, writing: Writing) -> None:
        self._catalog = catalog
        self._writing = writing

    def collection(self, collection_id: str) -> Collection:
        """Return the collection of that id. Raises CollectionNotFoundError, which names the id."""
        with self._catalog.read() as transaction:
            found = collection_by_id(transaction, collection_id)
        if found is None:
            raise CollectionNotFoundError(collection_id)
        return found

    def waiting_writes(self, name: str) -> int:
        """Return how many writes to the collection its index has yet to be told of."""
        with self._catalog.read() as transaction:
            return outbox.lag(transaction, find_collection(transaction, name).key)

    def merge(
        self, name: str, changes: DocumentChanges, options: WriteOptions, *, adds: bool, merges: bool
    ) -> Written[WriteOutcome]:
        """Apply changes to documents as `document_changes.merging` says, all or none.

        Chroma takes vectors without a direction, whatever the metric, and so does this.
        """

        change = document_changes.merging(name, changes, adds=adds, merges=merges)
        return self._writing.write(WriteOutcome, name, change.store, options, documents=change)

    def change_collection(
        self,
        name: str,
        options: WriteOptions,
        *,
        new_name: str | None,
        metadata: dict[str, object] | None,
        configuration: Callable[[Collection], str] | None,
    ) -> Written[CollectionOutcome]:
        """Give a collection another name, metadata and configuration, each where it is not None, in one step."""
        if new_name is not None:
            check_not_in_transit(new_name)
        return self._writing.write(
            CollectionOutcome,
            name,
            lambda transaction: CollectionOutcome.of(
                *changing.change(transaction, name, new_name, metadata, configuration)
            ),
            options,
            name_after=new_name,
        )

    @contextmanager
    def reading(
        self, name: str, where: Where, *, offset: int = 0, limit: int | None = None
    ) -> Iterator[tuple[Collection, Reading]]:
        """Give the collection, and what reads the matching documents in the order of insertion, the same each time.

        The snapshot lasts as long as the context; its thread must read nothing else meanwhile.
        """
        with self._catalog.read() as transaction:
            collection = find_collection(transaction, name)
            yield collection, _reading(transaction, collection, where, offset, limit)


def _reading(transaction: Transaction, collection: Collection, where: Where, offset: int, limit: int | None) -> Reading:
    if where == EVERYTHING:
        left = max(0, collection.count - offset)
        return Reading(
            left if limit is None else min(left, limit),
            lambda with_embeddings: reads.all_in_blocks(
                transaction,
                collection,
                offset=offset,
                limit=limit,
                with_embeddings=with_embeddings,
                block=READ_AT_ONCE,
            ),
        )
    # Who matches is found out once, however often the documents are read.
    places = reads.positions_in_order(transaction, collection, where, offset=offset, limit=limit)

    def read(with_embeddings: bool) -> Iterator[list[Document]]:
        for start in range(0, len(places), READ_AT_ONCE):
            block = places[start : start + READ_AT_ONCE].tolist()
            found = reads.by_positions(transaction, block, with_embeddings=with_embeddings)
            yield [found[place] for place in block]

    return Reading(len(places), read)
