"""ZIP archives of documents: the members that become documents, each called `<archive>/<its name>`, and the others."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, Any, BinaryIO, cast

from retrieval.parsing.parsed import DAMAGED_ARCHIVE, ENCRYPTED, TOO_LARGE
from retrieval.reading import (
    SECRET,
    UNREADABLE,
    UNSUPPORTED_KIND,
    Kind,
    UnreadableError,
    kind_of_file,
    may_hold_secrets,
)

MAX_MEMBERS = 1_000
MAX_BYTES = 512 << 20
"""The most that the members of an archive may have together, by what it says; no more is ever unpacked of one."""
LEFT_OUT = "is left out, as it may hold secrets"
_BROKEN = "is damaged in its archive"
_MOST_DIRECTORY_BYTES = 2 << 20
_IN_MEMORY_BYTES = 16 << 20
_OF_MACS = "__MACOSX"
_UTF_8, _ENCRYPTED = 0x800, 0x1


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an archive. Without a `kind` it is passed over, and `code` and `message` say why."""

    name: str
    size_bytes: int
    kind: Kind | None = None
    code: str = ""
    message: str = ""


class Archive:
    """An open archive, for one thread."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._infos = [info for info in archive.infolist() if not info.is_dir()]
        size_bytes = sum(info.file_size for info in self._infos)
        if len(self._infos) > MAX_MEMBERS or size_bytes > MAX_BYTES:
            sentence = f"has {len(self._infos):,} files of {size_bytes:,} bytes in all"
            raise UnreadableError(f"{sentence}: at most {MAX_MEMBERS:,} of {MAX_BYTES:,} are read", code=TOO_LARGE)

    def open(self, name: str) -> BinaryIO:
        """Return what the member of a name holds, unpacked. Raises UnreadableError when it is damaged or gone."""
        info = next((info for info in self._infos if _name(info) == name), None)
        if info is None:
            raise UnreadableError("is no longer in its archive")
        return self._unpacked(info)

    def members(self) -> Iterator[Member]:
        """Yield the members, in their order, without what is hidden or a system's own."""
        taken: set[str] = set()
        for info in self._infos:
            name = _name(info)
            folder, *below = name.split("/")
            is_hidden = any(part.startswith(".") and part.strip(".") for part in (folder, *below))
            if folder == _OF_MACS or (is_hidden and not may_hold_secrets(name)):
                continue
            try:
                if name in taken:
                    raise UnreadableError("is in the archive twice: the first one is taken")
                yield Member(name, info.file_size, self._kind(name, info))
                taken.add(name)
            except UnreadableError as error:
                yield Member(name, info.file_size, code=error.code, message=error.message)

    def _kind(self, name: str, info: zipfile.ZipInfo) -> Kind:
        if may_hold_secrets(name):
            raise UnreadableError(LEFT_OUT, code=SECRET)
        if name.startswith("/") or name[1:2] == ":" or ".." in name.split("/"):
            raise UnreadableError("has a name that leads out of its archive")
        if info.flag_bits & _ENCRYPTED:
            raise UnreadableError("is encrypted", code=ENCRYPTED)
        if stat.S_ISLNK(info.external_attr >> 16):
            raise UnreadableError("is a symbolic link", code=UNSUPPORTED_KIND)
        try:
            kind = kind_of_file(PurePosixPath(name).name, lambda: cast(BinaryIO, self._archive.open(info)))
        except DAMAGED_ARCHIVE as error:
            raise UnreadableError(_BROKEN) from error
        if kind.is_archive:
            raise UnreadableError("is an archive within an archive: unpack it", code=UNSUPPORTED_KIND)
        return kind

    def _unpacked(self, info: zipfile.ZipInfo) -> BinaryIO:
        unpacked = cast(BinaryIO, SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115 (whoever asked closes it)
        try:
            with self._archive.open(info) as member:
                copyfileobj(member, unpacked)
        except DAMAGED_ARCHIVE as error:
            unpacked.close()
            raise UnreadableError(_BROKEN) from error
        unpacked.seek(0)
        return unpacked


@contextmanager
def opened_archive(file: IO[bytes]) -> Iterator[Archive]:
    """Open an archive. Raises UnreadableError for one that is damaged or has too much in it."""
    try:
        archive = zipfile.ZipFile(cast(IO[bytes], _Bounded(file)))
    except DAMAGED_ARCHIVE as error:
        raise UnreadableError("is not a ZIP archive, or is damaged", code=UNREADABLE) from error
    with archive:
        yield Archive(archive)


class _Bounded:
    """A file of which not much is read at once: a table of contents may say that it is as long as the whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        most = _MOST_DIRECTORY_BYTES + 1
        content = self._file.read(most if size < 0 else min(size, most))
        if len(content) == most:
            raise ValueError("too much at once")
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _name(info: zipfile.ZipInfo) -> str:
    """Return a member's name. Programs that do not say that it is UTF-8 often write it so nevertheless."""
    name = info.filename
    if not info.flag_bits & _UTF_8:
        with suppress(UnicodeError):
            name = name.encode("cp437").decode()
    return name.replace("\\", "/")
