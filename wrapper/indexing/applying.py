"""Application of outbox entries, which makes the engine equal to the catalogue one group of entries after the other.

In between it takes small steps of checking the indexes (`checkups.py`), of rebuilding those that are missing or broken
(`rebuilding.py`) and of adopting what others made (`adoption.py`). They take turns, and what fails rests: none of them
waits for another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from schemas.errors import UnavailableError
from schemas.records import Document, Vector
from schemas.storage.engine_records import FULL
from schemas.storage.recall import LEAST_RECALL
from wrapper.catalog import identity, reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, set_aside, standstills, states
from wrapper.catalog.rows import collection_by_key, collections_in
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import (
    EngineBrokenError,
    EngineCollectionMissingError,
    EngineRefusedError,
    EngineUnavailableError,
)
from wrapper.indexing.adoption import Adoptions
from wrapper.indexing.breaking_documents import Sifter
from wrapper.indexing.checkups import Checkups, FailedLook
from wrapper.indexing.doctor import Doctor
from wrapper.indexing.engine_collections import DOCUMENTS_PER_CALL, EngineCollections, rebuild_name
from wrapper.indexing.rebuilding import FailedStep, Rebuilds
from wrapper.indexing.retry_pauses import Rests

log = structlog.get_logger(__name__)

FAILURES_BEFORE_RESTART = 2
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 2.0, 10.0
"""The rests of all maintenance, but not of the writers, while the engine as a whole does not answer."""
CLAIM_EVERY_SECONDS = 60.0
ENGINE = "engine"


class Applier:
    """The work on the engine, used by the one thread that drains the outbox.

    `incarnation` identifies the run of the engine, None while it does not answer; `restart_engine` asks for a new run;
    `revive_engine` is called while there is none. `index_bytes` returns the size of an index on this machine,
    `may_store` whether there is disk space for adopted documents. `claim` makes sure that the engine is this
    catalogue's and raises UnavailableError when it is not: nothing is sent to an engine that belongs to another.
    `engine_release` names the release of the engine: the next release may take what one does not. Unless it `adopts`,
    nothing new is adopted, and what others keep in the engine stays as it is. `records` is what the engine's records of
    a new collection have; `clean` asks that the engine's files lose what is deleted in them. An index with a recall@10
    below `least_recall` is searched more widely; it is measured with `questions` of a collection, too.
    """

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        *,
        incarnation: Callable[[], object],
        restart_engine: Callable[[], object],
        revive_engine: Callable[[], object] = lambda: None,
        index_bytes: Callable[[str], int | None] = lambda _engine_id: None,
        may_store: Callable[[], bool] = lambda: True,
        claim: Callable[[], None] | None = None,
        engine_release: Callable[[], str] = lambda: "",
        adopts: bool = True,
        records: Callable[[], str] = lambda: FULL,
        clean: Callable[[], object] = lambda: None,
        least_recall: float = LEAST_RECALL,
        questions: Callable[[int], Sequence[Vector]] = lambda _collection_key: (),
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._incarnation = incarnation
        self._restart_engine = restart_engine
        self._revive_engine = revive_engine
        self._clock = clock
        self._now = now
        self._claim = claim
        self._claimed_at = float("-inf")
        self._engine_release = engine_release
        self._collections = EngineCollections(catalog, engine, shared=not adopts, new_records=records)
        self._rebuilds = Rebuilds(
            catalog, engine, self._collections, clock=clock, now=now, engine_release=engine_release, clean=clean
        )
        self._adoptions = Adoptions(catalog, engine, may_store=may_store, looks=adopts, clock=clock)
        self._checkups = Checkups(
            catalog,
            engine,
            Doctor(catalog, engine, index_bytes),
            self._rebuilds,
            Sifter(engine, self._collections),
            clock=clock,
            now=now,
            engine_release=engine_release,
            least_recall=least_recall,
            questions=questions,
        )
        self._failures: dict[int, int] = {}
        # Entries up to these may have been applied before, so the engine may have their documents already.
        self._found_up_to = 0
        self._tried_up_to: dict[int, int] = {}
        self._trusted_incarnation: object = None
        self._rests = Rests[str](FIRST_REST_SECONDS, LONGEST_REST_SECONDS, clock)
        # The standstills as the catalogue has them: the reason for each collection.
        self._standstills: dict[int, str] = {}

    def take_over(self) -> None:
        """Take the lead, and continue the rebuilds that another process had begun."""
        with self._catalog.read() as transaction:
            unfinished = [each.key for each in collections_in(transaction, states.REBUILDING)]
            self._found_up_to = outbox.newest(transaction)
        self._rebuilds.forget_all()
        self._rebuilds.go_on(unfinished)
        self._adoptions.go_on()
        self._tried_up_to.clear()
        self._standstills.clear()
        self._catalog.commit_quickly(standstills.forget_all)
        self._claimed_at = float("-inf")
        self._trust_nothing()

    def engine_is_ready(self) -> bool:
        """Return whether there is an engine to apply entries to, and it is ours."""
        return self.engine_run() is not None and (self._claim is None or self._claimed_at > float("-inf"))

    def engine_run(self) -> object:
        """Return what identifies this run of the engine, None while it does not answer."""
        return self._incarnation()

    def busy_collections(self) -> list[int]:
        """Return the collections under rebuild, whose entries wait."""
        return self._rebuilds.keys

    def has_work(self) -> bool:
        """Return whether maintenance has anything to do now. It has nothing while the engine is away or rests."""
        if self._incarnation() is None or not self._rests.is_over(ENGINE):
            return False
        return self._rebuilds.has_work() or self._checkups.has_work() or self._adoptions.has_work()

    def apply(self, entries: list[outbox.Entry]) -> None:
        """Apply entries of one collection: either one of any kind, or several that write documents.

        Raises UnavailableError when the engine did not take them; the same entries may be applied again.
        """
        first = entries[0]
        incarnation = self._incarnation()
        try:
            match first.kind:
                case outbox.CREATE | outbox.EMPTY:
                    self._create(first)
                case outbox.METADATA:
                    self._set_metadata(first)
                case outbox.DROP:
                    self._drop(first)
                case outbox.CHECK:
                    self._checkups.ask_for(first.collection_key)
                    return
                case outbox.REBUILD:
                    records = first.payload.get("records")
                    self._rebuilds.begin(first.collection_key, "it was asked for", asked=True, records=records)
                    return
                case _:
                    self._write(first.collection_key, entries)
        except EngineCollectionMissingError:
            self._rebuilds.begin(first.collection_key, "its engine collection is missing")
            raise
        except (EngineBrokenError, EngineUnavailableError) as error:
            if not self._rebuilds.blame(first.collection_key, incarnation, error):
                self._note_failure(first.collection_key, error)
            raise
        self._failures.pop(first.collection_key, None)
        self._rebuilds.answered(first.collection_key)
        self.moves_again(first.collection_key)

    def stands_still(self, collection_key: int, reason: str) -> None:
        """Record for all processes why the writes of a collection wait."""
        if self._standstills.get(collection_key) != reason:
            self._standstills[collection_key] = reason
            now = self._now()
            self._catalog.commit_quickly(lambda transaction: standstills.put(transaction, collection_key, reason, now))

    def moves_again(self, collection_key: int) -> None:
        if self._standstills.pop(collection_key, None) is not None:
            self._catalog.commit_quickly(lambda transaction: standstills.forget(transaction, collection_key))

    def maintain(self) -> None:
        """Take one small step of the work that no writer asks for: checks, rebuilds and adoptions."""
        incarnation = self._incarnation()
        if incarnation != self._trusted_incarnation:
            self._trust_nothing()
            self._trusted_incarnation = incarnation
        if incarnation is None:
            self._revive_engine()
            return
        if not self._rests.is_over(ENGINE):
            return
        try:
            if self._rests or not self._is_claimed():
                self._make_sure()
            self._take_turns(incarnation)
        except UnavailableError as error:
            pause = self._rests.begin(ENGINE)
            log.warning("engine did not answer, maintenance goes on later", reason=error.message, pause_seconds=pause)

    def _is_claimed(self) -> bool:
        return self._claim is None or self._clock() - self._claimed_at < CLAIM_EVERY_SECONDS

    def _make_sure(self) -> None:
        """Raise UnavailableError when the engine as a whole does not answer, or is not ours."""
        if self._claim is None:
            self._engine.heartbeat()
        else:
            self._claimed_at = float("-inf")
            self._claim()
            self._claimed_at = self._clock()
        self._rests.forget(ENGINE)

    def _take_turns(self, incarnation: object) -> None:
        """Take a step of each kind. Raises UnavailableError when the engine as a whole does not answer."""
        failed_rebuild = self._rebuild()
        if failed_rebuild is not None:
            self._blame(failed_rebuild, incarnation)
        if self._incarnation() != incarnation:
            # That step ended the engine, so it gives no answer to the others, which are not to blame.
            return
        failed_look = self._checkups.step(incarnation)
        if failed_look is not None:
            self._blame(failed_look, incarnation)
        self._adopt()

    def _blame(self, failed: FailedStep | FailedLook, incarnation: object) -> None:
        """Find out whether one index is to blame, which then rests, or the engine as a whole."""
        if isinstance(failed.error, EngineUnavailableError) and self._incarnation() == incarnation:
            self._make_sure()
        if isinstance(failed, FailedLook):
            pause = self._checkups.blame_look(failed)
        else:
            pause = self._rebuilds.blame_step(failed)
            self.stands_still(failed.collection_key, failed.error.message)
        log.warning(
            "the engine does not do what an index needs, it rests",
            collection_key=failed.collection_key,
            reason=failed.error.message,
            details=failed.error.details,
            pause_seconds=pause,
        )

    def _trust_nothing(self) -> None:
        self._checkups.trust_nothing()
        self._adoptions.look()
        self._trusted_incarnation = None
        self._rests.clear()

    def _create(self, entry: outbox.Entry) -> None:
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, entry.collection_key)
        if collection is None or (entry.kind == outbox.CREATE and collection.engine_id is not None):
            return
        if entry.kind == outbox.EMPTY:
            self._collections.remove(collection.engine_name, collection.engine_id)
        self._collections.put_to_use(collection, self._collections.make(collection, collection.engine_name))

    def _set_metadata(self, entry: outbox.Entry) -> None:
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, entry.collection_key)
            owner = identity.find(transaction)
        if collection is None or collection.engine_id is None:
            return
        try:
            self._engine.set_collection_metadata(collection.engine_id, collection.metadata, owner=owner)
        except EngineRefusedError as error:
            # The catalogue answers with the metadata itself, and the collection's documents must not wait for it.
            log.error("the engine refuses a collection's metadata", collection=collection.name, reason=error.message)

    def _drop(self, entry: outbox.Entry) -> None:
        name, engine_id = entry.payload["name"], entry.payload["engine_id"]
        self._rebuilds.discard(entry.collection_key, engine_id)
        self._checkups.forget(entry.collection_key)
        self._tried_up_to.pop(entry.collection_key, None)
        # A crash may have come after a rebuild took the name and before the catalogue recorded it.
        self._collections.remove(name, engine_id, rebuild=rebuild_name(entry.collection_key, engine_id))

    def _write(self, collection_key: int, entries: list[outbox.Entry]) -> None:
        stale: dict[str, set[str]] = {}
        deleted: set[str] = set()
        known: set[str] = set()
        newest: dict[str, int] = {}
        for entry in entries:
            deleted.update(entry.payload["delete"])
            for document_id, keys in entry.payload["upsert"]:
                newest[document_id] = entry.id
                if keys is not None and document_id not in stale:
                    known.add(document_id)
                stale.setdefault(document_id, set()).update(keys or ())
        untried = entries[0].id > self._tried_up_to.get(collection_key, self._found_up_to)
        self._tried_up_to[collection_key] = entries[-1].id
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, collection_key)
            reset = outbox.last_reset(transaction, collection_key)
            if collection is None or (reset is not None and reset > entries[-1].id):
                return
            documents = reads.by_ids(transaction, collection, list(stale), with_embeddings=True)
            tried = set_aside.up_to_entries(transaction, collection_key)
        if collection.engine_id is None:
            raise EngineCollectionMissingError(f"Collection '{collection.name}' has no index yet")
        if deleted:
            self._engine.delete(collection.engine_id, sorted(deleted))
        # A document is not tried again in a version that the engine has already refused.
        present = [documents[document_id] for document_id in stale if document_id in documents]
        untaken = [each for each in present if tried.get(each.position, -1) < newest[each.id]]
        refused: dict[int, str] = {}
        for block in _blocks(untaken, DOCUMENTS_PER_CALL):
            all_new = untried and known.isdisjoint(document.id for document in block)
            refused |= self._collections.store(collection, block, stale, all_new=all_new)
        taken = {each.position for each in untaken} & tried.keys() - refused.keys()
        if refused or taken:
            self._set_aside(collection_key, refused, taken, up_to_entry=entries[-1].id)

    def _set_aside(self, collection_key: int, refused: dict[int, str], taken: set[int], *, up_to_entry: int) -> None:
        """Record what the engine took and refused, on disk before anybody is told that the entries are applied."""
        release = self._engine_release() if refused else ""

        def record(transaction: Transaction) -> None:
            set_aside.take_back(transaction, taken)
            set_aside.put(
                transaction,
                collection_key,
                refused,
                up_to_entry=up_to_entry,
                engine=release,
                now_seconds=self._now(),
            )

        self._catalog.commit(record)

    def _note_failure(self, collection_key: int, error: UnavailableError) -> None:
        failures = self._failures.get(collection_key, 0) + 1
        self._failures[collection_key] = failures
        if failures < FAILURES_BEFORE_RESTART or self._incarnation() is None:
            return
        if isinstance(error, EngineBrokenError) and failures > FAILURES_BEFORE_RESTART:
            self._rebuilds.begin(collection_key, error.message)
            self._failures.pop(collection_key, None)
        else:
            self._restart_engine()

    def _rebuild(self) -> FailedStep | None:
        outcome = self._rebuilds.step()
        if isinstance(outcome, FailedStep):
            return outcome
        if outcome is not None:
            self._tried_up_to[outcome.collection_key] = outcome.newest_entry
            self.moves_again(outcome.collection_key)
            self._checkups.ask_for(outcome.collection_key)
        return None

    def _adopt(self) -> None:
        adopted = self._adoptions.step()
        if adopted is None:
            return
        if adopted.fault is None:
            self._checkups.ask_for(adopted.collection_key)
        else:
            self._rebuilds.begin(adopted.collection_key, adopted.fault)


def _blocks(documents: list[Document], size: int) -> Iterable[list[Document]]:
    return (documents[start : start + size] for start in range(0, len(documents), size))
