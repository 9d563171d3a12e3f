"""A folder as it is on the disk: which of its files are watched, and their content."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from retrieval.ingest.identity import IS_REPEATED, repeated_names
from retrieval.ingest.regular_files import open_regular
from retrieval.reading import kind_of
from retrieval.reading.read_document import TOO_LARGE, UnreadableError
from schemas.errors import RagError, UnavailableError

Signature = tuple[int, int, int, int]
"""Inode, size in bytes, and the times of the last change of content and of attributes in nanoseconds, which are known
without reading the file. A file whose signature differs may have changed."""

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class FolderUnavailableError(UnavailableError):
    """The folder cannot be listed, or its state cannot be trusted."""

    code = "folder_unavailable"


class FileGoneError(RagError):
    """The file no longer exists, or is not a regular file."""

    code = "file_gone"


@dataclass(slots=True)
class Listing:
    """The files and folders below a folder, by path with `/`.

    `files` are those to be indexed; whether one without a suffix can be is known when it is read. `folders` are those
    that were listed, "" among them. `refused` are files and folders (ending with `/`) that could not be looked at, and
    files with the name of another, each with the reason: what was below such folders may still be there. `passed_over`
    are files and folders that are not to be indexed, with the reason.
    """

    files: dict[str, Signature] = field(default_factory=dict)
    passed_over: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)

    def may_hold(self, path: str) -> bool:
        return path in self.files or any(each.endswith("/") and path.startswith(each) for each in self.refused)


class Folder:
    """The watched folder. Passed over are paths that `is_ignored` names, hidden files, and symbolic links, which may
    lead out of the folder.

    A folder that was replaced by another, as mounting and unmounting do, is another folder.
    """

    def __init__(self, root: Path, name: str, *, is_ignored: Callable[[str], bool], max_file_bytes: int) -> None:
        self.root = root.resolve()
        self.name = name
        self._is_ignored = is_ignored
        self._max_file_bytes = max_file_bytes
        self._identity = self._identify()

    def renew(self) -> None:
        """Accept the folder that is there now. Raises FolderUnavailableError when there is none."""
        self._identity = self._identify()

    def check(self) -> None:
        """Raise FolderUnavailableError when the folder is missing or was replaced by another."""
        if self._identify() != self._identity:
            raise FolderUnavailableError(f"The folder {self.root} was replaced by another")

    def is_passed_over(self, path: str) -> bool:
        """Return whether a path is passed over, by its own name and those of the folders above it."""
        return any(part.startswith(".") for part in path.split("/")) or self._is_ignored(path)

    def listing(self) -> Listing:
        """List the folder. Raises FolderUnavailableError when it cannot be listed or was replaced by another."""
        found = Listing()
        self.check()
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                folders += self._list(folder, found)
                found.folders.add(folder)
            except OSError as error:
                if error.errno not in _GONE:
                    found.refused[folder] = f"cannot be listed: {error.strerror}"
        # Checked again: files that vanish because the folder was unmounted were not deleted.
        self.check()
        if "" in found.refused:
            raise FolderUnavailableError(f"The folder {self.root} {found.refused['']}")
        for path in repeated_names(sorted(found.files)):
            del found.files[path]
            found.refused[path] = IS_REPEATED
        return found

    def read(self, path: str) -> tuple[bytes, Signature]:
        """Return (content, signature before it was read).

        Raises FileGoneError when there is no such regular file, UnreadableError when it cannot be read or is too large.
        """
        try:
            with open_regular(self.root, path) as file:
                found = os.fstat(file.fileno())
                content = file.read(self._max_file_bytes + 1)
        except UnreadableError as error:
            raise FileGoneError(f"'{path}' {error.message}") from error
        except OSError as error:
            if error.errno in _GONE:
                raise FileGoneError(f"'{path}' is gone") from error
            raise UnreadableError(f"cannot be read: {error.strerror}") from error
        if len(content) > self._max_file_bytes:
            raise UnreadableError(f"is larger than {self._max_file_bytes} bytes", code=TOO_LARGE)
        return content, _signature(found)

    def _list(self, folder: str, found: Listing) -> list[str]:
        """Add the files of one folder, and return the folders below it."""
        below = []
        with os.scandir(self.root / folder) as entries:
            for entry in entries:
                path = folder + entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if reason := self._why_not(path, entry, is_folder):
                    found.passed_over[_shown(f"{path}/" if is_folder else path)] = reason
                elif is_folder:
                    below.append(f"{path}/")
                else:
                    self._add(path, entry, found)
        return below

    def _why_not(self, path: str, entry: os.DirEntry[str], is_folder: bool) -> str:
        """Return why a file or folder is passed over, "" when it is not."""
        if entry.name.startswith("."):
            return "is hidden"
        if self._is_ignored(path):
            return "is of version control, a package manager or an editor"
        if entry.is_symlink():
            return "is a symbolic link"
        if is_folder:
            return ""
        if not entry.is_file(follow_symlinks=False):
            return "is not a file"
        kind = kind_of(entry.name)
        if kind is None:
            return "is of no kind that can be read" if PurePosixPath(entry.name).suffix else ""
        return "has a document in each line, which is for `rag-wrapper load`" if kind.is_records else ""

    def _add(self, path: str, entry: os.DirEntry[str], found: Listing) -> None:
        try:
            path.encode()
        except UnicodeEncodeError:
            found.refused[_shown(path)] = "has a name that is not UTF-8"
            return
        with suppress(FileNotFoundError):
            found.files[path] = _signature(entry.stat(follow_symlinks=False))

    def _identify(self) -> tuple[int, int]:
        try:
            found = os.stat(self.root)
        except OSError as error:
            raise FolderUnavailableError(f"The folder {self.root} cannot be found: {error.strerror}") from error
        if not stat.S_ISDIR(found.st_mode):
            raise FolderUnavailableError(f"{self.root} is not a folder")
        return found.st_dev, found.st_ino


def _shown(path: str) -> str:
    return path.encode(errors="replace").decode()


def _signature(found: os.stat_result) -> Signature:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
