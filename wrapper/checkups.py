"""Looking at the indexes: after each start of the engine, now and then, and when an operator asks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import structlog

from schemas.records import Collection
from wrapper.catalog import outbox, reads, reports, states
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.rows import all_collections, collection_by_key
from wrapper.catalog.transaction import Transaction
from wrapper.engine.client import EngineClient
from wrapper.engine.doctor import CANARIES, Doctor
from wrapper.engine.errors import EngineBrokenError, EngineCollectionMissingError, EngineUnavailableError
from wrapper.engine.recall import RecallMeasurement
from wrapper.rebuilding import Rebuilds

log = structlog.get_logger(__name__)

WAITING_ENTRIES = 64
"""Entries that may wait while a collection is looked at; behind more of them that is done later."""
EVERY_SECONDS = 60.0
RECALL_EVERY_SECONDS = 900.0
"""Measuring recall takes a look at all vectors of the collection. One that has doubled is measured again at once."""
REBUILD_AGAIN_SECONDS = 3600.0
"""What a rebuild did not mend (a document that the engine refuses, say) is no reason for the next one soon, and each
further one waits twice as long."""


class Checkups:
    """Used by the one thread that drains the outbox, which calls `step` between the entries."""

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        doctor: Doctor,
        rebuilds: Rebuilds,
        *,
        clock: Callable[[], float],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._doctor = doctor
        self._rebuilds = rebuilds
        self._clock = clock
        self._now = now
        self._queue: deque[int] = deque()
        self._next_round_at = float("-inf")
        # By collection: until when no fault is a reason for a rebuild, and how long the pause was.
        self._rebuild_pauses: dict[int, tuple[float, float]] = {}
        # By collection: when, or with how many documents, it is measured again.
        self._recall_due_at: dict[int, tuple[float, int]] = {}
        self._measuring: RecallMeasurement | None = None

    def trust_nothing(self) -> None:
        """An index that was not looked at since the engine started may be broken: queries scan until it was."""
        self._catalog.commit(states.distrust_all)
        self._next_round_at = float("-inf")
        self._measuring = None

    def ask_for(self, collection_key: int) -> None:
        """Look at this index next, and measure its recall."""
        self._recall_due_at.pop(collection_key, None)
        self._queue.appendleft(collection_key)

    def has_work(self) -> bool:
        return bool(self._queue or self._measuring)

    def step(self, incarnation: object) -> None:
        """One small step. Raises UnavailableError when the engine, whose run `incarnation` is, does not answer."""
        now = self._clock()
        if now >= self._next_round_at:
            self._next_round_at = now + EVERY_SECONDS
            with self._catalog.read() as transaction:
                keys = [each.key for each in all_collections(transaction)]
            # What may end the engine comes last: until then the others can be asked.
            self._queue = deque(sorted(keys, key=self._rebuilds.runs_unanswered))
        if self._measuring is not None:
            self._measure(self._measuring)
        elif self._queue:
            if not self._look_at(self._queue[0], incarnation):
                self._queue.append(self._queue[0])
            self._queue.popleft()

    def _look_at(self, collection_key: int, incarnation: object) -> bool:
        """Look at an index, and have it rebuilt when it is not as it should be; False when that cannot quite be said
        as long as writes wait in the outbox."""
        with self._catalog.read() as transaction:
            collection = collection_by_key(transaction, collection_key)
            if collection is None or collection.engine_id is None or collection.index_state == states.ADOPTING:
                return True
            if collection.index_state == states.REBUILDING:
                self._rebuilds.go_on([collection_key])
                return True
            is_trusted = collection.index_state == states.READY
            entries = outbox.of_collection(transaction, collection_key, limit=1 if is_trusted else WAITING_ENTRIES)
            if entries and (is_trusted or not _only_documents(entries)):
                return False
            waiting = {document_id for entry in entries for document_id in _touched(entry)}
            canaries = [each for each in reads.sample(transaction, collection, CANARIES) if each.id not in waiting]
        try:
            if not is_trusted:
                # As far as is known the engine has just started, and loads the index with this look.
                self._engine.widen_search(collection.name)
            finding = self._doctor.look(collection, canaries, counts=not entries)
        except (EngineBrokenError, EngineCollectionMissingError) as error:
            self._rebuilds.begin(collection_key, error.message)
            return True
        except EngineUnavailableError as error:
            if self._rebuilds.blame(collection_key, incarnation, error):
                return True
            raise
        self._rebuilds.answered(collection_key)
        pause_ends_at, last_pause = self._rebuild_pauses.get(collection_key, (float("-inf"), REBUILD_AGAIN_SECONDS / 2))
        rebuilt_lately = self._clock() < pause_ends_at

        def record(transaction: Transaction) -> None:
            reports.write(
                transaction,
                collection_key,
                checked_at_seconds=self._now(),
                documents_held=finding.held,
                index_bytes=finding.index_bytes,
                fault=finding.fault,
            )
            if not is_trusted and (finding.fault is None or rebuilt_lately):
                states.set_index_state(transaction, collection_key, states.READY)

        self._catalog.commit_quickly(record)
        if finding.fault is not None and not rebuilt_lately:
            self._rebuild_pauses[collection_key] = (self._clock() + 2 * last_pause, 2 * last_pause)
            self._rebuilds.begin(collection_key, finding.fault)
            return True
        if finding.fault is not None:
            log.warning("an index is not as it should be, and was not after a rebuild", collection=collection.name)
        if canaries and self._is_recall_due(collection):
            self._measuring = RecallMeasurement(self._catalog, self._engine, collection, canaries)
        return not entries

    def _is_recall_due(self, collection: Collection) -> bool:
        at, documents = self._recall_due_at.get(collection.key, (float("-inf"), 0))
        return self._clock() >= at or collection.count >= documents

    def _measure(self, measurement: RecallMeasurement) -> None:
        key = measurement.collection_key
        if measurement.step():
            return
        self._measuring = None
        recall = measurement.recall()
        if recall is not None:
            self._recall_due_at[key] = (self._clock() + RECALL_EVERY_SECONDS, 2 * measurement.documents)
        self._catalog.commit_quickly(
            lambda transaction: reports.write(transaction, key, recall_at_10=recall, recall_at_seconds=self._now())
        )


def _only_documents(entries: list[outbox.Entry]) -> bool:
    return len(entries) < WAITING_ENTRIES and all(entry.kind == outbox.DOCUMENTS for entry in entries)


def _touched(entry: outbox.Entry) -> list[str]:
    return [*(document_id for document_id, _ in entry.payload["upsert"]), *entry.payload["delete"]]
