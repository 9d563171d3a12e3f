"""What a process remembers of keys, by a clock of the test's own: how soon it sees a change, and what it does while the
catalogue is slow or away."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import ANYBODY, Scope
from schemas.errors import UnauthorizedError, UnavailableError
from schemas.settings import AccessSettings
from tests.support.live import PATIENCE_SECONDS, eventually
from wrapper.access.authentication import FRESH_SECONDS, STALE_SECONDS, Authentication, KeyMemory
from wrapper.access.stored_keys import StoredKeys
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.sqlite.database import SQLiteDatabase

READS = Grant(frozenset({Scope.READ}))
PROMISED_SECONDS = 2.0
"""How long a change of a key may go unseen (docs/access.md)."""
WITHOUT_CATALOGUE_SECONDS = 60.0
"""How long known keys count while the catalogue is away."""
MOMENT = 0.001


class SlowKeys(StoredKeys):
    """Keys of a catalogue that can be slow to tell its state (`holding`), or away."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self.times_asked = 0
        self.is_away = False
        self._go = threading.Event()
        self._go.set()

    def state(self) -> tuple[int, bool]:
        self.times_asked += 1
        assert self._go.wait(PATIENCE_SECONDS)
        if self.is_away:
            raise UnavailableError("The catalogue is away")
        return super().state()

    @contextmanager
    def holding(self):
        """Keep whoever asks for the state waiting until the block ends."""
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()


class WatchedLock:
    """A lock that counts who would wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.waiting = 0

    def acquire(self, *, blocking: bool) -> bool:
        if self._lock.acquire(blocking=False):
            return True
        if not blocking:
            return False
        self.waiting += 1
        return self._lock.acquire(timeout=PATIENCE_SECONDS)

    def release(self) -> None:
        self._lock.release()


@pytest.fixture
def stored(tmp_path):
    database = SQLiteDatabase(tmp_path / "catalog.sqlite")
    catalog = Catalog(database)
    catalog.open()
    yield SlowKeys(catalog)
    database.close()


@pytest.fixture
def memory(stored, clock):
    memory = KeyMemory(stored, clock)
    memory._asking = WatchedLock()
    return memory


@pytest.fixture
def key_id(stored, memory):
    """The id of a key that the memory has just seen."""
    key, _ = stored.create("seen", READS)
    assert not is_revoked(memory, key.id)
    return key.id


@pytest.fixture
def aside():
    """`aside(function, …)` calls a function in a thread of its own, and returns its outcome to come."""
    with ThreadPoolExecutor() as pool:

        def call(function: Callable, *arguments: object) -> Future:
            return pool.submit(function, *arguments)

        yield call


def is_revoked(memory, key_id):
    key, _, _ = memory.find(key_id)
    return key.revoked_at is not None


def test_what_is_promised_leaves_time_for_looking_a_key_up():
    assert FRESH_SECONDS < STALE_SECONDS < PROMISED_SECONDS


def test_each_change_is_seen_as_soon_as_what_is_known_is_not_fresh(stored, memory, clock):
    assert not memory.has_any()
    key, _ = stored.create("first", READS)
    writes = Grant(frozenset({Scope.WRITE}))
    for seen, change in (
        (memory.has_any, lambda: None),
        (lambda: memory.find(key.id)[2].scopes == writes.scopes, lambda: stored.change(key.id, granting(writes))),
        (lambda: is_revoked(memory, key.id), lambda: stored.revoke(key.id)),
    ):
        assert not seen()
        change()
        clock.now += FRESH_SECONDS - MOMENT
        assert not seen()
        clock.now += 2 * MOMENT
        assert seen()
    new, _ = stored.create("new", READS)
    assert memory.find(new.id)[0] == new


def granting(grant):
    return lambda before: replace(before, grant=grant)


@pytest.mark.parametrize("access", ["", "open"])
def test_the_first_key_counts_at_once_for_whoever_carries_it(stored, clock, access):
    """What they do would be nobody's, else. An open service that is to stay open asks nobody."""
    authentication = Authentication(AccessSettings(access), "127.0.0.1", stored, clock=clock)
    assert authentication.caller_of(lambda _: "") is ANYBODY
    key, text = stored.create("first", READS)
    carried = {"Authorization": f"Bearer {text}"}
    told = [authentication.caller_of(lambda name, sent=sent: sent.get(name, "")) for sent in ({}, carried)]
    assert told == [ANYBODY, ANYBODY if access else key.caller()]
    with nullcontext() if access else pytest.raises(UnauthorizedError, match="needs an API key"):
        assert authentication.still(ANYBODY, at_once=True) is ANYBODY


@pytest.mark.parametrize("sent", ["rw_ab12cd34_" + "s" * 43, "of-another-service", ""])
def test_an_open_service_takes_no_notice_of_what_is_no_key_of_it(stored, clock, sent):
    authentication = Authentication(AccessSettings(""), "127.0.0.1", stored, clock=clock)
    assert authentication.caller_of(lambda name: sent if name == "X-API-Key" else "another") is ANYBODY
    assert authentication.caller_of(lambda name: sent if name == "X-API-Key" else "") is ANYBODY


def test_the_catalogue_is_asked_once_for_as_long_as_what_is_known_is_fresh(stored, memory, clock, key_id):
    asked = stored.times_asked
    for _ in range(10):
        clock.now += FRESH_SECONDS / 10 - MOMENT
        memory.find(key_id)
    assert stored.times_asked == asked
    clock.now += FRESH_SECONDS
    for _ in range(10):
        memory.find(key_id)
    assert stored.times_asked == asked + 1


def test_while_one_thread_asks_others_go_by_what_is_known_until_it_is_stale(stored, memory, clock, aside, key_id):
    asked = stored.times_asked
    stored.revoke(key_id)
    with stored.holding():
        clock.now += FRESH_SECONDS + MOMENT
        asking = aside(is_revoked, memory, key_id)
        eventually(lambda: stored.times_asked > asked)
        for now in (clock.now, clock.now + STALE_SECONDS - FRESH_SECONDS - 2 * MOMENT):
            clock.now = now
            assert aside(is_revoked, memory, key_id).result(PATIENCE_SECONDS) is False
        assert memory._asking.waiting == 0
        clock.now += 2 * MOMENT
        late = aside(is_revoked, memory, key_id)
        eventually(lambda: memory._asking.waiting or late.done())
        assert not asking.done()
        assert not late.done(), "a thread went by what is stale"
    assert asking.result(PATIENCE_SECONDS) is late.result(PATIENCE_SECONDS) is True
    assert stored.times_asked == asked + 1, "whoever waited for another thread did not ask again"


def test_without_the_catalogue_known_keys_count_for_a_while(stored, memory, clock, key_id):
    unseen, _ = stored.create("unseen", READS)
    stored.revoke(key_id)
    stored.is_away = True
    for _ in range(2):
        clock.now += WITHOUT_CATALOGUE_SECONDS / 2 - MOMENT
        assert not is_revoked(memory, key_id)
        assert memory.has_any()
    clock.now += 3 * MOMENT
    new = KeyMemory(stored, clock)
    of_ids = ((memory.find, (key_id,)), (memory.find, (unseen.id,)), (new.find, ("abcdefgh",)))
    for function, arguments in (*of_ids, (memory.has_any, ()), (new.has_any, ())):
        with pytest.raises(UnavailableError):
            function(*arguments)
    stored.is_away = False
    assert is_revoked(memory, key_id)
    assert not is_revoked(memory, unseen.id)
