"""The schedule of index checks: after each start of the engine, at intervals, and when an operator asks."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from schemas.errors import RagError
from schemas.records import Collection, Vector
from schemas.storage.index_reports import IndexReport
from wrapper.catalog import reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import countable, outbox, reports, samples, set_aside, states
from wrapper.catalog.rows import collection_by_key
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineBrokenError, EngineCollectionMissingError
from wrapper.indexing.breaking_documents import Part, Sifter
from wrapper.indexing.doctor import CANARIES, Doctor, Finding
from wrapper.indexing.rebuilding import Rebuilds
from wrapper.indexing.recall import QUERIES, Recall, RecallMeasurement
from wrapper.indexing.retry_pauses import Rests

log = structlog.get_logger(__name__)

WAITING_ENTRIES = 64
"""The outbox entries that may wait while a collection is checked; a collection with more of them is checked later."""
EVERY_SECONDS = 60.0
TRUSTED_PER_ROUND = 50
"""The indexes of a round that are checked again although nothing is known against them. Each check makes the engine
load the index: thousands of them would keep it busy, and push out the indexes that are queried."""
RECALL_EVERY_SECONDS = 900.0
"""Measuring recall takes two passes over all vectors of the collection. One of which half was written or deleted since
is measured again at the next check."""
RESTS_A_MEASUREMENT = 50
"""A measurement is followed by a rest of so many times as long as it took: it takes 2 % of the time at most."""
REBUILD_AGAIN_SECONDS, LONGEST_REBUILD_PAUSE_SECONDS = 3600.0, 86_400.0
"""A fault that a rebuild did not mend does not cause the next rebuild soon, and each further one waits twice as
long."""
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 2.0, 600.0
TRIED_AGAIN_AT_ONCE = 20
RECORDED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class _Measured:
    """When recall is measured again at the latest, and of how many documents, at which revision, it was measured."""

    due_at: float
    documents: int
    revision: int


@dataclass(frozen=True, slots=True)
class FailedLook:
    """A check that the engine did not answer."""

    collection_key: int
    error: RagError


class Checkups:
    """The checks of all indexes, used by the one thread that drains the outbox: it calls `step` between the entries.

    Collections that never had a document are judged all at once by the engine's list of collections. The others are
    checked one by one: first those that an operator asks for, then those that nobody has checked since the engine
    started, then the trusted ones, at most `TRUSTED_PER_ROUND` in a round. Among each of the last two the one whose
    last check is longest ago comes first, so a round that has no time for all is continued by the next one. A
    collection that gave no answer keeps its place and rests; it is checked when its rest is over, whether or not a
    round begins.
    """

    def __init__(
        self,
        catalog: Catalog,
        engine: EngineClient,
        doctor: Doctor,
        rebuilds: Rebuilds,
        sifter: Sifter,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
        engine_release: Callable[[], str],
        least_recall: float,
        questions: Callable[[int], Sequence[Vector]],
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._doctor = doctor
        self._rebuilds = rebuilds
        self._sifter = sifter
        self._clock = clock
        self._now = now
        self._engine_release = engine_release
        self._least_recall = least_recall
        self._questions = questions
        self._queue: deque[int] = deque()
        self._asked_for: list[int] = []
        self._next_round_at = float("-inf")
        self._rests = Rests[int](FIRST_REST_SECONDS, LONGEST_REST_SECONDS, clock)
        # While a collection has such a pause, no fault causes its rebuild.
        self._rebuild_pauses = Rests[int](REBUILD_AGAIN_SECONDS, LONGEST_REBUILD_PAUSE_SECONDS, clock)
        self._measured: dict[int, _Measured] = {}
        self._chance = random.Random()
        self._measuring: RecallMeasurement | None = None
        self._measuring_since = 0.0

    def trust_nothing(self) -> None:
        """Make queries scan the catalogue until each index is checked: any may be broken since the engine started."""
        self._catalog.commit(states.distrust_all)
        self._next_round_at = float("-inf")
        self._measuring = None

    def ask_for(self, collection_key: int) -> None:
        """Check this index next, and measure its recall."""
        self._measured.pop(collection_key, None)
        self._rests.forget(collection_key)
        if collection_key not in self._asked_for:
            self._asked_for.append(collection_key)

    def forget(self, collection_key: int) -> None:
        """Forget a collection that is gone."""
        self._measured.pop(collection_key, None)
        self._rests.forget(collection_key)
        self._rebuild_pauses.forget(collection_key)

    def has_work(self) -> bool:
        return bool(self._asked_for or self._measuring) or self._next() is not None

    def step(self, incarnation: object) -> FailedLook | None:
        """Take one small step. Return the failed check when the engine, whose run is `incarnation`, did not answer."""
        if self._clock() >= self._next_round_at:
            self._begin_round()
        if self._measuring is not None:
            return self._measure(self._measuring)
        if self._asked_for:
            return self._look_safely(self._asked_for.pop(0), incarnation)
        key = self._next()
        if key is None:
            return None
        self._queue.remove(key)
        return self._look_safely(key, incarnation)

    def blame_look(self, failed: FailedLook) -> float:
        """Let an index rest that failed by itself and not with the whole engine. Return the seconds."""
        return self._rests.begin(failed.collection_key)

    def _next(self) -> int | None:
        """Return the first collection in the queue that does not rest."""
        return next(filter(self._rests.is_over, self._queue), None)

    def _begin_round(self) -> None:
        self._next_round_at = self._clock() + EVERY_SECONDS
        self._trust_unused()
        resting = self._rests.under_way()
        with self._catalog.read() as transaction:
            keys = reports.longest_unseen(transaction, passing_over=resting, trusted=TRUSTED_PER_ROUND)
        # An index that may end the engine comes last: until then the others can be asked.
        self._queue = deque([*sorted(keys, key=self._rebuilds.runs_unanswered), *resting])

    def _trust_unused(self) -> None:
        """Trust the indexes of all collections that are and always were empty.

        One call to the engine tells them; checking each would take most of a round. No entry is applied meanwhile, so
        the answer stays true.
        """
        with self._catalog.read() as transaction:
            if not states.doubts_empty(transaction):
                return
        try:
            unused, finding = self._doctor.unused()
        except RagError as error:
            log.warning("the engine does not list its collections, each is looked at", reason=error.message)
            return
        for start in range(0, len(unused), RECORDED_AT_ONCE):
            self._catalog.commit_quickly(
                partial(self._record_unused, unused[start : start + RECORDED_AT_ONCE], finding)
            )

    def _record_unused(self, engine_ids: list[str], finding: Finding, transaction: Transaction) -> None:
        for key in states.trust_empty(transaction, engine_ids):
            self._report(transaction, key, finding)

    def _report(self, transaction: Transaction, collection_key: int, finding: Finding) -> None:
        reports.write(
            transaction,
            collection_key,
            checked_at_seconds=self._now(),
            documents_held=finding.held,
            index_bytes=finding.index_bytes,
            fault=finding.fault,
        )

    def _look_safely(self, collection_key: int, incarnation: object) -> FailedLook | None:
        try:
            if not self._look_at(collection_key):
                self._queue.append(collection_key)
        except RagError as error:
            if not self._rebuilds.blame(collection_key, incarnation, error):
                self._queue.append(collection_key)
                return FailedLook(collection_key, error)
        return None

    def _look_at(self, collection_key: int) -> bool:
        """Check an index, and have it rebuilt when it is not as it should be.

        Returns False when writes that wait in the outbox leave the result uncertain. Raises UnavailableError when the
        engine does not answer.
        """
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
            refused = set_aside.up_to_entries(transaction, collection_key)
            report = reports.find(transaction, collection_key)
            waiting = {document_id for entry in entries for document_id in _touched(entry)}
            canaries = [
                each
                for each in samples.spread(transaction, collection, CANARIES)
                if each.id not in waiting and each.position not in refused
            ]
        try:
            if not is_trusted:
                # As far as is known the engine has just started, and loads the index with this check.
                self._engine.widen_search(collection.engine_name, report.search_width, engine_id=collection.engine_id)
            expected = None if entries else collection.count - len(refused)
            finding = self._doctor.look(collection, canaries, expected=expected)
        except (EngineBrokenError, EngineCollectionMissingError) as error:
            self._rebuilds.begin(collection_key, error.message)
            return True
        self._rebuilds.answered(collection_key)
        self._rests.forget(collection_key)
        rebuilt_lately = not self._rebuild_pauses.is_over(collection_key)

        def record(transaction: Transaction) -> None:
            self._report(transaction, collection_key, finding)
            if not is_trusted and (finding.fault is None or rebuilt_lately):
                states.set_index_state(transaction, collection_key, states.READY)

        self._catalog.commit_quickly(record)
        if finding.fault is not None and not rebuilt_lately:
            self._rebuild_pauses.begin(collection_key)
            self._rebuilds.begin(collection_key, finding.fault)
            return True
        if finding.fault is not None:
            log.warning("an index is not as it should be, and was not after a rebuild", collection=collection.name)
        if refused and not entries:
            self._try_again(collection)
        if canaries and self._is_recall_due(collection, report):
            with self._catalog.read() as transaction:
                sampled = samples.chosen(transaction, collection, QUERIES, self._chance)
            if sampled:
                self._measuring_since = self._clock()
                self._measuring = RecallMeasurement(
                    self._catalog,
                    self._engine,
                    collection,
                    sampled,
                    enough=self._least_recall,
                    questions=self._questions(collection_key),
                    apart=refused,
                )
        return not entries

    def _try_again(self, collection: Collection) -> None:
        """Try documents again that another release of the engine did not take, apart from the index.

        A document that the engine takes now becomes a write like any other.
        """
        release = self._engine_release()
        with self._catalog.read() as transaction:
            places = set_aside.tried_with_another(transaction, collection.key, release)[:TRIED_AGAIN_AT_ONCE]
            documents = reads.by_positions(transaction, places, with_embeddings=True)
            newest = outbox.newest(transaction)
        faults = {
            position: self._sifter.fault(collection, Part([position]), [document])
            for position, document in documents.items()
        }
        taken = [documents[position].id for position, fault in faults.items() if fault is None]
        refused = {position: fault for position, fault in faults.items() if fault is not None}

        def record(transaction: Transaction) -> None:
            if collection_by_key(transaction, collection.key) is None:
                return
            if taken:
                upserts: list[tuple[str, list[str]]] = [(document_id, []) for document_id in taken]
                outbox.append(
                    transaction, collection.key, outbox.DOCUMENTS, {"upsert": upserts, "delete": [], "again": True}
                )
            set_aside.put(
                transaction, collection.key, refused, up_to_entry=newest, engine=release, now_seconds=self._now()
            )

        if faults:
            self._catalog.commit(record)

    def _is_recall_due(self, collection: Collection, report: IndexReport) -> bool:
        measured = self._measured.get(collection.key)
        if measured is None or report.recall_at_10 is None or self._clock() >= measured.due_at:
            return True
        half = -(-measured.documents // 2)
        if collection.count <= measured.documents - half:
            return True
        with self._catalog.read() as transaction:
            return countable.written_since(transaction, collection, measured.revision, most=half) >= half

    def _measure(self, measurement: RecallMeasurement) -> FailedLook | None:
        key = measurement.collection.key
        try:
            if measurement.step():
                return None
            self._measuring = None
            recall = measurement.result
            if recall is not None:
                self._record(measurement.collection, recall)
        except RagError as error:
            self._measuring = None
            return FailedLook(key, error)
        return None

    def _record(self, collection: Collection, recall: Recall) -> None:
        """Record a measurement, and have the index searched as widely as it requires.

        An index that the engine has loaded keeps its width: until the engine loads it again, queries ask for as many
        candidates instead. Where no width is enough, nothing is changed, and the planner does without the index.
        """
        now = self._clock()
        due_at = now + max(RECALL_EVERY_SECONDS, RESTS_A_MEASUREMENT * (now - self._measuring_since))
        self._measured[collection.key] = _Measured(due_at, collection.count, collection.revision)
        is_enough = recall.lowest >= self._least_recall
        candidates = recall.candidates if is_enough else None

        def record(transaction: Transaction) -> tuple[IndexReport, int | None]:
            before = reports.find(transaction, collection.key)
            width = max(before.search_width or 0, candidates or 0) or None
            reports.write(
                transaction,
                collection.key,
                recall_at_10=recall.unfiltered,
                filtered_recall_at_10=recall.filtered,
                recall_at_seconds=self._now(),
                candidates=candidates,
                search_width=width,
            )
            return before, width

        before, width = self._catalog.commit_quickly(record)
        if not is_enough:
            reason = "an index misses near documents, queries are computed"
            log.warning(reason, collection=collection.name, recall=recall.lowest)
        elif candidates is not None:
            if candidates != before.candidates:
                log.info("an index is searched more widely", collection=collection.name, candidates=candidates)
            self._engine.widen_search(collection.engine_name, width, engine_id=collection.engine_id)


def _only_documents(entries: list[outbox.Entry]) -> bool:
    return len(entries) < WAITING_ENTRIES and all(entry.kind == outbox.DOCUMENTS for entry in entries)


def _touched(entry: outbox.Entry) -> list[str]:
    return [*(document_id for document_id, _ in entry.payload["upsert"]), *entry.payload["delete"]]
