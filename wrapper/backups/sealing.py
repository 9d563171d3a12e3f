"""The chunks of an archive's body, encrypted under a key or plain; either way nobody shortens or changes them unseen.

**With a key.** Online authenticated encryption by the construction STREAM (Hoang, Reyhanitabar, Rogaway, Vizár, 2015):
each chunk of a megabyte is sealed by AES-256-GCM. The key of an archive is derived by HKDF-SHA256 from the operator's
key and the 32 random bytes of salt in the archive's head, so no two archives share a key. The nonce of a chunk is its
number (11 bytes) and a last byte that is 1 in the last chunk alone: chunks that are left out, repeated, put in another
order or cut off at the end do not open. The head, which anybody can read, is authenticated with every chunk.

**Without one.** The chunks stand as they are, and the SHA-256 of the whole file before it is its end. That tells damage
and truncation, not somebody who computes the digest again.

A chunk is its length in four bytes and its content; a length of 0 ends the chunks.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from schemas.errors import InvalidInputError

CHUNK_BYTES = 1 << 20
TAG_BYTES = 16
SALT_BYTES = KEY_BYTES = CHECK_BYTES = 32
PURPOSE = b"rag-wrapper backup 1"
END = bytes(4)


class DamagedArchiveError(InvalidInputError):
    """The file is no backup, or not the whole of one, or not as it was written."""

    code = "damaged_backup"


class WrongKeyError(InvalidInputError):
    """The backup is encrypted, and the key that is given (or none) does not open it."""

    code = "wrong_backup_key"


class ArchiveKey:
    """The key of one archive, derived from the operator's key and the archive's salt."""

    def __init__(self, key: bytes, salt: bytes) -> None:
        derived = HKDF(SHA256(), KEY_BYTES + CHECK_BYTES, salt, PURPOSE).derive(key)
        self.cipher = AESGCM(derived[:KEY_BYTES])
        self.check = base64.b64encode(derived[KEY_BYTES:]).decode()
        """What stands in the head, so that a wrong key is told from a damaged file."""


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11) + bytes([last])


class Sink(Protocol):
    """Takes the body of an archive, piece by piece."""

    def write(self, piece: bytes) -> None: ...

    def close(self) -> None:
        """Write what is still held and the end of the archive. The file stays open."""


class PlainChunks:
    """Writes chunks as they are, and at the end the digest of the whole file, which begins with `head`."""

    def __init__(self, file: BinaryIO, head: bytes) -> None:
        self._file = file
        self._digest = hashlib.sha256(head)
        self._held = bytearray()

    def write(self, piece: bytes) -> None:
        self._held += piece
        while len(self._held) > CHUNK_BYTES:
            self._put(_taken(self._held))

    def close(self) -> None:
        if self._held:
            self._put(bytes(self._held))
        self._digest.update(END)
        self._file.write(END + self._digest.digest())

    def _put(self, chunk: bytes) -> None:
        framed = len(chunk).to_bytes(4) + chunk
        self._digest.update(framed)
        self._file.write(framed)


class SealedChunks:
    """Writes chunks sealed under a key."""

    def __init__(self, file: BinaryIO, head: bytes, key: ArchiveKey) -> None:
        self._file = file
        self._head = head
        self._cipher = key.cipher
        self._held = bytearray()
        self._number = 0

    def write(self, piece: bytes) -> None:
        self._held += piece
        while len(self._held) > CHUNK_BYTES:
            self._put(_taken(self._held), last=False)

    def close(self) -> None:
        self._put(bytes(self._held), last=True)
        self._file.write(END)

    def _put(self, chunk: bytes, *, last: bool) -> None:
        sealed = self._cipher.encrypt(_nonce(self._number, last=last), chunk, self._head)
        self._file.write(len(sealed).to_bytes(4) + sealed)
        self._number += 1


def _taken(held: bytearray) -> bytes:
    chunk = bytes(held[:CHUNK_BYTES])
    del held[:CHUNK_BYTES]
    return chunk


def plain_chunks(file: BinaryIO, head: bytes) -> Iterator[bytes]:
    """Yield the plain chunks of a body. Raises DamagedArchiveError at the first that cannot be read, and at the end
    when
    the digest is another."""
    digest = hashlib.sha256(head)
    while length := _length(file, CHUNK_BYTES):
        chunk = _read(file, length)
        digest.update(length.to_bytes(4))
        digest.update(chunk)
        yield chunk
    digest.update(END)
    if _read(file, digest.digest_size) != digest.digest() or file.read(1):
        raise DamagedArchiveError("The backup is damaged: its content does not have its digest")


def opened_chunks(file: BinaryIO, head: bytes, key: ArchiveKey) -> Iterator[bytes]:
    """Yield the chunks of a body that is sealed under the key. Raises DamagedArchiveError at the first that does not
    open, and at the end when chunks are missing."""
    number, is_last = 0, False
    while length := _length(file, CHUNK_BYTES + TAG_BYTES):
        sealed = _read(file, length)
        if is_last:
            raise DamagedArchiveError("The backup is damaged: something comes after its last chunk")
        try:
            chunk = key.cipher.decrypt(_nonce(number, last=False), sealed, head)
        except InvalidTag:
            try:
                chunk = key.cipher.decrypt(_nonce(number, last=True), sealed, head)
            except InvalidTag:
                raise DamagedArchiveError(f"The backup is damaged: its chunk {number + 1} does not open") from None
            is_last = True
        number += 1
        yield chunk
    if not is_last or file.read(1):
        raise DamagedArchiveError("The backup is damaged: its end is missing, or something comes after it")


def _length(file: BinaryIO, most: int) -> int:
    length = int.from_bytes(_read(file, 4))
    if length > most:
        raise DamagedArchiveError("The backup is damaged: one of its chunks is too long")
    return length


def _read(file: BinaryIO, length: int) -> bytes:
    content = file.read(length)
    if len(content) != length:
        raise DamagedArchiveError("The backup is cut off: its end is missing")
    return content
