"""The files of jobs on the disk, `<folder>/<job>/<number>`: whole and synced before an upload is answered.

A folder is locked while it is being filled. The kernel frees the lock when the process ends, so what a killed process
left can be told from what is still arriving.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import unicodedata
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self

from retrieval.ingest.identity import stored_name
from schemas.contracts.jobs import RefusedFileError, SpooledFile
from schemas.errors import DiskFloorError
from schemas.storage.leadership import FileLeadership
from schemas.storage.synced_folders import sync_folder

HOME = "home"
LEAD = "jobs.lock"
COPIED_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
INVALID_NAME = "invalid_name"
MAX_NAME_CHARACTERS = 500
_JOB_ID = re.compile(r"[0-9a-f]{32}")
_NOT_IN_NAMES = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
_TURNS_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
_DRIVE = re.compile(r"[A-Za-z]:")


class Spool:
    """A spool of one data directory, by default that of uploads. `home` is its lasting id; `new_name` makes the names
    of its folders, of 32 hexadecimal digits. One process at a time, which has the `leadership`, works on its files."""

    def __init__(
        self, data_dir: Path, folder: str = "uploads", new_name: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> None:
        self._folder = data_dir / folder
        self._new_name = new_name
        self.leadership = FileLeadership(data_dir / LEAD)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.home = self._identity()

    def begin(self) -> Incoming:
        """Begin the files of a new job."""
        while True:
            folder = self._folder / self._new_name()
            folder.mkdir(mode=0o700)
            descriptor = os.open(folder, _FOLDER)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if folder.exists():  # else `sweep` has found it between the two
                return Incoming(folder, descriptor)
            os.close(descriptor)

    def path(self, job_id: str, number: int) -> Path:
        """Return where a file of a job lies."""
        return self._folder / job_id / str(number)

    def remove(self, job_id: str) -> None:
        """Remove all files of a job."""
        shutil.rmtree(self._folder / job_id, ignore_errors=True)

    def sweep(self, waiting: Callable[[list[str]], set[str]]) -> None:
        """Remove the files of jobs that are not `waiting`, except for those that are still arriving."""
        for folder in self._folder.iterdir():
            if not _JOB_ID.fullmatch(folder.name):
                continue
            with suppress(OSError):
                descriptor = os.open(folder, _FOLDER)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if not waiting([folder.name]):
                        shutil.rmtree(folder)
                finally:
                    os.close(descriptor)

    def _identity(self) -> str:
        place = self._folder / HOME
        if not place.exists():
            made = self._folder / f".{uuid.uuid4().hex}"
            with made.open("x") as file:
                file.write(uuid.uuid4().hex)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another worker was first
                os.link(made, place)
            made.unlink()
            sync_folder(self._folder)
        return place.read_text().strip()


class Incoming:
    """The files of one upload while they arrive. Leaving the context removes them unless they are, then, `is_kept`."""

    def __init__(self, folder: Path, descriptor: int) -> None:
        self.job_id = folder.name
        self.files: list[SpooledFile] = []
        self._folder = folder
        self._descriptor = descriptor
        self.is_kept = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.is_kept:
            shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._descriptor)

    def add(self, name: str, media_type: str, pieces: Iterable[bytes], *, max_bytes: int) -> SpooledFile:
        """Write a file.

        Raises RefusedFileError for one that is empty or too large, which is not kept, and DiskFloorError when the disk
        is full.
        """
        number = len(self.files)
        path, digest, size_bytes = self._folder / str(number), hashlib.sha256(), 0
        try:
            with path.open("xb") as file:
                for piece in pieces:
                    size_bytes += len(piece)
                    if size_bytes > max_bytes:
                        raise RefusedFileError(f"is larger than {max_bytes >> 20} MB", code="too_large")
                    file.write(piece)
                    digest.update(piece)
                if not size_bytes:
                    raise RefusedFileError("is empty", code="empty")
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFloorError("The disk is full: the upload was not stored") from None
            raise
        spooled = SpooledFile(number, name, media_type, size_bytes, digest.hexdigest())
        self.files.append(spooled)
        return spooled

    def take_back(self) -> BinaryIO:
        """Take the file that came last out again, and return it open."""
        path = self._folder / str(len(self.files) - 1)
        opened = path.open("rb")
        path.unlink()
        self.files.pop()
        return opened

    def link(self, kept: Path, described: SpooledFile) -> None:
        """Add a file that lies on the disk already, whole and synced: by another name of it, or as a copy where the
        disk has no such names. Raises FileNotFoundError when it is gone, and DiskFloorError when the disk is full."""
        path = self._folder / str(len(self.files))
        try:
            os.link(kept, path)
        except FileNotFoundError:
            raise
        except OSError:
            with kept.open("rb") as opened:
                pieces = iter(partial(opened.read, COPIED_BYTES), b"")
                self.add(described.name, described.media_type, pieces, max_bytes=described.size_bytes)
            self.files.pop()
        self.files.append(replace(described, number=len(self.files)))

    def sync(self) -> None:
        """Make the names of the files survive a loss of power."""
        sync_folder(self._folder)
        sync_folder(self._folder.parent)


def checked_name(given: str) -> str:
    """Return the name of a document for a file name, which may be a relative path: in NFC, its parts joined by `/`.

    Raises RefusedFileError for a name that leads out of a folder, that cannot be shown, or that is none.
    """
    name = unicodedata.normalize("NFC", given).strip().replace("\\", "/")
    if len(name) > MAX_NAME_CHARACTERS:
        raise _refused(f"has more than {MAX_NAME_CHARACTERS} characters")
    if any(unicodedata.category(each) in _NOT_IN_NAMES for each in name) or _TURNS_DIRECTION.search(name):
        raise _refused("has characters that cannot be shown")
    if name.startswith("/") or _DRIVE.match(name):
        raise _refused("is an absolute path: give it relative to a folder")
    name = stored_name(name)
    if not name:
        raise _refused("is blank")
    if ".." in name.split("/"):
        raise _refused("leads out of its folder")
    return name


def shown_name(given: str) -> str:
    """Return any name so that it can be shown, in a header too."""
    return "".join(each if each.isprintable() else "\ufffd" for each in given[:MAX_NAME_CHARACTERS])


def _refused(reason: str) -> RefusedFileError:
    return RefusedFileError(f"The name {reason}", code=INVALID_NAME)
