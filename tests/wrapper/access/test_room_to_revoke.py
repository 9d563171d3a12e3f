"""Rights are taken away on a full disk with the room that is set aside for it."""

import os
from dataclasses import replace

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.errors import DiskFloorError
from wrapper.access.room_to_revoke import FILE_NAME, ROOM_BYTES, SHARE_BYTES, RoomToRevoke
from wrapper.access.stored_keys import StoredKeys

READ = Grant(frozenset({Scope.READ}))


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
    key, _ = StoredKeys(catalog).create("ana", READ)
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
    assert (after.revoked_at is not None, after.grant == READ) == ((True, True) if how == "revoked" else (False, False))


def test_no_key_is_made_with_that_room(catalog):
    given = []
    stored = StoredKeys(FullDisk(catalog), give_room=lambda: bool(given.append(True)))
    with pytest.raises(DiskFloorError):
        stored.create("ana", READ)
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


def test_a_database_server_has_no_room_of_ours():
    room = RoomToRevoke(None)
    room.keep()
    assert not room.give()


def test_a_disk_that_has_no_room_to_set_aside_is_no_failure(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    room = RoomToRevoke(tmp_path / "catalog.sqlite")
    room.keep()
    assert not room.give()
