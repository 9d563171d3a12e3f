"""The documents that queries have answered with lately, held in this process's memory.

A collection's documents are held at one revision. In any snapshot of that revision they are what the catalogue would
read; every write makes another revision.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof

from schemas.records import Collection, Document
from wrapper.catalog import reads
from wrapper.catalog.contract import Transaction

MOST_BYTES = 16 << 20
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
        known = self._known(collection)
        missing = [position for position in positions if position not in known]
        if not missing:
            return known
        read = reads.by_positions(transaction, missing)
        self._keep(collection, read)
        return {position: known[position] for position in positions if position in known} | read

    def _known(self, collection: Collection) -> Mapping[int, Document]:
        with self._guard:
            held = self._held.get(collection.key)
            if held is None or held.revision != collection.revision:
                return {}
            self._held.move_to_end(collection.key)
            return held.documents

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
