"""The file format of a backup, written and read as a stream in bounded memory.

An archive is `MAGIC`, the length of the head in four bytes, the head (`manifest.py`), and the body in chunks
(`sealing.py`). Joined and unpacked (Zstandard), the chunks are frames: a letter, a length in four bytes, and the
content. A member is a frame `N` with its name and any number of frames `D` with its content; the frame `M` at the end
has the number of members, and one digest over their names, sizes and digests (`Tally`).
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import zstandard

from wrapper.backups.manifest import TALLY_BYTES, Head, Tally, dump_head, load_head
from wrapper.backups.sealing import (
    SALT_BYTES,
    ArchiveKey,
    DamagedArchiveError,
    PlainChunks,
    SealedChunks,
    Sink,
    WrongKeyError,
    opened_chunks,
    plain_chunks,
)

MAGIC = b"RAGBACKUP\n"
LEVEL = 1
MAX_WINDOW_BYTES = 8 << 20
MAX_HEAD_BYTES = 64 << 10
FRAME_BYTES = 1 << 20
MAX_NAME_BYTES = 1_024
NAME = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]*(?:/[0-9A-Za-z_-][0-9A-Za-z._-]*){0,3}")
"""The names of members: no part begins with a dot, so none leads anywhere else."""
NAMED, DATA, TALLIED = b"N", b"D", b"M"


def salted(key: bytes | None) -> tuple[bytes, str]:
    """Return the salt and the check that the head of a new archive under this key has; both empty without a key."""
    if key is None:
        return b"", ""
    salt = secrets.token_bytes(SALT_BYTES)
    return salt, ArchiveKey(key, salt).check


class ArchiveWriter:
    """Writes an archive: `add` for each member, then `finish`."""

    def __init__(self, file: BinaryIO, head: Head, key: bytes | None) -> None:
        said = dump_head(head)
        before = MAGIC + len(said).to_bytes(4) + said
        file.write(before)
        self._sink: Sink = (
            PlainChunks(file, before) if key is None else SealedChunks(file, before, ArchiveKey(key, head.salt))
        )
        self._packer = zstandard.ZstdCompressor(level=LEVEL).compressobj()
        self._tally = Tally()

    def add(self, name: str, content: Iterator[bytes]) -> None:
        """Add a member."""
        if not NAME.fullmatch(name):
            raise ValueError(name)
        self._frame(NAMED, name.encode())
        digest, size = hashlib.sha256(), 0
        for block in content:
            for at in range(0, len(block), FRAME_BYTES):
                piece = block[at : at + FRAME_BYTES]
                self._frame(DATA, piece)
                digest.update(piece)
                size += len(piece)
        self._tally.add(name, size, digest.digest())

    def finish(self) -> None:
        self._frame(TALLIED, self._tally.told())
        self._sink.write(self._packer.flush())
        self._sink.close()

    def _frame(self, letter: bytes, content: bytes) -> None:
        self._sink.write(self._packer.compress(letter + len(content).to_bytes(4)))
        self._sink.write(self._packer.compress(content))


class Entry(NamedTuple):
    """A member as it is read; its content has to be read before the next one comes."""

    name: str
    content: Iterator[bytes]


def read_head(file: BinaryIO) -> tuple[Head, bytes]:
    """Read the beginning of an archive; return the head and all bytes up to its end. Raises DamagedArchiveError."""
    if file.read(len(MAGIC)) != MAGIC:
        raise DamagedArchiveError("The file is no backup of rag-wrapper")
    length = file.read(4)
    said = file.read(min(int.from_bytes(length), MAX_HEAD_BYTES))
    return load_head(said), MAGIC + length + said


class ArchiveReader:
    """Reads an archive: all of `entries`, in memory of a fixed size however many there are.

    A name that occurs twice is for the receiver to refuse. Raises DamagedArchiveError for anything that is not as it
    was written, and WrongKeyError when the key (None for none) is not that of the archive.
    """

    def __init__(self, file: BinaryIO, key: bytes | None) -> None:
        self.head, before = read_head(file)
        self._tally = Tally()
        if not self.head.encrypted:
            chunks = plain_chunks(file, before)
        else:
            if key is None:
                raise WrongKeyError("The backup is encrypted: give its key")
            own = ArchiveKey(key, self.head.salt)
            if own.check != self.head.check:
                raise WrongKeyError("The backup is encrypted under another key than the one given")
            chunks = opened_chunks(file, before, own)
        self._stream = _Unpacked(chunks)
        self._letter, self._length, self._size = b"", 0, 0

    def entries(self) -> Iterator[Entry]:
        self._next_frame()
        while self._letter == NAMED:
            name = self._name()
            digest = hashlib.sha256()
            pieces = self._content(digest)
            yield Entry(name, pieces)
            for _ in pieces:  # what nobody wanted
                pass
            self._tally.add(name, self._size, digest.digest())
        if self._letter != TALLIED or self._length != TALLY_BYTES:
            raise DamagedArchiveError("The backup is damaged: it holds something unknown")
        told = self._stream.read(self._length)
        self._stream.finish()
        if told != self._tally.told():
            raise DamagedArchiveError("The backup is damaged: its members are not those that it was made of")

    def _content(self, digest: hashlib._Hash) -> Iterator[bytes]:
        """Yield the content of a member up to the frame after it, which then is the current one."""
        self._size = 0
        self._next_frame()
        while self._letter == DATA:
            if self._length > FRAME_BYTES:
                raise DamagedArchiveError("The backup is damaged: a part of it is too long")
            piece = self._stream.read(self._length)
            digest.update(piece)
            self._size += len(piece)
            yield piece
            self._next_frame()

    def _next_frame(self) -> None:
        header = self._stream.read(5)
        self._letter, self._length = header[:1], int.from_bytes(header[1:])

    def _name(self) -> str:
        if self._length > MAX_NAME_BYTES:
            raise DamagedArchiveError("The backup is damaged: the name of a member is too long")
        name = self._stream.read(self._length).decode("ascii", "replace")
        if not NAME.fullmatch(name):
            raise DamagedArchiveError("The backup has a member with a name that no backup gives")
        return name


class _Unpacked:
    """The unpacked stream of chunks. Memory is bounded: no more is unpacked than is asked for."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._reader = unpacker.stream_reader(_Packed(chunks))  # type: ignore[arg-type]

    def read(self, length: int) -> bytes:
        pieces: list[bytes] = []
        while length:
            try:
                piece = self._reader.read(length)
            except zstandard.ZstdError:
                raise DamagedArchiveError("The backup is damaged: it cannot be unpacked") from None
            if not piece:
                raise DamagedArchiveError("The backup is cut off: its end is missing")
            length -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def finish(self) -> None:
        """Read the end. Raises DamagedArchiveError when something comes before it, or it is not as it was written."""
        try:
            surplus = self._reader.read(1)
        except zstandard.ZstdError:
            surplus = b"?"
        if surplus or any(self._chunks):
            raise DamagedArchiveError("The backup is damaged: something comes after its end")


class _Packed:
    """The chunks as a file that is read a chunk at a time."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks

    def read(self, _size: int = -1) -> bytes:
        return next(self._chunks, b"")
