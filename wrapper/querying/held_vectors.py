"""The codes of collections' vectors, held in memory: nearest documents without asking the engine.

All processes of a service share the codes of a collection at one revision, the base, in a file
(`wrapper/querying/code_files.py`). What was written since is told by the feed of changes, and each process keeps codes
of it beside the base. So what is computed from both is true in any snapshot of the revision to which they were brought,
and in no other, and a write costs no more than its own documents.

Reading the vectors of a collection pays only when queries follow: it is read once its queries would have won as much
time as the reading costs (the ski-rental rule: never more than twice the cost of the better choice). No query waits for
long: what takes long is done apart, while queries are answered as before.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

import structlog

from schemas.errors import RagError
from schemas.records import Collection
from schemas.storage.erasure_count import erasures
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.changes.feed import history_of
from wrapper.catalog.contract import Transaction
from wrapper.catalog.rows import all_collections, find_collection
from wrapper.coalescing import Coalescer, Ticket
from wrapper.querying import leaves
from wrapper.querying.base_codes import FINDING_BYTES, BaseCodes, encoded
from wrapper.querying.code_files import CodeFiles, Layout
from wrapper.querying.codes import Bytes, Floats, QueryCode, Rows, multiply, size_bytes
from wrapper.querying.costs import codes_compared
from wrapper.querying.kept_codes import ROW_BYTES, BehindError, Held, KeptCodes, OutgrownError, OvertakenError

log = structlog.get_logger(__name__)

SOON_MS = 100.0
"""The longest that a query may take to read a collection, or what was written to it."""
SOON_BYTES = 100_000_000
"""The longest file that a query may open: comparing it with its checksum takes as long."""
BYTES_BESIDE = 16 + FINDING_BYTES + ROW_BYTES
"""What a document takes beside its codes: its position, its place among leaves, what finds its row and what is kept of
it."""
TOGETHER_FROM = 1_000_000
"""Collections of at least this many components compute products for several queries at a time."""
SHARE_FOR_LEAVES = 0.05
"""Of a smaller share of a collection, codes are picked out sooner than leaves tell which of them can be near."""
QUERIES_AT_ONCE = 16
PRODUCTS_AT_ONCE = max(1, (os.cpu_count() or 1) // 2)
MAX_REMEMBERED = 10_000
PAUSES = 10
"""So many times as long as this process took for the codes of a collection, it makes none of it anew."""
CHECK_SECONDS = 600.0
"""The interval at which a file that is mapped is compared with its checksum."""
LOOK_SECONDS = 1.0
"""The interval at which a process looks for files that others have made."""
SWEEP_SECONDS = 600.0
"""The interval at which each process lets go of what it has of collections that are gone."""

UNSHARED = "codes of vectors cannot be shared by processes"


@dataclass(slots=True)
class _Account:
    saved_ms: float = 0.0
    is_read: bool = False
    look_at: float = 0.0
    given_up: int = 0
    """The revision of the last base that was of no use any more: its file is not opened again."""


_Asked = Ticket[tuple[BaseCodes, Bytes], Floats]


class HeldVectors:
    """The held vectors of collections, in at most `max_bytes`. Collections asked for longest ago leave first.

    Several threads can use it. A thread of its own reads large collections of the `catalog`; without one, queries do.
    Without `files` the codes are this process's own. `clock` tells seconds.
    """

    def __init__(
        self,
        max_bytes: int,
        catalog: Catalog | None = None,
        files: CodeFiles | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._catalog = catalog
        self._files = files
        self._clock = clock
        self._apart = ThreadPoolExecutor(1, thread_name_prefix="vectors")
        self._closing = threading.Event()
        self._kept: OrderedDict[int, KeptCodes] = OrderedDict()
        self._accounts: OrderedDict[int, _Account] = OrderedDict()
        self._guard = threading.Lock()
        self._products: Coalescer[tuple[BaseCodes, Bytes], Floats] = Coalescer(
            _multiply, most=QUERIES_AT_ONCE, at_once=PRODUCTS_AT_ONCE, alike=lambda one, other: one[0] is other[0]
        )

    def fits(self, collection: Collection) -> bool:
        count, dimension = collection.count, collection.dimension or 0
        taken = size_bytes(count, dimension) + count * BYTES_BESIDE + leaves.most_bytes(count, dimension)
        return taken <= self._max_bytes

    def of(
        self, transaction: Transaction, collection: Collection, *, saves_ms: float, reading_ms: float
    ) -> Held | None:
        """Return the collection's codes at the transaction's revision, or None when they are not held.

        If, with this query, reading them would have paid, they are read: now if that takes no longer than `SOON_MS`. A
        query that would take longer than opening the codes that others have made waits for that.
        Raises OvertakenError when the codes are of a later revision already.
        """
        most = int(SOON_MS / reading_ms * collection.count) + 1
        held, kept = self._at(transaction, collection, most)
        if held is not None and kept is not None and not self._wants_new_base(kept):
            self._check_in_time(kept, collection)
            return held
        with self._guard:
            account = self._account(collection.key)
            account.saved_ms += saves_ms
            is_time = self._clock() >= account.look_at
            makes = account.saved_ms >= reading_ms or (kept is not None and is_time)
            looks = self._files is not None and is_time
            if account.is_read or self._closing.is_set() or not (makes or looks):
                return held
            account.is_read = True  # by this thread or apart; the others do not wait for it
            account.look_at = self._clock() + LOOK_SECONDS
            if makes:
                account.saved_ms = 0.0
        if self._catalog is not None:
            is_behind = kept is not None and held is None
            file_bytes = self._most_bytes_of_files(collection)
            if is_behind or reading_ms > SOON_MS or file_bytes > SOON_BYTES:
                with self._guard:
                    if self._closing.is_set():
                        return held
                    try:
                        reading = self._apart.submit(self._read_apart, self._catalog, collection, makes=makes)
                    except RuntimeError:  # no room for a thread now
                        account.is_read = False
                        return held
                if kept is not None or not file_bytes or saves_ms < SOON_MS * max(1.0, file_bytes / SOON_BYTES):
                    return held
                # Without the codes that others have made, this query would take longer than opening their file.
                wait([reading], timeout=saves_ms / 1e3)
                return self._at(transaction, collection, most)[0]
        try:
            self._read(transaction, collection, None if self._catalog is None else most, makes=makes)
        finally:
            self._end_reading(collection.key)
        return self._at(transaction, collection, most)[0]

    def _at(
        self, transaction: Transaction, collection: Collection, most: int | None
    ) -> tuple[Held | None, KeptCodes | None]:
        """Return what is kept of a collection, and its state at the transaction's revision if it can be brought to it
        by reading at most `most` documents."""
        with self._guard:
            kept = self._kept.get(collection.key)
            if kept is None:
                return None, None
            self._kept.move_to_end(collection.key)
        if not kept.base.has_its_length():
            self._give_up(kept, collection)
            return None, None
        held, taken_bytes = None, kept.nbytes
        try:
            held = kept.at(transaction, collection, most)
            if kept.nbytes == taken_bytes:
                return held, kept
        except BehindError:
            return None, kept
        except OutgrownError:
            pass
        with self._guard:
            is_of_use = held is not None and kept.nbytes <= self._max_bytes
            if not is_of_use and self._kept.get(collection.key) is kept:
                del self._kept[collection.key]
                self._account(collection.key).given_up = kept.base.revision
            self._make_room()
            return held, self._kept.get(collection.key)

    def sweep(self) -> None:
        """Let go of the codes of collections that are gone, and remove their files."""
        if self._catalog is None or self._files is None:
            return
        # Before the collections are read, so that nothing of a new one goes.
        ids = self._files.collection_ids()
        with self._guard:
            keys = {*self._kept, *self._accounts}
        try:
            with self._catalog.read() as transaction:
                known = {each.key: each.id for each in all_collections(transaction)}
        except RagError as error:
            log.info("codes of vectors are swept later", reason=error.message)
            return
        with self._guard:
            for key in keys - known.keys():
                self._kept.pop(key, None)
                self._accounts.pop(key, None)
        self._files.sweep(ids - set(known.values()))

    def close(self) -> None:
        """Give up what is being read."""
        with self._guard:
            self._closing.set()
        self._apart.shutdown(cancel_futures=True)

    def nearest(self, held: Held, query: QueryCode, top_k: int, rows: Rows | None = None) -> Rows:
        """Return the rows that can be among the `top_k` nearest, of `rows` (n,) if given.

        Simultaneous queries are computed together.
        """
        count = len(held.base.positions)
        picks = rows is not None and codes_compared(count, len(rows)) < count
        if rows is not None and picks and len(rows) < SHARE_FOR_LEAVES * count:
            return held.nearest(query, top_k, rows)
        return held.nearest_of_all(query, top_k, lambda: self._all_products(held.base, query.code), rows, picks=picks)

    def _all_products(self, base: BaseCodes, code: Bytes) -> Floats:
        if base.codes.codes.size < TOGETHER_FROM:
            return multiply(base.codes.codes, [code])[0]
        return self._products.do((base, code))

    def _most_bytes_of_files(self, collection: Collection) -> int:
        return 0 if self._files is None else self._files.most_bytes(collection.id)

    def _read_apart(self, catalog: Catalog, asked: Collection, *, makes: bool) -> None:
        try:
            with catalog.read() as transaction:
                collection = find_collection(transaction, asked.name)
                if collection.count and self.fits(collection):
                    self._read(transaction, collection, None, makes=makes)
        except (RagError, OSError) as error:
            log.info("vectors were not read into memory", collection=asked.name, reason=str(error))
        except Exception:
            log.exception("unexpected failure while vectors were read into memory", collection=asked.name)
        finally:
            self._end_reading(asked.key)

    def _read(self, transaction: Transaction, collection: Collection, most: int | None, *, makes: bool) -> None:
        """Bring what is kept of a collection to this revision, by reading at most `most` documents, or, where that is
        not possible, hold the codes of a file that others have made or, if this process `makes` some, new ones."""
        with self._guard:
            kept = self._kept.get(collection.key)
        if kept is not None and not self._wants_new_base(kept):
            with suppress(OvertakenError):
                _, kept = self._at(transaction, collection, most)
            if kept is not None:
                return
        if self._files is not None:
            try:
                self._read_file(self._files, transaction, collection, kept, most, makes=makes)
                return
            except OSError as error:
                log.warning(UNSHARED, reason=error.strerror)
        if makes:
            began_at = self._clock()
            self._keep(collection, self._made(transaction, collection), began_at)

    def _read_file(
        self,
        files: CodeFiles,
        transaction: Transaction,
        collection: Collection,
        kept: KeptCodes | None,
        most: int | None,
        *,
        makes: bool,
    ) -> None:
        """Hold the codes of the newest file, or make one. Raises OSError when files cannot be used at all."""
        history = history_of(transaction, collection)
        with self._guard:
            newer_than = self._account(collection.key).given_up if kept is None else kept.base.revision
        with files.making(collection.id) as may_make:
            found = files.open(collection.id, history, after=newer_than, up_to=collection.revision)
            if found is not None and self._keep(collection, found):
                try:
                    held, kept = self._at(transaction, collection, most)
                except OvertakenError:
                    return  # a query has brought them further meanwhile
                if held is not None and kept is not None and not self._wants_new_base(kept):
                    return
            if makes and may_make:
                began_at = self._clock()
                self._keep(collection, self._in_file(files, transaction, collection, history), began_at)

    def _wants_new_base(self, kept: KeptCodes) -> bool:
        return kept.is_outgrown and self._clock() >= kept.renew_at

    def _check_in_time(self, kept: KeptCodes, collection: Collection) -> None:
        if self._clock() < kept.check_at:
            return
        with self._guard:
            if self._clock() >= kept.check_at and not self._closing.is_set():
                kept.check_at = self._clock() + CHECK_SECONDS
                with suppress(RuntimeError):  # no room for a thread now: the next one does this first
                    self._apart.submit(self._check, kept, collection)

    def _check(self, kept: KeptCodes, collection: Collection) -> None:
        if kept.base.is_whole():
            if self._files is not None:
                self._files.used(kept.base)
        else:
            self._give_up(kept, collection)

    def _give_up(self, kept: KeptCodes, collection: Collection) -> None:
        """Let go of codes whose file was damaged, and remove it."""
        log.error("codes of vectors are damaged and made anew", collection=collection.name)
        with self._guard:
            if self._kept.get(collection.key) is kept:
                del self._kept[collection.key]
        if self._files is not None:
            self._files.forget(collection.id)

    def _in_file(
        self, files: CodeFiles, transaction: Transaction, collection: Collection, history: str
    ) -> BaseCodes | None:
        """Return new codes, which are this process's own when there is no room for their file."""
        since = erasures(transaction)
        made = self._made(transaction, collection)
        if made is None or self._is_erased_since(since):
            return None  # an erasure that comes now waits for this process, and removes the file
        try:
            with files.new(collection.id, Layout.of(made)) as file:
                filled = file.fill(made, collection.id, history)
            files.forget_before(collection.id, collection.revision)
        except OSError as error:
            log.warning(UNSHARED, reason=error.strerror)
            return made  # which need not be made again
        return filled

    def _is_erased_since(self, count: int) -> bool:
        """Return whether something was erased since there were so many erasures, perhaps what codes were made of."""
        if self._catalog is None:
            return False
        with self._catalog.read() as transaction:
            return erasures(transaction) != count

    def _made(self, transaction: Transaction, collection: Collection) -> BaseCodes | None:
        return encoded(transaction, collection, self._closing.is_set)

    def _account(self, key: int) -> _Account:
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account()
            while len(self._accounts) > MAX_REMEMBERED:
                self._accounts.popitem(last=False)
        return account

    def _keep(self, collection: Collection, base: BaseCodes | None, began_at: float | None = None) -> bool:
        """Hold the codes, unless newer ones are held. Return whether they are held. `began_at` is when this process
        began to make them, None for those of a file."""
        with self._guard:
            before = self._kept.get(collection.key)
            if base is None or (before is not None and before.base.revision > base.revision):
                return False
            now = self._clock()
            taken_seconds = 0.0 if began_at is None else now - began_at
            kept = KeptCodes(base, check_at=now + CHECK_SECONDS, renew_at=now + PAUSES * taken_seconds)
            if kept.nbytes > self._max_bytes:
                self._account(collection.key).given_up = base.revision
                return False  # before others make room for what does not fit
            self._kept[collection.key] = kept
            self._kept.move_to_end(collection.key)
            self._make_room()
            return True

    def _make_room(self) -> None:
        """Let the collections asked for longest ago leave, as long as all take too much."""
        while sum(each.nbytes for each in self._kept.values()) > self._max_bytes:
            key, _ = self._kept.popitem(last=False)
            self._accounts.pop(key, None)

    def _end_reading(self, key: int) -> None:
        with self._guard:
            account = self._accounts.get(key)
            if account is not None:
                account.is_read = False


def _multiply(asked: list[_Asked]) -> None:
    codes = asked[0].request[0].codes.codes
    for ticket, products in zip(asked, multiply(codes, [ticket.request[1] for ticket in asked]), strict=True):
        ticket.succeed(products)
