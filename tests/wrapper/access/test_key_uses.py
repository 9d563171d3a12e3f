"""When a key was last used, by a clock of the test's own: it is written once a minute at most."""

from datetime import timedelta

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.errors import UnauthorizedError, UnavailableError
from schemas.settings import AccessSettings
from tests.wrapper.access.conftest import at, on_both
from tests.wrapper.access.forked import Clock
from wrapper.access.authentication import Authentication
from wrapper.access.stored_keys import StoredKeys

READS = Grant(frozenset({Scope.READ}))
MINUTE = timedelta(minutes=1)
MOMENT = timedelta(milliseconds=1)


class CountedKeys(StoredKeys):
    """Keys that count how often uses of them are noted, and cannot be written while they are `away`."""

    times_noted = 0
    is_away = False

    def note_uses(self, used_at):
        self.times_noted += 1
        if self.is_away:
            raise UnavailableError("The catalogue is away")
        super().note_uses(used_at)


@pytest.fixture
def clock():
    return Clock(at(2026, 11, 23, 18))


@pytest.fixture
def stored(catalog, clock):
    return CountedKeys(catalog, clock)


@pytest.fixture
def authentication(stored, clock):
    return Authentication(AccessSettings(access="keys"), "127.0.0.1", stored, now=clock)


def last_used(stored, key):
    return stored.one(key.id).last_used_at


@on_both()
def test_a_use_is_noted_once_a_minute_at_most(stored, clock):
    key, _ = stored.create("used", READS)
    assert last_used(stored, key) is None
    first = clock.now
    for later, noted in (
        (timedelta(0), first),
        (MINUTE - MOMENT, first),
        (MINUTE, first + MINUTE),
        (2 * MINUTE - MOMENT, first + MINUTE),
        (10 * MINUTE, first + 10 * MINUTE),
        (3 * MINUTE, first + 10 * MINUTE),  # by another worker, which was slower
    ):
        stored.note_uses({key.id: first + later})
        assert last_used(stored, key) == noted


def test_each_key_has_its_own_minute(stored, clock):
    early, late, unused = (stored.create(name, READS)[0] for name in ("early", "late", "unused"))
    first = clock.now
    stored.note_uses({early.id: first})
    stored.note_uses({early.id: first + MINUTE / 2, late.id: first + MINUTE / 2})
    stored.note_uses({early.id: first + MINUTE, late.id: first + MINUTE})
    assert [last_used(stored, key) for key in (early, late, unused)] == [first + MINUTE, first + MINUTE / 2, None]


def test_a_note_of_a_use_changes_nothing_else(stored, clock):
    key, _ = stored.create("used", READS)
    before = stored.state()
    stored.note_uses({key.id: clock.now, "nobodys": clock.now})
    assert stored.state() == before, "processes would forget what they know of all keys"
    assert stored.all() == [stored.one(key.id)]


def test_the_last_use_of_each_key_is_noted_and_then_forgotten(stored, clock, authentication):
    (used, text), (unused, _) = (stored.create(name, READS) for name in ("used", "unused"))
    for _ in range(3):
        clock.now += timedelta(seconds=1)
        authentication.caller_with(text)
    used_at = clock.now
    clock.now += timedelta(seconds=5)
    authentication.note_uses()
    assert (last_used(stored, used), last_used(stored, unused)) == (used_at, None)
    clock.now += 2 * MINUTE
    authentication.note_uses()
    assert (last_used(stored, used), stored.times_noted) == (used_at, 1)
    authentication.caller_with(text)
    authentication.note_uses()
    assert last_used(stored, used) == clock.now


def test_who_is_refused_has_not_used_the_key(stored, clock, authentication):
    key, text = stored.create("refused", READS, expires_at=clock.now + MINUTE)
    forged = f"{text[:-1]}{'a' if text[-1] != 'a' else 'b'}"
    with pytest.raises(UnauthorizedError):
        authentication.caller_with(forged)
    clock.now += MINUTE
    with pytest.raises(UnauthorizedError):
        authentication.caller_with(text)
    authentication.note_uses()
    assert (last_used(stored, key), stored.times_noted) == (None, 0)


def test_uses_that_cannot_be_noted_do_not_stop_anything(stored, clock, authentication):
    key, text = stored.create("used", READS)
    authentication.caller_with(text)
    stored.is_away = True
    authentication.note_uses()
    stored.is_away = False
    assert last_used(stored, key) is None
    authentication.caller_with(text)
    authentication.note_uses()
    assert last_used(stored, key) == clock.now
