"""What backups ask of a catalogue's database: copies of all it holds as of one moment, and the way back.

Copies are made and taken beside a running service, without migrating anything: what an earlier release has written is
copied as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wrapper.catalog.names.beside import BESIDE

COUNTED = {"collections": "collections", "documents": "documents", "keys": "api_keys"}
"""What is counted, and the table that has it."""
COLLECTION_KEYS = {"collections": "key", "documents": "collection_key"}
HIDDEN = f"SELECT key FROM collections WHERE substr(name, 1, {len(BESIDE)}) = '{BESIDE}'"
"""The collections that stand beside others, which nobody sees."""
BLOCK_BYTES = 1 << 20

Value = Callable[[str], Any]
"""Returns the first column of the first row of a statement."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a copy of a catalogue says of itself: the version of its schema, its identity (empty where it has none yet),
    and how much it holds: `counts` of what is shown, and `rows` with what stands beside collections."""

    schema_version: int
    catalogue: str
    counts: Mapping[str, int]
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A catalogue as of one moment, as named members to be read in their order."""

    contents: Contents
    members: Iterator[tuple[str, Iterator[bytes]]]


class Receiver(Protocol):
    """Takes the members of a copy."""

    def takes(self, name: str) -> bool:
        """Return whether a member of this name is part of a catalogue of this kind."""

    def take(self, name: str, content: Iterator[bytes]) -> None:
        """Take a member. Raises ValueError when it cannot be one, and `Copies.errors` when the database fails."""

    def finish(self) -> Contents:
        """Complete the copy, check it as a database can check itself, and count what it holds.

        Raises as `take` does when the copy is faulty.
        """


class Copies(Protocol):
    kind: str
    needs_scratch: bool
    """Whether `snapshot` and `trial` write a file as large as the catalogue."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that the database's driver raises."""

    def size_bytes(self) -> int:
        """Return about how much the catalogue takes on its disk."""

    def has_catalogue(self) -> bool:
        """Return whether there is a catalogue."""

    def schema_version(self) -> int:
        """Return the version of the schema, 0 where there is no catalogue yet."""

    def snapshot(self, scratch: Path) -> AbstractContextManager[Snapshot]:
        """Give the catalogue as of one moment. `scratch` is a file that does not exist yet, and is gone afterwards."""

    def trial(self, scratch: Path) -> AbstractContextManager[Receiver]:
        """Give a receiver whose copy is dropped at the end of the block."""


class DatabaseCopies(Copies, Protocol):
    """Copies of a catalogue whose database is shared: one is restored in a transaction of the database's own."""

    def restoring(self, aside: str | None, token: str) -> AbstractContextManager[tuple[Receiver, bool]]:
        """Give a receiver whose copy becomes the catalogue at the end of the block, all of it or nothing, and the token
        with it; and whether a catalogue that was there is moved to `aside`."""

    def new_token(self) -> str:
        """Return a token for a restore into this database."""

    def gave(self, token: str) -> bool:
        """Return whether a token is one of this database, not of another one."""

    def was_restored(self, token: str) -> bool:
        """Return whether the copy that came with this token has become the catalogue, once that is decided. Raises
        `errors` when it is not for a while."""

    def forget_token(self) -> None:
        """Remove the token that is there, if any."""


def contents(tables: Collection[str], value: Value) -> Contents:
    """Count what is in the tables of a catalogue of any release."""
    version = value("SELECT max(version) FROM schema_version") if "schema_version" in tables else 0
    rows = {name: int(value(f"SELECT count(*) FROM {table}")) for name, table in COUNTED.items() if table in tables}
    hidden = {
        name: int(value(f"SELECT count(*) FROM {COUNTED[name]} WHERE {key} IN ({HIDDEN})"))
        for name, key in COLLECTION_KEYS.items()
        if name in rows and "collections" in rows
    }
    return Contents(
        schema_version=int(version or 0),
        catalogue=str(value("SELECT uuid FROM identity")) if "identity" in tables else "",
        counts={name: number - hidden.get(name, 0) for name, number in rows.items()},
        rows=rows,
    )
