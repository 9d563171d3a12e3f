"""The drain from the outbox to the engine: in order per collection, small writes merged, callers released when applied.

One process drains (it holds a lock that is free when it dies); the others watch the catalogue for the entries that
their callers wait for. Applying an entry means reading the current state of what it names and making the engine equal
to it, so a repeat after a crash does no harm.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain

import structlog

from schemas.errors import RagError, UnavailableError
from schemas.giving_way import QUESTIONS
from schemas.storage.leadership import Leadership
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.contract import Transaction
from wrapper.catalog.index_state import outbox, reports, states
from wrapper.indexing.applying import Applier
from wrapper.indexing.bell import Bell
from wrapper.indexing.retry_pauses import Rests

log = structlog.get_logger(__name__)

MERGED_DOCUMENTS = 500
ENTRIES_AT_ONCE = 128
POLL_SECONDS = 0.002
WAITING_POLL_SECONDS = 0.05
"""The interval of looks while a caller waits and nothing changes."""
IDLE_POLL_SECONDS = 0.5
"""The interval of all other looks: the bell, or the database, wakes an indexer that has something to do."""
LEAD_LOST = "the lead was lost while it was written"
LIVELY_SECONDS = 2.0
"""The time after a commit in which a follower whose callers wait polls the catalogue often."""
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.2, 10.0
STANDSTILL_SECONDS = 1.0
"""The pause from which on the writes of a collection count as standing still, which is recorded for everybody to
see."""
LONGEST_LOSS_SECONDS = 60.0
RESTART_SECONDS = 2.0


class Indexer:
    """A thread that drains the outbox while this process leads, and tells waiting writers when they are done."""

    def __init__(
        self,
        catalog: Catalog,
        applier: Applier,
        leadership: Leadership,
        *,
        clock: Callable[[], float],
        bell: Bell | None = None,
    ) -> None:
        self._catalog = catalog
        self._applier = applier
        self._leadership = leadership
        self._clock = clock
        self._wake = bell or Bell()
        self._stopping = threading.Event()
        self._waiting: dict[int, list[threading.Event]] = {}
        self._hurried = 0  # how many of those wait for a request, which must not wait for questions
        self._guard = threading.Lock()
        self._backoff = Rests[int](FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS, clock)
        self._engine_run: object = None
        self._doubtful: set[int] = set()
        self._served: set[int] = set()
        self._last_change = clock()
        self._asks_for_lead_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="indexer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Finish the engine call under way and give up the lead.

        Waiting entries stay in the outbox, and the callers that wait for them are told so.
        """
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout_seconds)
        if not self._thread.is_alive():
            self._wake.close()
        with self._guard:
            for applied in chain.from_iterable(self._waiting.values()):
                applied.set()

    @property
    def leads(self) -> bool:
        return self._leadership.held

    def wait(self, entry: int, timeout_seconds: float) -> bool:
        """Wait until an outbox entry is applied. Return False when that takes too long or the service stops."""
        applied, is_hurried = threading.Event(), not QUESTIONS.are_given_way
        with self._guard:
            self._waiting.setdefault(entry, []).append(applied)
            self._hurried += is_hurried
        self.notify()
        try:
            if applied.wait(timeout_seconds):
                return not self._stopping.is_set()
            with self._catalog.read() as transaction:
                return not outbox.still_waiting(transaction, [entry])
        finally:
            with self._guard:
                self._hurried -= is_hurried
                waiting = self._waiting[entry]
                waiting.remove(applied)
                if not waiting:
                    del self._waiting[entry]

    def notify(self) -> None:
        """Tell the thread that the outbox has a new entry, and the leader in another process."""
        self._wake.set()
        self._wake.ring()

    def _run(self) -> None:
        with ExitStack() as stack:
            stack.enter_context(QUESTIONS.given_way())
            changes = stack.enter_context(self._catalog.change_counter())
            stack.callback(self._leadership.release)
            stack.callback(self._wake.stop_listening)
            seen = -1
            while not self._stopping.is_set():
                try:
                    self._settle_doubts()
                    if not self._leadership.held and self._begins_to_lead():
                        self._applier.take_over()
                        seen = -1
                    changed = changes()
                    if changed != seen:
                        self._last_change = self._clock()
                    if self._leadership.held:
                        self._wake.listen()
                        if changed != seen or self._wake.is_set():
                            self._wake.clear()
                            seen = changed
                            while self._drain_some() and not self._stopping.is_set():
                                pass
                            # Some callers began to wait after their entry was gone, for example with a repeat of a
                            # write.
                            self._release_applied()
                        under_rebuild = self._applier.busy_collections()
                        self._applier.maintain()
                        if under_rebuild:
                            self._still_leads_after_writing(under_rebuild)
                    else:
                        self._wake.stop_listening()
                        if changed != seen or self._wake.is_set():
                            self._wake.clear()
                            seen = changed
                            self._release_applied()
                except UnavailableError as error:
                    log.warning("indexer: going on later", reason=error.message)
                    self._stopping.wait(FIRST_BACKOFF_SECONDS)
                except Exception:
                    log.exception("indexer: unexpected failure, going on")
                    self._stopping.wait(RESTART_SECONDS)
                self._pause(changes.descriptor)

    def _begins_to_lead(self) -> bool:
        # Not at every look of a follower whose callers wait: they come by hundreds a second, and mostly for nothing.
        now = self._clock()
        if now < self._asks_for_lead_at:
            return False
        self._asks_for_lead_at = now + IDLE_POLL_SECONDS
        return self._leadership.acquire()

    def _pause(self, told_by: int | None) -> None:
        now = self._clock()
        # A leader is woken by whoever writes; a follower has nothing to see to while none of its own callers waits.
        lively = now - self._last_change < LIVELY_SECONDS and bool(self._waiting) and not self._leadership.held
        idle = WAITING_POLL_SECONDS if self._waiting else IDLE_POLL_SECONDS
        poll = POLL_SECONDS if lively or self._has_work() else idle
        # A pause that is over may still belong to a collection that waits for its rebuild.
        next_end = self._backoff.next_end()
        descriptors = () if told_by is None else (told_by,)
        self._wake.wait(poll if next_end is None else min(poll, max(0.0, next_end - now)), *descriptors)
        if self._backoff or self._has_work():
            self._wake.set()

    def _has_work(self) -> bool:
        return self._leadership.held and self._applier.has_work()

    def _drain_some(self) -> bool:
        """Apply the oldest entries that can be applied in one go. Return False when there are none, or no engine."""
        if not self._applier.engine_is_ready():
            return False
        if self._engine_run != self._applier.engine_run():
            # This run of the engine may take what another run did not take.
            self._engine_run = self._applier.engine_run()
            self._backoff.end_all()
        blocked = [*self._backoff.under_way(), *self._applier.busy_collections()]
        with self._catalog.read() as transaction:
            # Each collection gets one turn before any gets its next: a collection with many entries keeps no other
            # waiting.
            entries = outbox.oldest(transaction, limit=ENTRIES_AT_ONCE, passing_over=[*blocked, *self._served])
            if not entries and self._served:
                self._served.clear()
                entries = outbox.oldest(transaction, limit=ENTRIES_AT_ONCE, passing_over=blocked)
        if not entries:
            return False
        together = _together(entries)
        key = together[0].collection_key
        self._served.add(key)
        if not self._hurried:
            QUESTIONS.let_pass()
        began_at = self._clock()
        try:
            self._applier.apply(together)
        except RagError as error:
            if not self._still_leads_after_writing([key]):
                return False
            # An entry that takes long to fail would take most of the time from the other collections.
            lost = min(2 * (self._clock() - began_at), LONGEST_LOSS_SECONDS)
            pause = self._backoff.begin(key, at_least_seconds=lost)
            if pause >= STANDSTILL_SECONDS:
                self._applier.stands_still(key, error.message)
            log.warning(
                "index write failed, will be repeated", collection_key=key, reason=error.message, pause_seconds=pause
            )
            if not isinstance(error, UnavailableError):
                log.error("index write refused", collection_key=key, reason=error.message, details=error.details)
            return True
        if not self._still_leads_after_writing([key]):
            return False
        self._backoff.forget(key)
        self._finish([entry.id for entry in together])
        return True

    def _still_leads_after_writing(self, collection_keys: list[int]) -> bool:
        """Return whether the lead was held until the engine had it all.

        Otherwise another leader may meanwhile have written something newer there. The entries then stay for the leader,
        and the indexes are rebuilt.
        """
        if self._leadership.confirm():
            return True
        self._doubtful.update(collection_keys)
        return False

    def _settle_doubts(self) -> None:
        if not self._doubtful:
            return
        doubtful = sorted(self._doubtful)
        log.warning("the lead was lost while these indexes were written: they are rebuilt", collection_keys=doubtful)

        def distrust(transaction: Transaction) -> None:
            for key in doubtful:
                states.set_index_state(transaction, key, states.REBUILDING)
                reports.write(transaction, key, rebuild_reason=LEAD_LOST, documents_rebuilt=0)

        self._catalog.commit(distrust)
        self._doubtful.difference_update(doubtful)

    def _finish(self, entries: list[int]) -> None:
        # Callers in this process are released before the entries are gone: losing the removal only repeats work.
        with self._guard:
            for entry in entries:
                for waiting in self._waiting.get(entry, ()):
                    waiting.set()
        self._catalog.commit_quickly(lambda transaction: outbox.remove(transaction, entries))

    def _release_applied(self) -> None:
        with self._guard:
            waited_for = list(self._waiting)
        if not waited_for:
            return
        with self._catalog.read() as transaction:
            still = outbox.still_waiting(transaction, waited_for)
        with self._guard:
            for entry in waited_for:
                if entry not in still:
                    for waiting in self._waiting.get(entry, ()):
                        waiting.set()


def _together(entries: list[outbox.Entry]) -> list[outbox.Entry]:
    """Return the first entry and, if it writes documents, those of its collection that fit into the same call."""
    first = entries[0]
    together = [first]
    if first.kind != outbox.DOCUMENTS:
        return together
    size = _size(first)
    for entry in entries[1:]:
        if entry.collection_key != first.collection_key:
            continue
        if entry.kind != outbox.DOCUMENTS:
            break
        size += _size(entry)
        if size > MERGED_DOCUMENTS:
            break
        together.append(entry)
    return together


def _size(entry: outbox.Entry) -> int:
    return len(entry.payload["upsert"]) + len(entry.payload["delete"])
