"""The backups of a service: made when somebody asks or it is time, listed, handed out and deleted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import orjson
import structlog

from schemas.errors import ConflictError, NotFoundError, NoThreadError, RagError
from schemas.settings import WrapperSettings
from schemas.storage.backups import Backup, BackupState
from schemas.threads import begin_thread
from wrapper.backups.files import home_of
from wrapper.backups.keys import backup_key
from wrapper.backups.making import BackupMaker, BackupUnderWayError, discard, no_backup, only_backup
from wrapper.backups.manifest import BACKUP_ID, Head, Reason, new_id
from wrapper.backups.places import DIR, KEPT_FOLDER, ready_folder, unwritable
from wrapper.backups.shelf import ENDING, Kept, Shelf
from wrapper.catalog.snapshots import Copies

log = structlog.get_logger(__name__)

FAILED = ".failed"
MAX_NOTE_BYTES = 64 << 10
PAUSE_AFTER_FAILURE_SECONDS = 600.0
UNEXPECTED = "The backup failed unexpectedly: the service's log says more"


class Backups:
    """The backups in `RAG_BACKUP_DIR`, and the copies of the catalogue that were kept before migrations.

    Usable by several processes, of which one makes a backup at a time. `catalogue` is the catalogue's identity.
    """

    def __init__(
        self,
        settings: WrapperSettings,
        copies: Copies,
        catalogue: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._copies = copies
        self._catalogue = catalogue
        self._now = now
        self._clock = clock
        self._not_before = float("-inf")
        self._kept = Shelf(settings.data_dir / KEPT_FOLDER)
        self._shelf = None if settings.backup_dir is None else Shelf(settings.backup_dir)

    @property
    def _home(self) -> str:
        return home_of(self._settings.data_dir)

    def all(self) -> list[Backup]:
        """Return what there is, newest first: what is being made, what failed last, and what was made."""
        return [*self._unfinished(), *map(_told, self._files())]

    def find(self, backup_id: str) -> Backup:
        """Return one. Raises NotFoundError."""
        for each in self.all():
            if each.id == backup_id:
                return each
        raise _unknown()

    def file(self, backup_id: str) -> Path:
        """Return the file of one. Raises NotFoundError, also for one that is not complete or cannot be read."""
        kept = self._one(backup_id)
        if kept.head is None:
            raise _unknown()
        return kept.path

    def delete(self, backup_id: str) -> None:
        """Delete one, or what is known of one that failed. Raises NotFoundError."""
        for note, failed in self._notes():
            if failed.id == backup_id:
                note.unlink(missing_ok=True)
                return
        self._one(backup_id).path.unlink(missing_ok=True)

    def begin(self) -> str:
        """Begin one in a thread, and return its id. Raises ConflictError when there is nowhere to put it, or another is
        being made, DiskFloorError when there is too little room, and NoThreadError."""
        shelf = self._shelf
        if shelf is None:
            raise ConflictError("The service has no folder for backups: set RAG_BACKUP_DIR", code="no_backup_dir")
        with ExitStack() as held:
            held.enter_context(only_backup(self._settings.data_dir))
            maker = self._maker()
            ready_folder(shelf.folder, self._settings.data_dir, DIR)
            target = maker.new_target(shelf.folder, Reason.ASKED)
            file = maker.begin(target)
            going_on = held.pop_all()
        try:
            begin_thread("backup", self._make, maker, file, target, Reason.ASKED, going_on)
        except NoThreadError:
            going_on.close()
            discard(file, target)
            raise
        return target.name.removesuffix(ENDING)

    def none_is_made(self) -> AbstractContextManager[None]:
        """Return what lets none be made during a block, in whichever process, and removes what a killed one left.

        Raises BackupUnderWayError when one is being made.
        """
        return no_backup(self._settings.data_dir)

    def number(self) -> int:
        """Return how many files there are with this catalogue, or with one that nobody can tell from it."""
        return sum(each.head is None or each.head.catalogue in ("", self._catalogue) for each in self._files())

    def look(self) -> None:
        """Make one when it is time, unless another process does."""
        times, shelf = self._settings.backup_every, self._shelf
        if times is None or shelf is None or self._has_just_failed() or not self._is_due():
            return
        try:
            with ExitStack() as held:
                held.enter_context(only_backup(self._settings.data_dir))
                if self._is_due():
                    self._make_by_itself(shelf, held)
        except BackupUnderWayError:
            return
        except RagError as error:  # the data directory cannot be written to
            self._failed(self._new_target(shelf), Reason.SCHEDULE, error)

    def _new_target(self, shelf: Shelf) -> Path:
        return shelf.folder / f"{new_id(Reason.SCHEDULE, 0, self._now())}{ENDING}"

    def _make_by_itself(self, shelf: Shelf, held: ExitStack) -> None:
        target = self._new_target(shelf)
        try:
            ready_folder(shelf.folder, self._settings.data_dir, DIR)
            maker = self._maker()
            file = maker.begin(target)
        except (RagError, OSError) as error:
            self._failed(target, Reason.SCHEDULE, error)
            return
        self._make(maker, file, target, Reason.SCHEDULE, held.pop_all())

    def last_good_at(self) -> datetime | None:
        """Return when the newest backup that can be restored was made; copies from before migrations do not count."""
        return None if self._shelf is None else self._shelf.last_good_at(self._catalogue, self._home, self._now())

    def age_seconds(self) -> float | None:
        """Return the age of that backup, None when there is none."""
        last = self.last_good_at()
        return None if last is None else max(0.0, (self._now() - last).total_seconds())

    def _is_due(self) -> bool:
        times = self._settings.backup_every
        return times is not None and times.due_at(self.last_good_at(), self._now()) <= self._now()

    def _maker(self) -> BackupMaker:
        settings = self._settings
        return BackupMaker(settings.data_dir, self._copies, key=backup_key(settings), floor_mb=settings.disk_floor_mb)

    def _make(self, maker: BackupMaker, file: BinaryIO, target: Path, reason: Reason, held: ExitStack) -> None:
        """Make a backup that has begun, and let others begin before this one is told to be done."""
        began = self._clock()
        try:
            with held:
                head = maker.complete(file, target, reason)
                removed = Shelf(target.parent).prune(head, self._settings.backup_keep)
                self._forget_failures()
                size, seconds = target.stat().st_size, round(self._clock() - began, 1)
                log.info("backup made", backup=head.id, bytes=size, seconds=seconds, removed=removed, **head.counts)
        except Exception as error:
            self._failed(target, reason, error)
        finally:
            discard(file, target)

    def _failed(self, target: Path, reason: Reason, error: Exception) -> None:
        self._not_before = self._clock() + PAUSE_AFTER_FAILURE_SECONDS
        backup_id = target.name.removesuffix(ENDING)
        is_told = isinstance(error, RagError | OSError)
        message = error.message if isinstance(error, RagError) else UNEXPECTED
        if isinstance(error, OSError):
            message = unwritable(error, DIR).message
        log.error("a backup failed", backup=backup_id, reason=message, exc_info=None if is_told else error)
        self._forget_failures()
        self._note_failure(target.parent, backup_id, reason, message)

    def _has_just_failed(self) -> bool:
        """Return whether a backup failed a while ago, in whichever process."""
        if self._clock() < self._not_before:
            return True
        now, pause = self._now(), timedelta(seconds=PAUSE_AFTER_FAILURE_SECONDS)
        return any(failed.created_at and abs(now - failed.created_at) < pause for _, failed in self._notes())

    def _unfinished(self) -> Iterator[Backup]:
        if self._shelf is None:
            return
        for backup_id in self._shelf.under_way():
            yield Backup(backup_id, BackupState.RUNNING)
        yield from (failed for _, failed in self._notes())

    def _notes(self) -> Iterator[tuple[Path, Backup]]:
        """Yield the notes of failures of this service's backups: others may use the folder, too, and what nobody can
        read as one is foreign."""
        of = [[self._catalogue, home] for home in ("", self._home)]
        for note in [] if self._shelf is None else sorted(self._shelf.folder.glob(f".*{FAILED}")):
            with suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
                said = orjson.loads(_note_of(note))
                failed = Backup(
                    note.name.removeprefix(".").removesuffix(FAILED),
                    BackupState.FAILED,
                    datetime.fromisoformat(said["at"]).astimezone(UTC),
                    reason=Reason(said["reason"]).value,
                    message=str(said["message"]),
                )
                if BACKUP_ID.fullmatch(failed.id) and said["of"] in of:
                    yield note, failed

    def _forget_failures(self) -> None:
        for note, _ in self._notes():
            with suppress(OSError):
                note.unlink(missing_ok=True)

    def _note_failure(self, folder: Path, backup_id: str, reason: Reason, message: str) -> None:
        at, of = self._now().isoformat(), [self._catalogue, self._home]
        said = {"at": at, "of": of, "reason": reason.value, "message": message}
        try:
            (folder / f".{backup_id}{FAILED}").write_bytes(orjson.dumps(said))
        except OSError as error:
            log.error("that a backup failed could not be noted", reason=error.strerror)

    def _files(self) -> list[Kept]:
        shelves = [self._kept] if self._shelf is None else [self._shelf, self._kept]
        found = [each for shelf in shelves for each in shelf.all()]
        return sorted(found, key=lambda each: each.head.created_at.timestamp() if each.head else 0.0, reverse=True)

    def _one(self, backup_id: str) -> Kept:
        for shelf in (self._shelf, self._kept):
            if shelf is not None and (kept := shelf.find(backup_id)) is not None:
                return kept
        raise _unknown()


def _told(kept: Kept) -> Backup:
    if kept.head is None:
        return Backup(kept.id, BackupState.DONE, bytes=kept.bytes)
    return told_of(kept.head, kept.bytes, kept.id)


def told_of(head: Head, size_bytes: int, backup_id: str | None = None) -> Backup:
    """Return what is told of a backup that was verified."""
    return Backup(
        backup_id or head.id,
        BackupState.DONE,
        head.created_at,
        size_bytes,
        head.encrypted,
        True,
        head.release,
        head.schema_version,
        head.counts,
        head.reason.value,
    )


def _note_of(note: Path) -> bytes:
    """Return what a note says: it may be a link, or a pipe that nobody fills."""
    with open(os.open(note, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(MAX_NOTE_BYTES)


def _unknown() -> NotFoundError:
    return NotFoundError("There is no such backup", code="backup_not_found")
