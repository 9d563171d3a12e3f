"""Steps on the engine's collections: making, naming, filling and removing them. Each step can be repeated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Group
from functools import partial

import numpy as np
import structlog

from schemas.errors import InvalidInputError, RagError
from schemas.records import Collection, Document
from schemas.storage.engine_records import VECTORS
from wrapper.catalog import identity
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, reports, states
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineConflictError, EngineRefusedError
from wrapper.engine.records import EngineCollection
from wrapper.engine.tenant_claim import OWNER_MARK

log = structlog.get_logger(__name__)

DOCUMENTS_PER_CALL = 500
NAME_TAKEN = (
    "The Chroma server has a collection of this name that another client made, and RAG_ADOPT=off leaves it alone: the "
    "index waits until that one is renamed or deleted there"
)
_IN_TRANSIT = re.compile(r"rebuild-\d+-(None|[0-9a-f-]{36})|trial-\d+|.*-replaced-[0-9a-f]{8}", re.DOTALL)


def rebuild_name(collection_key: int, engine_id: str | None) -> str:
    """Return the engine's name for the collection that a rebuild makes.

    It is the same for every attempt to rebuild one index, so that the next attempt finds what the last one left.
    """
    return f"rebuild-{collection_key}-{engine_id}"


def trial_name(collection_key: int) -> str:
    """Return the engine's name for the collection in which documents of a collection are tried."""
    return f"trial-{collection_key}"


def spared_name(name: str, engine_id: str) -> str:
    """Return the engine's name for a collection that is put aside."""
    return f"{name[:480]}-replaced-{engine_id[:8]}"


def is_in_transit(name: str) -> bool:
    """Return whether a name is nobody's: of a rebuild or a trial, of a collection put aside, or the owner's mark."""
    return name == OWNER_MARK or _IN_TRANSIT.fullmatch(name) is not None


class EngineCollections:
    """The engine's collections as the catalogue wants them. Methods raise what the engine client raises.

    What others made is never deleted. In an engine that is `shared`, they keep collections of their own, and none of
    them is renamed either.
    `new_records` returns what the records of a collection have for which nothing else was asked.
    """

    def __init__(
        self, catalog: Catalog, engine: EngineClient, *, shared: bool = False, new_records: Callable[[], str]
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._shared = shared
        self.new_records = new_records

    def make(self, collection: Collection, name: str) -> str:
        """Make a collection with the metric and metadata of `collection` and return the engine's id. It is searched as
        widely as the recall of the index before it required.

        A name other than the one that the engine has for the collection marks it as made by a rebuild.
        """
        with self._catalog.read() as transaction:
            search_width = reports.find(transaction, collection.key).search_width
            owner = identity.find(transaction)
        create = partial(
            self._engine.create_collection,
            name,
            metric=collection.metric,
            metadata=collection.metadata,
            rebuild=None if name == collection.engine_name else name,
            search_width=search_width,
            owner=owner,
        )
        try:
            return create()
        except EngineConflictError:
            self.make_room(name, rebuild=rebuild_name(collection.key, collection.engine_id))
            return create()

    def make_room(self, name: str, *, rebuild: str) -> None:
        """Free a name in the engine by deleting or renaming the collection that has it.

        Deleted is a collection that the catalogue dropped, one that the rebuild of that name made, and an empty one
        that is marked as ours: a leftover of a crash. Any other is kept and renamed. Raises EngineConflictError when it
        is somebody's and the engine is shared.
        """
        found = self._engine.get_collection(name)
        if found is None:
            return
        with self._catalog.read() as transaction:
            dropped = {its_id for gone, its_id in outbox.dropped(transaction) if gone == name}
            ours = identity.find(transaction)
        if found.id in dropped or self._is_of(found, rebuild) or self._is_leftover(found):
            self._engine.delete_collection(name)
            return
        if self._shared and found.owner != ours:
            raise EngineConflictError(NAME_TAKEN)
        spared = spared_name(name, found.id)
        log.warning("an unknown engine collection is in the way, renamed", collection=name, renamed_to=spared)
        self._engine.rename_collection(found.id, spared)

    def remove(self, name: str, engine_id: str | None, *, rebuild: str | None = None) -> None:
        """Delete the collection of that name if it has that id, was made by that rebuild, or is an empty leftover."""
        found = self._engine.get_collection(name)
        if found is None:
            return
        if found.id == engine_id or self._is_of(found, rebuild) or self._is_leftover(found):
            self._engine.delete_collection(name)

    def discard(self, name: str) -> None:
        """Delete the collection that a rebuild or a trial has made under that name. Another client's is left alone."""
        found = self._engine.get_collection(name)
        if found is not None and self._is_of(found, name):
            self._engine.delete_collection(name)

    def _is_of(self, found: EngineCollection, rebuild: str | None) -> bool:
        """Return whether a rebuild or a trial of this catalogue made a collection under that name. Those of earlier
        releases do not say whose they are."""
        with self._catalog.read() as transaction:
            owners = (None, identity.find(transaction))
        return rebuild is not None and found.rebuild == rebuild and found.owner in owners

    def _is_leftover(self, found: EngineCollection) -> bool:
        """Return whether a collection is empty, marked as ours, and the catalogue does not know it.

        Such a collection was made for an entry whose end was never recorded.
        """
        with self._catalog.read() as transaction:
            ours = identity.find(transaction)
            known = transaction.row("SELECT 1 FROM collections WHERE engine_id = ?", (found.id,))
        return known is None and found.owner == ours and self._engine.count(found.id) == 0

    def put_to_use(
        self, collection: Collection, engine_id: str, also: Callable[[Transaction], None] = lambda _: None
    ) -> None:
        """Record that a collection's index is complete and has its name, and `also` in the same transaction.

        When the collection was deleted meanwhile its index is removed, because its outbox entry names the engine's
        collection before this one.
        """

        def record(transaction: Transaction) -> bool:
            also(transaction)
            records = self._records_of(collection)
            return states.set_engine_collection(transaction, collection.key, engine_id, states.READY, records)

        if not self._catalog.commit(record):
            self.remove(collection.engine_name, engine_id)

    def store(
        self, collection: Collection, documents: Sequence[Document], stale: Mapping[str, Group[str]], *, all_new: bool
    ) -> dict[int, str]:
        """Store documents in the index of a collection as it is given. Return, by position, why the engine cannot take
        some of them.

        The engine then has all the others and none of these. `stale` gives the metadata keys of earlier versions by id;
        `all_new` promises that the engine has none of the ids.
        """
        try:
            self.send(collection, documents, stale, all_new=all_new)
        except (EngineRefusedError, InvalidInputError) as error:
            if len(documents) == 1:
                log.error("the engine refuses a document", id=documents[0].id, reason=error.message, **error.details)
                if not all_new and collection.engine_id is not None:
                    self._engine.delete(collection.engine_id, [documents[0].id])
                return {documents[0].position: _reason(error)}
            middle = len(documents) // 2
            return self.store(collection, documents[:middle], stale, all_new=all_new) | self.store(
                collection, documents[middle:], stale, all_new=all_new
            )
        return {}

    def send(
        self, collection: Collection, documents: Sequence[Document], stale: Mapping[str, Group[str]], *, all_new: bool
    ) -> None:
        """Store all documents as `store` does, or raise an error."""
        assert collection.engine_id is not None
        ids = [document.id for document in documents]
        vectors = np.stack([document.embedding for document in documents if document.embedding is not None])
        if self._records_of(collection) == VECTORS:
            self._engine.upsert(collection.engine_id, ids, vectors, all_new=all_new)
            return
        self._engine.upsert(
            collection.engine_id,
            ids,
            vectors,
            [None if document.extras.textless else document.text for document in documents],
            [document.metadata for document in documents],
            uris=[document.extras.uri for document in documents],
            stale_keys=None if all_new else [stale.get(document.id, ()) for document in documents],
            all_new=all_new,
        )

    def _records_of(self, collection: Collection) -> str:
        """Return what the engine's records of a collection have. It stays so until a rebuild: the engine would keep the
        text of a full record that is written again without one."""
        return collection.engine_records or self.new_records()


def _reason(error: RagError) -> str:
    status = error.details.get("status")
    return error.message if status is None else f"{error.message} ({status})"
