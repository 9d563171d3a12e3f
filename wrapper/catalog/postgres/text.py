"""Storage of any text in PostgreSQL, which cannot hold U+0000.

U+0000 is stored as U+0001 U+0001 and U+0001 as U+0001 U+0002: no two texts become one, and their order stays.
"""

from __future__ import annotations

from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

TEXT_TYPES = ("text", "varchar")


def escape(text: str) -> str:
    if "\0" in text or "\1" in text:
        return text.replace("\1", "\1\2").replace("\0", "\1\1")
    return text


def unescape(text: str) -> str:
    if "\1" in text:
        return text.replace("\1\1", "\0").replace("\1\2", "\1")
    return text


class _TextDumper(Dumper):
    oid = 25

    def dump(self, obj: str) -> bytes:
        return escape(obj).encode()


class _BinaryTextDumper(_TextDumper):
    format = Format.BINARY


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return unescape(str(data, "utf-8"))


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


def register(connection: Connection) -> None:
    """Escape all texts that enter through a connection, and restore those that leave through it."""
    for dumper in (_TextDumper, _BinaryTextDumper):
        connection.adapters.register_dumper(str, dumper)
    for loader in (_TextLoader, _BinaryTextLoader):
        for name in TEXT_TYPES:
            connection.adapters.register_loader(name, loader)
