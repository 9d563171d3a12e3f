"""Makes deleted documents disappear from the files of the catalogue and of the engine.

Deleting rows leaves their bytes: in free pages and logs of both databases, as elements of the vector index that are
marked as deleted, as words in segments, as codes of vectors, and where a saved index holds memory in which they were
once. So the index of the collection is rebuilt, its words are merged, its codes are removed, both databases are written
anew, and unused memory in all indexes is blanked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from pathlib import Path

import structlog

from schemas.errors import CollectionNotFoundError, InvalidInputError, MatchesEverythingError
from schemas.names import spellings_of_id
from schemas.records import Collection, Document
from schemas.storage.erasure import Cleaned, ErasureRequest, Matched, Target, mark_of
from schemas.storage.erasure_count import count_erasure, is_marked, mark_erasure
from schemas.where import EVERYTHING, HasId, In, Or, Where
from wrapper.backups.places import CODES
from wrapper.backups.service_backups import Backups
from wrapper.catalog import idempotency, reads, writes
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.changes import tombstones
from wrapper.catalog.contract import Transaction
from wrapper.catalog.filters import any_matches, positions
from wrapper.catalog.index_state import outbox, states
from wrapper.catalog.names import collection_writes
from wrapper.catalog.names.beside import belongs_to, with_beside
from wrapper.catalog.rows import all_collections, collection_by_key, find_collection, named
from wrapper.catalog.words.merging import purge
from wrapper.engine.keeper.cleaning import cleaning_failed, cleaning_is_asked, request_cleaning
from wrapper.erasing.file_search import search_files
from wrapper.erasing.kept_backups import KeptBackups
from wrapper.erasing.traces import MOST_PROBES, spread, tables_with
from wrapper.indexing.indexer import Indexer
from wrapper.querying.code_files import CodeFiles
from wrapper.stores.reembedding import forget_error

log = structlog.get_logger(__name__)

CATALOGUE, WORDS, INDEX, ENGINE, FILES = "catalogue", "word index", "vector index", "engine", "files"
VECTORS, BESIDE = "vectors in memory", "former documents"
POLL_SECONDS = 0.05
READ_AT_ONCE = 500


class StorageErasure:
    """The storage's part of an erasure. `owns_engine` says whether the engine's files are in `data_dir`, `backups` are
    those of the service."""

    def __init__(
        self,
        catalog: Catalog,
        indexer: Indexer,
        data_dir: Path,
        backups: Backups,
        *,
        owns_engine: bool,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._catalog = catalog
        self._indexer = indexer
        self._data_dir = data_dir
        self._owns_engine = owns_engine
        self._clock = clock
        self._pause = pause
        self._backups = KeptBackups(backups, clock, pause)

    def without_backups(self) -> AbstractContextManager[None]:
        """Let no backup be made during a block. Raises BackupUnderWayError when one does not end in time."""
        return self._backups.away()

    def collections_with(self, where: Where) -> list[str]:
        """Return the names of the collections that have anything that matches, or beside which there is."""
        with self._catalog.read() as transaction:
            having = [each for each in all_collections(transaction) if any_matches(transaction, each.key, where)]
            return sorted({(belongs_to(transaction, each.name) or each).name for each in having})

    def delete(self, asked: ErasureRequest, before: Callable[[Matched], Matched]) -> tuple[Matched, int]:
        """Delete what is asked for, after which nobody finds it, and what idempotency keys keep of it. What is made of
        it by then is not stored any more.

        All in one transaction: what matches when it begins is deleted, and no more. `before` is called with what was
        found, and what it returns is taken for it; when it raises, nothing is deleted. Return what was deleted and the
        number of outcomes of idempotency keys that told of it.

        Raises CollectionNotFoundError, and InvalidInputError when `where` matches all that there are and may not, or
        when `document` is the id of a chunk of another one.
        """

        def operation(transaction: Transaction) -> tuple[Matched, int]:
            collection = _collection_of(transaction, asked)
            gathered = _Gathered() if collection is None else _gathered(transaction, collection, asked)
            found = before(gathered.matched(collection, asked))
            count_erasure(transaction)
            mark_erasure(transaction, found.mark)
            if collection is None:
                return found, idempotency.leave_out(transaction, found.target, None)
            for each in with_beside(transaction, collection):
                ids = found.target.ids | (found.target.ids_beside if each.key != collection.key else frozenset())
                if ids:
                    writes.delete_documents(transaction, each.name, ids=sorted(ids))
                tombstones.erase(transaction, each.key)
            forget_error(transaction, collection)
            return found, idempotency.leave_out(transaction, found.target, collection.key)

        deleted = self._catalog.commit(operation)
        self._indexer.notify()
        return deleted

    def is_deleted(self, erasure: Matched) -> bool:
        """Return whether `delete` went through with an erasure that somebody wrote down in `before`."""
        with self._catalog.read() as transaction:
            return is_marked(transaction, erasure.mark)

    def renew_index(self, name: str, *, until: float) -> str | None:
        """Merge the words of a collection without those of deleted documents, remove its codes, and have its index
        rebuilt; so, too, of what stands beside it.

        Return None when all is done, else what is not.
        """
        with self._catalog.read() as transaction:
            collection = named(transaction, name)
            keys = [] if collection is None else [each.key for each in with_beside(transaction, collection)]
        reasons = [self._renew_index(key, until) for key in keys]
        return next((each for each in reasons if each is not None), None)

    def _renew_index(self, key: int, until: float) -> str | None:
        try:
            with self._catalog.read() as transaction:
                found = _by_key(transaction, key)
            purge(self._catalog, key)
            while not CodeFiles(self._data_dir / CODES).forget(found.id):
                if self._clock() > until:
                    return "codes of its vectors are being made"
                self._pause(POLL_SECONDS)
            entry = self._catalog.commit(
                lambda transaction: collection_writes.ask_doctor(
                    transaction, _by_key(transaction, key).name, outbox.REBUILD
                )
            )
        except CollectionNotFoundError:
            return None
        self._indexer.notify()
        # The entry goes when the rebuild has begun: one that was under way before may hold what is deleted.
        if not self._indexer.wait(entry, max(0.0, until - self._clock())):
            return "its rebuild has not begun yet"
        while True:
            with self._catalog.read() as transaction:
                collection = collection_by_key(transaction, key)
            if collection is None or collection.index_state != states.REBUILDING:
                return None
            if self._clock() > until:
                return "its rebuild is under way"
            self._pause(POLL_SECONDS)

    def clean_engine(self, *, until: float) -> str | None:
        """Have the keeper clean the engine's files. Return None when it has, or when the engine is not ours."""
        if not self._owns_engine:
            return None
        request_cleaning(self._data_dir)
        while cleaning_is_asked(self._data_dir):
            if self._clock() > until:
                return "its files are still being cleaned"
            self._pause(POLL_SECONDS)
        return "its files could not be cleaned: engine.log says why" if cleaning_failed(self._data_dir) else None

    def rewrite_catalogue(self, *, until: float) -> str | None:
        """Write the catalogue anew. Return None when nothing deleted is left in it, else what keeps it there."""
        return self._catalog.rewrite(wait_seconds=max(1.0, until - self._clock()))

    def done(self, targets: Sequence[Target]) -> list[Cleaned]:
        """Say what was done in the storage, for the receipt."""
        is_sqlite = self._catalog.kind == "sqlite"
        catalogue = (
            "written anew, and its log emptied"
            if is_sqlite
            else (
                "its tables written anew; the logs, replicas and backups of the database server are not this service's"
            )
        )
        engine = (
            "its database written anew, its log emptied, and what its indexes held of unused memory blanked"
            if self._owns_engine
            else ("the documents are deleted there; its files are not this service's and may hold them still")
        )
        places = [Cleaned(CATALOGUE, catalogue), Cleaned(ENGINE, engine)]
        if any(each.collection is not None for each in targets):
            places += [
                Cleaned(WORDS, "merged without them"),
                Cleaned(INDEX, "rebuilt without them"),
                Cleaned(VECTORS, "the files of their codes removed"),
            ]
        if beside := sum(len(each.ids_beside) for each in targets):
            told = "erased from the vectors beside the collection: they match as they once were, not as they are"
            places.append(Cleaned(BESIDE, told, beside))
        return [*places, self._backups.told()]

    def traces(
        self, probes: Sequence[bytes], holders: Callable[[Set[Path]], Mapping[Path, str]]
    ) -> tuple[dict[str, str], list[str]]:
        """Search for words of what was erased. Return (where they are and should not be, what else holds them).

        `holders` names those of the files that hold them which are of something that was not to be erased.
        """
        wanted = list(dict.fromkeys(probes))
        try:
            found = search_files(self._data_dir, wanted)
        except OSError as error:
            log.error("files could not be searched for what was erased", error=str(error))
            return {FILES: "could not be searched: the log says why"}, []
        held = holders(found.keys())
        elsewhere = list(held.values())
        left: dict[str, str] = {}
        for probe in wanted:
            files = [file for file, has in found.items() if probe in has and file not in held]
            if not files and self._catalog.kind == "sqlite":
                continue
            with self._catalog.read() as transaction:
                tables = tables_with(transaction, self._catalog.kind, probe)
            elsewhere += tables
            if not tables:
                # Some come and go: uploads, and what databases write beside theirs.
                left |= {self._shown(file): "still has words of them" for file in files if file.exists()}
        return left, list(dict.fromkeys(elsewhere))

    def _shown(self, file: Path) -> str:
        """Return the first name of a file's path in the data directory."""
        return os.fsencode(file.relative_to(self._data_dir).parts[0]).decode(errors="backslashreplace")


def _collection_of(transaction: Transaction, asked: ErasureRequest) -> Collection | None:
    """Return the collection that something is to be erased from. One that a user's notes were in may be gone."""
    if asked.collection is None:
        return None
    return (
        find_collection(transaction, asked.collection) if asked.user is None else named(transaction, asked.collection)
    )


def _by_key(transaction: Transaction, key: int) -> Collection:
    """Return a collection, whatever it is called by now. Raises CollectionNotFoundError when it is gone."""
    collection = collection_by_key(transaction, key)
    if collection is None:
        raise CollectionNotFoundError(str(key))
    return collection


def _gathered(transaction: Transaction, collection: Collection, asked: ErasureRequest) -> _Gathered:
    """Return what is to be erased from a collection and what stands beside it. That has its documents as they once
    were: one that matched then, and does not now, is erased there alone."""
    gathered = _Gathered()
    if asked.document is not None:
        spellings = spellings_of_id(asked.document)
        gathered.document_ids.update(spellings)
        matches = In("document_id", tuple(spellings))
        gathered.add_matching(transaction, collection, matches)
        stored = list(reads.by_ids(transaction, collection, spellings).values())
        gathered.add([each for each in stored if "document_id" not in each.metadata])
        for each in with_beside(transaction, collection)[1:]:
            gathered.add_matching_beside(transaction, collection, each, matches)
            once = list(reads.by_ids(transaction, each, spellings).values())
            gathered.add_beside(transaction, collection, [each for each in once if "document_id" not in each.metadata])
            stored += once
        if stored and not gathered.ids and not gathered.ids_beside:
            (chunk, *_) = stored
            document = str(chunk.metadata["document_id"])
            raise InvalidInputError(
                f"'{chunk.id}' is a chunk of document '{document}', which is erased as a whole: nothing was erased",
                code="chunk_of_document",
                field="document",
                document=document,
            )
    else:
        where = EVERYTHING if asked.where is None else asked.where
        gathered.add_matching(transaction, collection, where)
        if asked.user is None and not asked.may_empty and len(gathered.ids) == collection.count > 0:
            raise MatchesEverythingError(collection.name, collection.count, "erased")
        for each in with_beside(transaction, collection)[1:]:
            gathered.add_matching_beside(transaction, collection, each, where)
    return gathered


def _blocks(transaction: Transaction, collection: Collection, where: Where) -> Iterator[list[Document]]:
    matching = positions(transaction, collection.key, where)
    places = [row[0] for row in transaction.rows(matching.text, matching.parameters)]
    for start in range(0, len(places), READ_AT_ONCE):
        yield list(reads.by_positions(transaction, places[start : start + READ_AT_ONCE]).values())


def _document_of(stored: Document) -> str:
    """Return the document that a stored one is a chunk of, itself where it is whole."""
    return str(stored.metadata.get("document_id", stored.id))


class _Gathered:
    """What is known of the documents to erase, gathered block by block. `ids_beside` are those that are erased from
    what stands beside the collection, whatever they are in the collection itself."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.ids_beside: set[str] = set()
        self._former: set[str] = set()
        self._documents: set[str] = set()
        self._staying: set[str] = set()
        self.document_ids: set[str] = set()
        self._sources: set[str] = set()
        self._some: list[Document] = []

    def add_matching(self, transaction: Transaction, collection: Collection, where: Where) -> None:
        for block in _blocks(transaction, collection, where):
            self.add(block)

    def add_matching_beside(
        self, transaction: Transaction, collection: Collection, beside: Collection, where: Where
    ) -> None:
        for block in _blocks(transaction, beside, where):
            self.add_beside(transaction, collection, block)

    def add_beside(self, transaction: Transaction, collection: Collection, documents: Sequence[Document]) -> None:
        """Add documents that stand beside `collection`, from which is erased what it has of them and what matches.

        Where chunks of a document stay in the collection, what is known of the document belongs to these.
        """
        self.ids_beside.update(each.id for each in documents)
        present = reads.by_ids(transaction, collection, [each.id for each in documents])
        gone = [each for each in documents if each.id in self.ids or each.id not in present]
        self._former.update(
            mark_of(name, each.text)
            for each in documents
            if each.id not in present or present[each.id].text != each.text
            for name in (each.id, _document_of(each))
        )
        self._note_staying(transaction, collection, {_document_of(each) for each in gone} - self._staying)
        self.add([each for each in gone if _document_of(each) not in self._staying])
        self._some += documents[:MOST_PROBES]

    def _note_staying(self, transaction: Transaction, collection: Collection, documents: Set[str]) -> None:
        """Note those of the documents of which anything stays in the collection. All that matches there is known."""
        names = tuple(sorted(documents))
        for block in _blocks(transaction, collection, Or((In("document_id", names), HasId(names)))):
            self._staying.update(_document_of(each) for each in block if each.id not in self.ids)

    def add(self, documents: Sequence[Document]) -> None:
        for each in documents:
            told = each.metadata
            self.ids.add(each.id)
            self._documents.add(_document_of(each))
            self._sources.update(str(told[name]) for name in ("source", "path") if told.get(name))
        self._some += documents[:MOST_PROBES]

    def matched(self, collection: Collection | None, asked: ErasureRequest) -> Matched:
        if collection is None:
            return Matched(Target(owner=asked.user, is_private=asked.is_private))
        target = Target(
            collection.name,
            collection.id,
            ids=frozenset(self.ids),
            ids_beside=frozenset(self.ids_beside - self.ids),
            former=frozenset(self._former),
            documents=frozenset(self._documents),
            document_ids=frozenset(self.document_ids | self._documents),
            sources=frozenset(self._sources),
            owner=asked.user,
            is_private=asked.is_private,
        )
        return Matched(target, spread(self._some))
