"""The documents that queries have answered with lately, held in this process's memory.

A collection's documents are held at one revision. In any snapshot of that revision they are what the catalogue would
read. Every write makes another revision, to which those are carried that the write did not change.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof

from schemas.records import Collection, Document
from wrapper.catalog import reads
from wrapper.catalog.changes.feed import positions_since
from wrapper.catalog.contract import Transaction

MOST_BYTES = 16 << 20
MOST_CHANGED = 1_000
"""After so many changes, documents are read anew."""
DOCUMENT_BYTES = 250
"""The memory that a document takes beside its strings."""


@dataclass(slots=True)
class _Held:
    revision: int
    documents: dict[int, Document] = field(default_factory=dict)
    """By position. Documents are only added: others may be reading."""
    size_bytes: int = 0


class HeldDocuments:
    """The held documents of all collections, in at most `most_bytes`, usable by several threads.

    The collections asked longest ago make room.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[int, _Held] = OrderedDict()
        self._guard = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """The memory that all held documents take, roughly."""
        with self._guard:
            return sum(each.size_bytes for each in self._held.values())

    def at(self, transaction: Transaction, collection: Collection, positions: Sequence[int]) -> Mapping[int, Document]:
        """Return the documents at these positions, and maybe others, by position, without their embeddings.

        `collection` is that of the transaction's snapshot.
        """
        known = self._known(transaction, collection)
        missing = [position for position in positions if position not in known]
        if not missing:
            return known
        read = reads.by_positions(transaction, missing)
        self._keep(collection, read)
        return {position: known[position] for position in positions if position in known} | read

    def _known(self, transaction: Transaction, collection: Collection) -> Mapping[int, Document]:
        with self._guard:
            held = self._held.get(collection.key)
            if held is None or held.revision > collection.revision:
                return {}
            self._held.move_to_end(collection.key)
            if held.revision == collection.revision:
                return held.documents
        return self._carried(transaction, collection, held)

    def _carried(self, transaction: Transaction, collection: Collection, held: _Held) -> Mapping[int, Document]:
        """Return what of the documents at an earlier revision is the same at this one, and hold that."""
        changed = positions_since(transaction, collection, held.revision, limit=MOST_CHANGED + 1)
        if changed is None or max(map(len, changed)) > MOST_CHANGED:
            return {}
        documents = held.documents.copy()
        for position in (*changed.written, *changed.deleted):
            documents.pop(position, None)
        carried = _Held(collection.revision, documents, sum(map(_size_bytes, documents.values())))
        with self._guard:
            # Else another thread was quicker, or the collection has made room.
            if self._held.get(collection.key) is held:
                self._held[collection.key] = carried
        return documents

    def _keep(self, collection: Collection, read: Mapping[int, Document]) -> None:
        with self._guard:
            held = self._held.get(collection.key)
            if held is None or held.revision < collection.revision:
                held = self._held[collection.key] = _Held(collection.revision)
            elif held.revision > collection.revision:
                return  # an older snapshot
            for position, document in read.items():
                if position not in held.documents:
                    held.documents[position] = document
                    held.size_bytes += _size_bytes(document)
            self._held.move_to_end(collection.key)
            taken = sum(each.size_bytes for each in self._held.values())
            while taken > self._most_bytes:
                _, let_go = self._held.popitem(last=False)
                taken -= let_go.size_bytes


def _size_bytes(document: Document) -> int:
    return DOCUMENT_BYTES + sum(map(getsizeof, (document.id, document.text, document.metadata_json)))
