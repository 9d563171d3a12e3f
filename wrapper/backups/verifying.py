"""Reads a backup back as a restore would: every digest, and the catalogue into a scratch one, which is counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from wrapper.backups.archive import ArchiveReader
from wrapper.backups.files import is_file_of_backup
from wrapper.backups.manifest import Head
from wrapper.backups.places import ORIGINALS
from wrapper.backups.sealing import DamagedArchiveError
from wrapper.catalog.snapshots import Copies, Receiver


def verify(file: BinaryIO, key: bytes | None, copies: Copies, scratch: Path) -> Head:
    """Read all of a backup. Raises DamagedArchiveError when it is not as it was written or does not hold what it says.

    The scratch catalogue is the file `scratch` or, on PostgreSQL, temporary tables.
    """
    reader = ArchiveReader(file, key)
    with copies.trial(scratch) as trial:
        originals = read_into(reader, trial, _pass_over)
        check(reader.head, trial, originals)
    return reader.head


def read_into(
    reader: ArchiveReader,
    receiver: Receiver,
    keep: Callable[[str, Iterator[bytes]], None],
    bounded: Callable[[Iterator[bytes]], Iterator[bytes]] = iter,
) -> int:
    """Read all members, the catalogue's into the receiver, and give the others to `keep`; return how many originals
    there
    are. What is read passes through `bounded`. Raises DamagedArchiveError, also for members that no backup has."""
    originals = 0
    for name, pieces in reader.entries():
        content = bounded(pieces)
        if receiver.takes(name):
            try:
                receiver.take(name, content)
            except ValueError as error:
                raise DamagedArchiveError(f"The backup is damaged: {error}") from error
            except FileExistsError:
                raise _twice() from None
        elif reader.head.whole and is_file_of_backup(name):
            try:
                keep(name, content)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise _twice() from None
            originals += name.startswith(f"{ORIGINALS}/")
        else:
            raise DamagedArchiveError("The backup has a member that no backup has")
    return originals


def check(head: Head, receiver: Receiver, originals: int) -> None:
    """Complete a copy of a catalogue. Raises DamagedArchiveError when it is faulty or not what the head says."""
    try:
        found = receiver.finish()
    except ValueError as error:
        raise DamagedArchiveError(f"The backup holds no sound catalogue: {error}") from error
    kept = {"originals": originals} if head.whole else {}
    # Some earlier backups count what stands beside collections, too.
    counts, rows = {**found.counts, **kept}, {**found.rows, **kept}
    is_said = (found.schema_version, found.catalogue) == (head.schema_version, head.catalogue)
    if not is_said or dict(head.counts) not in (counts, rows):
        raise DamagedArchiveError(f"The backup does not hold what it says: it has {counts}, not {dict(head.counts)}")


def _twice() -> DamagedArchiveError:
    return DamagedArchiveError("The backup is damaged: two of its members have one name")


def _pass_over(_name: str, content: Iterator[bytes]) -> None:
    deque(content, maxlen=0)
