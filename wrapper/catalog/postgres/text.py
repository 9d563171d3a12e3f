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


def begins_within(part: str) -> bool:
    """Return whether a stored text may have this part where it does not have it: begun within one of its characters."""
    return part.startswith(("\0", "\1", "\2"))


def told_apart(stored: str) -> str:
    """Return the expression of a stored text in which U+0001 begins each U+0000 and U+0001, and U+0002 is that alone.

    A row of U+0001 is spelt from its beginning in pairs, in which order `replace` finds them.
    """
    return rf"replace(replace({stored}, E'\001\001', E'\001\003'), E'\001\002', E'\001\004')"


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
