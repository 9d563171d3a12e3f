"""Reads a backup back as a restore would: every digest, and the catalogue into a scratch one, which is counted."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from wrapper.backups.archive import ArchiveReader
from wrapper.backups.files import ORIGINALS, is_file_of_backup
from wrapper.backups.manifest import Head
from wrapper.backups.sealing import DamagedArchiveError
from wrapper.catalog.snapshots import Contents, Copies, Receiver


def verify(file: BinaryIO, key: bytes | None, copies: Copies, scratch: Path) -> Head:
    """Read all of a backup. Raises DamagedArchiveError when it is not as it was written or does not hold what it says.

    The scratch catalogue is the file `scratch` or, on PostgreSQL, temporary tables.
    """
    reader = ArchiveReader(file, key)
    with copies.trial(scratch) as trial:
        try:
            originals = 0
            for name, content in reader.entries():
                if trial.takes(name):
                    trial.take(name, content)
                elif is_file_of_backup(name):
                    originals += name.startswith(f"{ORIGINALS}/")
                else:
                    raise DamagedArchiveError("The backup has a member that no backup has")
            check(reader.head, complete(trial, copies), originals)
        except copies.errors as error:
            raise DamagedArchiveError(f"The backup is damaged: {error}") from error
    return reader.head


def complete(receiver: Receiver, copies: Copies) -> Contents:
    """Complete a copy of a catalogue. Raises DamagedArchiveError when it is faulty."""
    try:
        return receiver.finish()
    except Exception as error:
        if not isinstance(error, (*copies.errors, ValueError)):
            raise
        raise DamagedArchiveError(f"The backup holds no sound catalogue: {error}") from error


def check(head: Head, found: Contents, originals: int) -> None:
    """Raise DamagedArchiveError when what was found is not what the head says."""
    counts = {**found.counts, **({"originals": originals} if head.whole else {})}
    if (found.schema_version, found.catalogue, counts) != (head.schema_version, head.catalogue, dict(head.counts)):
        raise DamagedArchiveError(f"The backup does not hold what it says: it has {counts}, not {dict(head.counts)}")
