"""Which files of a data directory are in a backup beside the catalogue, held so that none goes away meanwhile.

Originals and waiting uploads never change, but may be deleted at any moment. So each gets another name in a folder of
the data directory, which costs no space unless they are on another disk, before the catalogue's snapshot is taken and
once more after it: what the snapshot tells of is there. What came or was meant to go meanwhile may be there, too; a
service sweeps it away. Files of the audit log only grow.

Not in a backup are the index, which is rebuilt from the catalogue, caches, locks, logs, and embedded Qdrants.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from wrapper.backups.archive import NAME
from wrapper.backups.manifest import CATALOGUE
from wrapper.backups.places import AUDIT, FOLDERS, HELD, ORIGINALS, PRIVATE_FOLDER, UPLOADS, make_folder
from wrapper.catalog.snapshots import BLOCK_BYTES
from wrapper.catalogue_mark import MARK_FILE
from wrapper.secret_key import KEY_FILE

SMALL = (KEY_FILE, MARK_FILE)
NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
"""What the system says where a file cannot have another name."""
AUDIT_FILES = "audit-*.jsonl"
AUDIT_LOCK = f"{AUDIT}/audit.lock"
"""A member of some archives, which is not restored: the log makes its lock itself."""
HOME_FILE = f"{UPLOADS}/home"
"""Written by `retrieval/jobs/spool.py`, a room that this one does not know."""
PRIVATE_FILE, FINISHED_LOG = 0o600, 0o400


class HeldFiles:
    """The files of a data directory that go into a backup. The caller keeps other backups of the directory away.

    What is on another disk is copied; `before_copy` gets the size of each file, and raises when there is no room.
    """

    def __init__(self, data_dir: Path, before_copy: Callable[[int], None] = lambda _: None) -> None:
        self._data_dir = data_dir
        self._before_copy = before_copy
        self._held = data_dir / HELD
        self._keys: list[str] = []

    def begin(self) -> None:
        """Hold what is there before the snapshot; what a killed backup held goes."""
        self.release()
        self._keys = _lines(self._data_dir / KEY_FILE)
        self.hold()

    def hold(self) -> None:
        """Hold what is there and not held yet."""
        for folder in FOLDERS:
            for file in _files_below(self._data_dir / folder):
                name = file.relative_to(self._data_dir)
                if not NAME.fullmatch(name.as_posix()):
                    continue
                held = self._held / name
                self._make(held.parent)
                with suppress(FileNotFoundError):
                    if not held.exists():
                        _link_or_copy(file, held, self._before_copy)

    def _make(self, folder: Path) -> None:
        if not folder.exists():
            if folder != self._held:
                self._make(folder.parent)
            folder.mkdir(mode=PRIVATE_FOLDER)
            give_to_owner(folder, self._data_dir)

    def originals(self) -> int:
        """Return how many originals are held."""
        return sum(1 for _ in _files_below(self._held / ORIGINALS))

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in _files_below(self._held))

    def members(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield the files by name. A key that was replaced meanwhile is there too: the snapshot may need either."""
        keys = _lines(self._data_dir / KEY_FILE)
        if keys:
            both = [*keys, *(key for key in self._keys if key not in keys)]
            yield KEY_FILE, iter(["".join(f"{key}\n" for key in both).encode()])
        with suppress(FileNotFoundError):
            yield MARK_FILE, iter([(self._data_dir / MARK_FILE).read_bytes()])
        for file in _files_below(self._held):
            yield file.relative_to(self._held).as_posix(), _blocks(file)
        for file in _files_below(self._data_dir / AUDIT):
            if file.match(AUDIT_FILES) and NAME.fullmatch(file.name):
                with suppress(FileNotFoundError):
                    yield f"{AUDIT}/{file.name}", _blocks(file)

    def release(self) -> None:
        if self._held.exists():
            shutil.rmtree(self._held)


def keep_links(data_dir: Path, folder: Path) -> list[Path]:
    """Keep what a catalogue needs beside it in a new folder, by other names, and return these; where a disk has no
    such names, as copies."""
    for file in (*(each for name in FOLDERS for each in _files_below(data_dir / name)), data_dir / KEY_FILE):
        kept = folder / file.relative_to(data_dir)
        with suppress(FileNotFoundError):
            make_folder(kept.parent)
            _link_or_copy(file, kept)
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _link_or_copy(file: Path, to: Path, before_copy: Callable[[int], None] = lambda _: None) -> None:
    """Give a file another name; where a disk has no such names, copy it."""
    try:
        os.link(file, to)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        before_copy(file.stat().st_size)
        shutil.copy2(file, to)


def give_to_owner(path: Path, data_dir: Path) -> None:
    """Let the owner of the data directory own what an administrator has made in it: the service has to use it."""
    if os.geteuid() == 0:
        owner = data_dir.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def home_of(data_dir: Path) -> str:
    """Return the name of a data directory among those of services that share a database, empty where it has none."""
    file = data_dir / HOME_FILE
    said = " ".join(_lines(file)) if _is_regular(file) else ""
    return said if CATALOGUE.fullmatch(said) else ""


def is_file_of_backup(name: str) -> bool:
    """Return whether a member of this name is one of the data directory's files."""
    return name in SMALL or name.split("/")[0] in (*FOLDERS, AUDIT)


def mode_of(name: str) -> int:
    """Return the mode that a restored file gets: files of the audit log are finished, nothing else is for others."""
    return FINISHED_LOG if name.startswith(f"{AUDIT}/") else PRIVATE_FILE


def _files_below(folder: Path) -> Iterator[Path]:
    # Listed first: files come and go meanwhile.
    for directory, folders, names in os.walk(folder):
        folders.sort()
        yield from (file for name in sorted(names) if _is_regular(file := Path(directory, name)))


def _is_regular(file: Path) -> bool:
    """Return whether a name is neither a link nor a pipe that nobody fills, nor gone."""
    try:
        return stat.S_ISREG(file.lstat().st_mode)
    except OSError:
        return False


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except (OSError, UnicodeDecodeError):
        return []


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block
