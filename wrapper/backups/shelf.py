"""The folders in which backups lie: what is there, which are the newest, and what killed processes have left.

A file gets its name when it has been verified, so every file with the name of a backup is a whole one. One that is
being written has a name that begins with a dot and is locked; the lock ends with its process.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from wrapper.backups.archive import read_head
from wrapper.backups.manifest import BACKUP_ID, Head
from wrapper.backups.sealing import DamagedArchiveError

ENDING = ".ragbackup"
INCOMPLETE = ".incomplete"
AHEAD = timedelta(minutes=5)
"""How far the clock that dated a backup may be ahead of that of now."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A backup that lies in a folder. `head` is None when the file cannot be read as one: nobody verified it."""

    id: str
    path: Path
    bytes: int
    head: Head | None


class Shelf:
    """The backups in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[Kept]:
        """Return the backups, newest first."""
        found = [kept for file in self._files() if (kept := _kept(file)) is not None]
        return sorted(found, key=lambda each: (each.head.created_at.timestamp() if each.head else 0.0, each.id))[::-1]

    def last_good_at(self, catalogue: str, home: str, now: datetime) -> datetime | None:
        """Return when the newest backup of a catalogue (empty: of any) that can be restored was made, with the files
        of the data directory of that name or of none.

        Copies from before migrations do not count, and neither do backups from the future: the clock has jumped.
        """
        heads = [each.head for each in self.all() if each.head is not None and each.head.whole]
        own = [head.created_at for head in heads if catalogue in ("", head.catalogue) and head.stands_for(home)]
        return max((made_at for made_at in own if made_at <= now + AHEAD), default=None)

    def find(self, backup_id: str) -> Kept | None:
        if not BACKUP_ID.fullmatch(backup_id):
            return None
        return _kept(self.folder / f"{backup_id}{ENDING}")

    def prune(self, made: Head, keep: int) -> list[str]:
        """Remove all but the newest `keep` backups of the catalogue of one that was just made; return their ids.

        That one stays, whatever clocks say, and so do damaged ones, those of other catalogues or of one without an
        identity, those with the files of another data directory, and copies of the catalogue alone unless that one is
        such a copy.
        """
        if not made.catalogue:
            return []
        others = [each for each in self.all() if each.id != made.id and _is_alike(each.head, made)]
        for each in others[max(1, keep) - 1 :]:
            each.path.unlink(missing_ok=True)
        return [each.id for each in others[max(1, keep) - 1 :]]

    def sweep(self) -> None:
        """Remove what killed backups have left."""
        for file in self._left():
            with suppress(OSError):
                if not is_being_written(file):
                    file.unlink(missing_ok=True)

    def under_way(self) -> list[str]:
        """Return the ids of the backups that are being written."""
        found = []
        for file in self._left():
            with suppress(OSError):
                if is_being_written(file):
                    found.append(file.name.removeprefix(".").removesuffix(ENDING + INCOMPLETE))
        return found

    def _files(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            for file in sorted(self.folder.glob(f"*{ENDING}")):
                if BACKUP_ID.fullmatch(file.name.removesuffix(ENDING)) and file.is_file():
                    yield file

    def _left(self) -> Sequence[Path]:
        return sorted(self.folder.glob(f".*{ENDING}{INCOMPLETE}"))


def incomplete(target: Path) -> Path:
    """Return where a backup lies until it is complete."""
    return target.with_name(f".{target.name}{INCOMPLETE}")


def is_being_written(file: Path) -> bool:
    """Return whether a process is writing an incomplete backup. Raises OSError when it has gone meanwhile."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a pipe that nobody fills
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _is_alike(head: Head | None, made: Head) -> bool:
    """Return whether a newer backup takes the place of one with this head."""
    if head is None or (head.catalogue, head.whole) != (made.catalogue, made.whole):
        return False
    return head.stands_for(made.home)


def _kept(path: Path) -> Kept | None:
    try:
        # Neither a link to another file nor a pipe that nobody fills.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return None
            try:
                head: Head | None = read_head(file)[0]
            except DamagedArchiveError:
                head = None
    except OSError:
        return None
    return Kept(path.name.removesuffix(ENDING), path, found.st_size, head)
