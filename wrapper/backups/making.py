"""Makes a backup: written beside its place, read back and tried, and only then given its name."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import structlog

from schemas.errors import ConfigurationError, ConflictError, DiskFloorError, UnavailableError
from schemas.release import release
from schemas.settings import WrapperSettings
from schemas.storage.synced_folders import sync_folder
from wrapper.backups.archive import ArchiveWriter, salted
from wrapper.backups.files import NO_LINKS, HeldFiles, give_to_owner, home_of
from wrapper.backups.manifest import BACKUP_ID, Head, Reason, new_id
from wrapper.backups.places import DIR, MOVES, unwritable
from wrapper.backups.scratch import remove_scratch, scratch_folder
from wrapper.backups.shelf import ENDING, Shelf, incomplete
from wrapper.backups.verifying import verify
from wrapper.catalog.snapshots import Copies
from wrapper.catalogue_mark import check_marked
from wrapper.catalogue_presence import existing_catalogue
from wrapper.free_disk import free_disk_mb

log = structlog.get_logger(__name__)

LOCK_FILE = "backup.lock"
COPY, TRIAL = "catalogue", "trial"
"""Names in the folder of plain copies."""
MEGABYTE = 2**20


class BackupUnderWayError(ConflictError):
    """A backup of the same data directory is being made now, or something is being erased from it."""

    code = "backup_under_way"


@contextmanager
def only_backup(data_dir: Path) -> Iterator[None]:
    """Keep other backups of the data directory away.

    Raises BackupUnderWayError when one is under way, and DiskFloorError when the directory cannot be written to.
    """
    try:
        descriptor = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritable(error, "RAG_DATA_DIR") from error
    try:
        try:
            give_to_owner(data_dir / LOCK_FILE, data_dir)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sentence = (
                "A backup of this data directory is being made now, or something is erased: wait until that is done"
            )
            raise BackupUnderWayError(sentence) from None
        except OSError as error:
            raise unwritable(error, "RAG_DATA_DIR") from error
        yield
    finally:
        os.close(descriptor)


def check_no_moves(data_dir: Path) -> None:
    """Raise ConfigurationError when a restore was interrupted and is not completed yet."""
    if os.path.lexists(data_dir / MOVES):
        raise ConfigurationError(
            "RAG_DATA_DIR: a restore into this directory was interrupted: start the service, which completes it",
            field="RAG_DATA_DIR",
        )


class BackupMaker:
    """Makes backups of one data directory and its catalogue.

    `floor_mb` is the free disk space that they leave, and `named` is what errors call the place where they go.
    """

    def __init__(self, data_dir: Path, copies: Copies, *, key: bytes | None, floor_mb: int, named: str = DIR) -> None:
        self._data_dir = data_dir
        self._named = named
        self._copies = copies
        self._key = key
        self._floor_mb = floor_mb

    def new_target(self, folder: Path, reason: Reason) -> Path:
        """Return the place of a new backup in a folder."""
        version = self._copies.schema_version() if reason is Reason.MIGRATION else 0
        return folder / f"{new_id(reason, version, datetime.now(UTC))}{ENDING}"

    def make(self, target: Path, reason: Reason, *, whole: bool = True) -> Head:
        """Make a backup at `target`, which must not exist yet; return what it says of itself.

        The caller holds `only_backup`. Not `whole`, it has the catalogue alone. Raises DiskFloorError when there is too
        little room, and ConflictError when the place is taken; then nothing is left.
        """
        written = self.begin(target)
        try:
            return self.complete(written, target, reason, whole=whole)
        finally:
            discard(written, target)

    def begin(self, target: Path) -> BinaryIO:
        """Open the file that becomes the backup: from then on everybody can see that it is being made.

        The caller calls `discard` with it, also after success. Raises as `make` does.
        """
        check_no_moves(self._data_dir)
        Shelf(target.parent).sweep()
        self.check_room(target.parent)
        if target.exists():
            raise _taken(target)
        try:
            descriptor = os.open(incomplete(target), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise _taken(target) from None
        except OSError as error:
            raise unwritable(error, self._named) from error
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return open(descriptor, "r+b")

    def complete(self, written: BinaryIO, target: Path, reason: Reason, *, whole: bool = True) -> Head:
        """Write the backup, verify it and give it its name. Raises as `make` does."""
        files = HeldFiles(self._data_dir, self._check_copy)
        try:
            if whole:
                files.begin()
                self.check_room(target.parent, files.size_bytes())
            with scratch_folder(self._data_dir) as scratch:
                head = self._write(written, target, scratch / COPY, files if whole else None, reason)
                written.flush()
                os.fsync(written.fileno())
                files.release()
                written.seek(0)
                verify(written, self._key, self._copies, scratch / TRIAL)
            _name(incomplete(target), target)
            sync_folder(target.parent)
            return head
        except FileExistsError:
            raise _taken(target) from None
        except self._copies.errors as error:
            raise _not_copied(error) from error
        except OSError as error:
            raise unwritable(error, self._named_for(error)) from error
        finally:
            files.release()

    def _named_for(self, error: OSError) -> str:
        """Return what names the place of an error: the copies in the data directory fail, too."""
        of_data = isinstance(error.filename, str) and Path(error.filename).is_relative_to(self._data_dir)
        return "RAG_DATA_DIR" if of_data else self._named

    def _write(self, written: BinaryIO, target: Path, copy: Path, files: HeldFiles | None, reason: Reason) -> Head:
        salt, check = salted(self._key)
        with self._copies.snapshot(copy) as snapshot:
            found = snapshot.contents
            check_marked(self._data_dir, found.catalogue)
            now, named = datetime.now(UTC), target.name.removesuffix(ENDING)
            head = Head(
                id=named if BACKUP_ID.fullmatch(named) else new_id(reason, found.schema_version, now),
                created_at=now,
                release=release(),
                reason=reason,
                kind=self._copies.kind,
                schema_version=found.schema_version,
                catalogue=found.catalogue,
                counts=found.counts,
                whole=files is not None,
                salt=salt,
                check=check,
                home=home_of(self._data_dir) if files is not None else "",
            )
            if files is not None:
                files.hold()
                head = replace(head, counts={**found.counts, "originals": files.originals()})
            writer = ArchiveWriter(written, head, self._key)
            for name, content in snapshot.members:
                writer.add(name, content)
        for name, content in files.members() if files is not None else ():
            writer.add(name, content)
        writer.finish()
        return head

    def _check_copy(self, size_bytes: int) -> None:
        free = free_disk_mb(self._data_dir)
        if free < size_bytes / MEGABYTE + self._floor_mb:
            raise DiskFloorError(
                "Originals or uploads are on another disk than the data directory, to which a backup copies them for a "
                f"while, and {self._floor_mb:,} MB must stay free there (RAG_DISK_FLOOR_MB): there are {free:,.0f} MB. "
                "Nothing was written",
                field="RAG_DISK_FLOOR_MB",
                free_mb=int(free),
            )

    def check_room(self, folder: Path, more_bytes: int = 0) -> None:
        """Raise DiskFloorError when there is too little room for a backup in the folder, or in the data directory for
        the copy or the trial of the catalogue; either is no larger than the catalogue, and neither is the archive.

        Raises UnavailableError when the catalogue cannot be asked.
        """
        try:
            catalogue_mb = self._copies.size_bytes() // MEGABYTE + 1
        except self._copies.errors as error:
            raise _not_copied(error) from error
        needed = {folder: catalogue_mb + more_bytes // MEGABYTE}
        if self._copies.needs_scratch:
            is_one_disk = folder.stat().st_dev == self._data_dir.stat().st_dev
            there = folder if is_one_disk else self._data_dir
            needed[there] = needed.get(there, 0) + catalogue_mb
        for place, needed_mb in needed.items():
            free = free_disk_mb(place)
            if free < needed_mb + self._floor_mb:
                where = "where it is kept" if place == folder else "in the data directory"
                raise DiskFloorError(
                    f"A backup may need {needed_mb:,} MB {where} while it is made, and {self._floor_mb:,} MB must stay "
                    f"free (RAG_DISK_FLOOR_MB): there are {free:,.0f} MB. Nothing was written",
                    field="RAG_DISK_FLOOR_MB",
                    needed_mb=needed_mb,
                    free_mb=int(free),
                )


def discard(written: BinaryIO, target: Path) -> None:
    """Remove and close the file that a backup was written to; one that has its name keeps it."""
    incomplete(target).unlink(missing_ok=True)
    with suppress(OSError):  # what is held back does not fit on a full disk
        written.close()


def sweep_killed(data_dir: Path) -> None:
    """Remove what a killed backup left in a data directory; one that is under way is left alone, and what cannot be
    removed is left to the next backup."""
    with suppress(BackupUnderWayError, DiskFloorError, OSError), no_backup(data_dir):
        pass


@contextmanager
def no_backup(data_dir: Path) -> Iterator[None]:
    """Let no backup be made during the block, and remove what a killed one left. Raises as `only_backup` does."""
    with only_backup(data_dir):
        remove_scratch(data_dir)
        HeldFiles(data_dir).release()
        yield


@contextmanager
def opened_maker(settings: WrapperSettings, key: bytes | None, named: str = DIR) -> Iterator[BackupMaker]:
    """Give what makes backups of a data directory, beside its service or without one; other backups are kept away.

    `named` is what errors call the place where they go. Raises ConfigurationError when there is no catalogue yet or a
    restore was interrupted, and BackupUnderWayError.
    """
    check_no_moves(settings.data_dir)
    access = existing_catalogue(settings)
    try:
        with only_backup(settings.data_dir):
            floor_mb = settings.disk_floor_mb
            yield BackupMaker(settings.data_dir, access.copies, key=key, floor_mb=floor_mb, named=named)
    finally:
        access.database.close()


def _name(written: Path, target: Path) -> None:
    """Give a complete backup its name. Raises FileExistsError when something has it."""
    try:
        os.link(written, target)  # unlike a renaming, this never replaces a file
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError from None
        os.rename(written, target)


def _not_copied(error: Exception) -> UnavailableError:
    log.error("the catalogue could not be copied", reason=str(error))
    return UnavailableError("The catalogue could not be copied", code="catalog_unavailable")


def _taken(target: Path) -> ConflictError:
    return ConflictError(f"{target.name} is there already: a backup never replaces another", code="backup_exists")
