"""Keys by a clock of the test's own: their ends, their rotation, and when they were last used, which is written once a minute
at most; rights are taken away on a full disk with the room that is set aside for it."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope, acting_as
from schemas.errors import ConflictError, DiskFloorError, InvalidInputError, UnauthorizedError, UnavailableError
from schemas.settings import AccessSettings
from tests.wrapper.access.conftest import at, on_both
from tests.wrapper.clock import Clock
from wrapper.access.authentication import Authentication
from wrapper.access.room_to_revoke import FILE_NAME, ROOM_BYTES, SHARE_BYTES, RoomToRevoke
from wrapper.access.stored_keys import StoredKeys

READS, ADMIN = (Grant(frozenset({scope})) for scope in (Scope.READ, Scope.ADMIN))
DAY = timedelta(days=1)


@pytest.fixture
def clock():
    return Clock(at(2026, 11, 23, 18))


@pytest.fixture
def stored(catalog, clock):
    return CountedKeys(catalog, clock)


@pytest.mark.parametrize("ends_at", [None, at(2027, 3, 1)])
def test_a_key_has_one_successor_which_lasts_as_long_as_the_key_would_have(stored, clock, ends_at):
    first, _ = stored.create("first", READS, expires_at=ends_at)
    second, _ = stored.rotate(first.id, grace=DAY)
    assert (second.expires_at, second.owner, stored.one(first.id).expires_at) == (ends_at, first.id, clock.now + DAY)
    with pytest.raises(ConflictError, match=f"rotated already: its successor is '{second.id}'") as refused:
        stored.rotate(first.id, grace=DAY)
    assert (refused.value.code, refused.value.details) == ("api_key_rotated", {"id": first.id, "successor": second.id})
    third, _ = stored.rotate(second.id, grace=DAY)
    assert third.expires_at == ends_at
    assert [each.id for each in stored.of_owner(first.id)] == [third.id, second.id, first.id]


@pytest.mark.parametrize("ends_at", [None, at(2026, 11, 30)])
def test_an_end_that_was_set_after_a_revoked_rotation_is_that_of_the_next_successor(stored, ends_at):
    first, _ = stored.create("first", READS, expires_at=at(2027, 3, 1))
    second, _ = stored.rotate(first.id, grace=DAY)
    stored.revoke(second.id)
    stored.change(first.id, lambda before: replace(before, expires_at=ends_at))
    third, _ = stored.rotate(first.id, grace=DAY)
    assert third.expires_at == ends_at
    fourth, _ = stored.rotate(third.id, grace=DAY)
    stored.revoke(fourth.id)
    stored.change(first.id, lambda before: replace(before, expires_at=at(2026, 11, 25)))  # the end of its grace
    assert stored.rotate(third.id, grace=DAY)[0].expires_at == ends_at


@on_both()
def test_of_two_rotations_at_once_one_makes_a_successor(stored):
    first, _ = stored.create("first", READS)

    def rotated(_):
        try:
            return stored.rotate(first.id, grace=DAY)[0].id
        except ConflictError as error:
            return error.details["successor"]

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(rotated, range(4)))) == 1
    assert len(stored.all()) == 2


@on_both()
@pytest.mark.parametrize(
    "change", [None, lambda key: replace(key, grant=READS), lambda key: replace(key, expires_at=at(2027, 3, 1))]
)
def test_of_administrators_who_end_each_other_at_once_one_stays(stored, clock, change):
    stored.create("ended", ADMIN, expires_at=clock.now + DAY)
    stored.revoke(stored.create("revoked", ADMIN)[0].id)
    clock.now += DAY
    stored.create("ends", ADMIN, expires_at=at(2027, 1, 1))
    stored.create("reads", READS)
    keys = [stored.create(name, ADMIN)[0] for name in "abcd"]

    def ended(key):
        try:
            if change is None:
                return stored.revoke(key.id, keeps_admin=True)
            return stored.change(key.id, change, keeps_admin=True)
        except ConflictError as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        [refused] = [each for each in pool.map(ended, keys) if isinstance(each, ConflictError)]
    last = stored.one(refused.details["id"])
    assert (refused.code, last in keys) == ("last_administrator", True)
    assert stored.change(last.id, lambda key: replace(key, name="other"), keeps_admin=True).name == "other"


@on_both()
def test_no_key_is_made_or_changed_for_one_that_ended_meanwhile(stored):
    (key, text), access = stored.create("ends", ADMIN), Authentication(AccessSettings("keys"), "127.0.0.1", stored)
    caller = access.caller_with(text)
    before = stored.revoke(key.id)
    for change in (
        lambda: stored.create("new", ADMIN),
        lambda: stored.rotate(key.id, grace=DAY),
        lambda: stored.change(key.id, lambda before: replace(before, name="new")),
        lambda: stored.revoke(key.id),
    ):
        with acting_as(caller, partial(access.still, caller, at_once=True)), pytest.raises(UnauthorizedError):
            change()
    assert stored.all() == [before]


def test_an_end_that_is_over_is_refused_and_an_old_one_may_stay(stored, clock):
    for over in (clock.now, clock.now - DAY):
        with pytest.raises(InvalidInputError, match="expires_at is over already"):
            stored.create("over", READS, expires_at=over)
    assert stored.all() == []
    made, _ = stored.create("ends", READS, expires_at=clock.now + DAY)
    with pytest.raises(InvalidInputError, match="expires_at is over already"):
        stored.change(made.id, lambda before: replace(before, expires_at=clock.now))
    clock.now += 2 * DAY
    assert stored.change(made.id, lambda before: replace(before, name="ended")).expires_at == made.expires_at


@on_both()
def test_the_last_moment_there_is_can_be_read_again(stored):
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    made, _ = stored.create("lasts", READS, expires_at=last)
    assert stored.one(made.id).expires_at == made.expires_at == last.replace(microsecond=999_000)


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


class FullDisk:
    """A database on a disk that is full until room is given back."""

    def __init__(self, database):
        self._database, self.is_full = database, True
        self.freely = self

    def __getattr__(self, name):
        return getattr(self._database, name)

    def commit(self, operation):
        if self.is_full:
            raise DiskFloorError("The disk is full: nothing was stored")
        return self._database.commit(operation)


@pytest.mark.parametrize("how", ["revoked", "changed"])
def test_a_key_loses_its_rights_on_a_full_disk(catalog, how):
    key, _ = StoredKeys(catalog).create("ana", READS)
    disk = FullDisk(catalog)

    def give():
        disk.is_full = False
        return True

    def take(stored):
        if how == "revoked":
            return stored.revoke(key.id)
        return stored.change(key.id, lambda before: replace(before, grant=Grant(frozenset({Scope.CHAT}))))

    with pytest.raises(DiskFloorError):
        take(StoredKeys(disk))
    assert StoredKeys(catalog).one(key.id) == key
    take(StoredKeys(disk, give_room=give))
    after = StoredKeys(catalog).one(key.id)
    assert (after.revoked_at is not None, after.grant == READS) == (
        (True, True) if how == "revoked" else (False, False)
    )


def test_no_key_is_made_with_that_room(catalog):
    given = []
    stored = StoredKeys(FullDisk(catalog), give_room=lambda: bool(given.append(True)))
    with pytest.raises(DiskFloorError):
        stored.create("ana", READS)
    assert given == []


def test_the_room_beside_the_catalogue_is_given_in_shares_and_set_aside_again(tmp_path):
    room, file = RoomToRevoke(tmp_path / "catalog.sqlite"), tmp_path / FILE_NAME
    assert not room.give()
    for _ in range(2):
        room.keep()
        room.keep()
        found = file.stat()
        assert (found.st_size, found.st_blocks * 512 >= ROOM_BYTES) == (ROOM_BYTES, True)
        for left in range(ROOM_BYTES - SHARE_BYTES, -1, -SHARE_BYTES):
            assert room.give()
            assert file.stat().st_size == left
        assert not room.give()
        assert file.stat().st_blocks == 0


def test_a_database_server_has_no_room_of_ours_and_a_disk_without_room_to_set_aside_is_no_failure(
    tmp_path, monkeypatch
):
    elsewhere = RoomToRevoke(None)
    elsewhere.keep()
    assert not elsewhere.give()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    room = RoomToRevoke(tmp_path / "catalog.sqlite")
    room.keep()
    assert not room.give()
