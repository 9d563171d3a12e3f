"""Restores a backup: made beside what is there, checked whole, and put into its place by renaming.

What is to be renamed is written down first (`moves.py`). A restore that is killed before that has changed nothing; one
that is killed after it is completed by the next start of the service or the next restore, or undone where its database
has not committed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from schemas.errors import ConfigurationError, ConflictError
from schemas.settings import WrapperSettings
from schemas.storage.synced_folders import sync_folder
from wrapper.backups.archive import ArchiveReader
from wrapper.backups.files import AUDIT_LOCK, give_to_owner, keep_links, mode_of
from wrapper.backups.making import LOCK_FILE as BACKUP_LOCK
from wrapper.backups.making import MEGABYTE, only_backup
from wrapper.backups.manifest import Head
from wrapper.backups.mounts import check_movable
from wrapper.backups.moves import complete_in, is_written_down, new_aside, staged_beside, write_down
from wrapper.backups.places import ASIDE, HELD, INDEX, KEPT_FOLDER, MOVES, SCRATCH, STAGED, make_folder
from wrapper.backups.verifying import check, read_into
from wrapper.catalog.migrations import NEWEST
from wrapper.catalog.snapshots import Receiver
from wrapper.catalog.sqlite.copies import BESIDE, SQLiteReceiver
from wrapper.catalog_choice import CatalogAccess, catalog_access
from wrapper.catalogue_mark import MARK_FILE
from wrapper.engine.data_directory_lock import LOCK_FILE, acquire
from wrapper.free_disk import free_disk_mb
from wrapper.start_checks import catalogue_path

FILES, LINKS = "files", "links"
NOT_DATA = (LOCK_FILE, BACKUP_LOCK, MOVES, STAGED, KEPT_FOLDER, HELD, SCRATCH, "lost+found")
"""What a data directory may have and still be empty."""
OPEN = ". Whether it was is seen by the next start of the service, or the next restore, which completes or undoes it"
BYTES_BETWEEN_LOOKS = 64 << 20


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored, and where what was there before is: a folder, and on PostgreSQL a schema."""

    head: Head
    aside: Path | None
    aside_schema: str | None


def restore(
    file: BinaryIO, settings: WrapperSettings, key: bytes | None, *, replace: bool, unencrypted: bool = False
) -> Restored:
    """Restore a backup into the data directory and the catalogue of the settings.

    Both must be empty unless `replace` says that what is there is to be set aside. A backup of the catalogue alone sets
    aside catalogue and index, and keeps originals, uploads and the key beside them by another name. Raises
    ConfigurationError when a service uses the directory, ConflictError when there is something, and DamagedArchiveError
    or WrongKeyError for the file; then nothing has changed. Where there is a key, one that is not encrypted is refused
    unless `unencrypted` says that it may be.
    """
    reader = ArchiveReader(file, key)
    head = reader.head
    if key is not None and not head.encrypted and not unencrypted:
        raise ConflictError(
            "The backup is not encrypted although there is a key for backups: anybody can have written it. Say "
            "--unencrypted if you trust it",
            code="unencrypted_backup",
        )
    access = catalog_access(settings, makes=False)
    _check_fits(head, access)
    data_dir = settings.data_dir
    with suppress(OSError):  # what keeps it from being made is told by the next line
        make_folder(data_dir)
    lock = acquire(data_dir, description={"command": "rag-wrapper restore"})
    try:
        give_to_owner(lock.path, data_dir)
        with only_backup(data_dir), _alone_on(access):
            complete_in(data_dir, access, leaves_foreign=replace)
            return _restore(reader, settings, access, Path(os.path.realpath(file.name)), replace=replace)
    except access.copies.errors as error:
        then = OPEN if os.path.lexists(data_dir / MOVES) else ""
        sentence = f"RAG_CATALOG_URL: the backup cannot be restored into this database: {error}{then}"
        raise ConfigurationError(sentence, field="RAG_CATALOG_URL") from error
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "unknown"
        sentence = f"RAG_DATA_DIR: the backup could not be restored: {why}"
        raise ConfigurationError(sentence, field="RAG_DATA_DIR") from error
    finally:
        lock.release()
        access.database.close()


@contextmanager
def _alone_on(access: CatalogAccess) -> Iterator[None]:
    """Keep services away from a database. Raises ConfigurationError when one works with it."""
    lead = access.leadership() if access.database_copies is not None else None
    if lead is not None and not lead.acquire():
        sentence = "RAG_CATALOG_URL: a service works with this database: stop it first"
        raise ConfigurationError(sentence, field="RAG_CATALOG_URL")
    try:
        yield
    finally:
        if lead is not None:
            lead.release()


def _check_fits(head: Head, access: CatalogAccess) -> None:
    if head.kind != access.copies.kind:
        raise ConflictError(
            f"The backup is of a catalogue in {head.kind}, and RAG_CATALOG_URL names one in {access.copies.kind}: "
            "collections go from one to the other by 'rag-wrapper export' and 'import'",
            code="other_catalogue_kind",
        )
    if head.schema_version > NEWEST:
        raise ConflictError(
            f"The backup was written by release {head.release} and its catalogue has schema version "
            f"{head.schema_version}; this release knows {NEWEST}: restore it with that release or a newer one",
            code="newer_backup",
        )


def _restore(
    reader: ArchiveReader, settings: WrapperSettings, access: CatalogAccess, archive: Path, *, replace: bool
) -> Restored:
    head, data_dir, path = reader.head, settings.data_dir, catalogue_path(settings)
    name = new_aside()
    there = list(_there(settings, archive, path, whole=head.whole))
    if there and not replace:
        raise _not_empty("The data directory" if head.whole else "The catalogue's place", data_dir)
    check_movable(there, data_dir)
    staged = data_dir / STAGED / name  # beside what a restore has left that this one gives up
    make_folder(staged)
    moves = [(each, data_dir / name / each.name) for each in there]
    aside_schema = f"rag_{name.replace('-', '_')}" if replace and path is None else None
    tops: dict[str, None] = {}
    token = ""

    def keep(file: str, content: Iterator[bytes]) -> None:
        if file == AUDIT_LOCK:
            return
        _write(staged / FILES / file, content, mode_of(file))
        tops[file.split("/")[0]] = None

    def bounded(content: Iterator[bytes]) -> Iterator[bytes]:
        return _while_there_is_room(content, data_dir, settings.disk_floor_mb)

    new = None if path is None else _beside(path, staged, data_dir)
    try:
        if not head.whole:  # the next start deletes what this catalogue does not know
            moves += [(each, data_dir / name / each.name) for each in keep_links(data_dir, staged / LINKS)]
        with ExitStack() as stack:
            receiver: Receiver
            if access.database_copies is not None:
                token = access.database_copies.new_token()
                receiver, moved = stack.enter_context(access.database_copies.restoring(aside_schema, token))
                aside_schema = aside_schema if moved else None
            else:
                assert new is not None
                assert path is not None
                receiver = SQLiteReceiver(new)
                moves.append((new, path))
            check(head, receiver, read_into(reader, receiver, keep, bounded))
            moves += [(staged / FILES / top, data_dir / top) for top in tops]
            for made in (staged.parent, staged, *staged.rglob("*"), *([new] if new else [])):
                give_to_owner(made, data_dir)
            _sync_all(staged.parent)
            write_down(moves, data_dir, token)  # before the database commits, at the end of this block
    except BaseException:
        if not is_written_down(data_dir, token):
            shutil.rmtree(staged, ignore_errors=True)
            with suppress(OSError):
                staged.parent.rmdir()
            if new is not None:
                new.unlink(missing_ok=True)
        raise
    complete_in(data_dir, access)
    return Restored(head, aside if (aside := data_dir / name).is_dir() else None, aside_schema)


def _beside(path: Path, staged: Path, data_dir: Path) -> Path:
    """Return where the catalogue's file lies until it gets its name, on the same disk."""
    new = staged / path.name if path.parent == data_dir else staged_beside(path)
    new.unlink(missing_ok=True)
    return new


def _there(settings: WrapperSettings, archive: Path, path: Path | None, *, whole: bool) -> Iterator[Path]:
    """Yield what has to give way to the backup."""
    data_dir = settings.data_dir
    if path is not None:
        yield from (file for end in BESIDE if os.path.lexists(file := path.with_name(path.name + end)))
    own = {path.with_name(path.name + end) for end in BESIDE} if path is not None else set()
    stays = {*_with_parents(archive), *_with_parents(settings.backup_dir)}
    for each in sorted(data_dir.iterdir()):
        if each in own or each.name in NOT_DATA or each.name.startswith(ASIDE) or Path(os.path.realpath(each)) in stays:
            continue
        if whole or each.name in (*INDEX, MARK_FILE):
            yield each


def _with_parents(path: Path | None) -> Sequence[Path]:
    return [] if path is None else [path, *path.parents]


def _not_empty(what: str, data_dir: Path) -> ConflictError:
    return ConflictError(
        f"{what} is not empty ({data_dir}): restore into an empty one, or say --replace, which moves aside what is "
        "there",
        code="not_empty",
    )


def _while_there_is_room(content: Iterator[bytes], folder: Path, floor_mb: int) -> Iterator[bytes]:
    unseen = BYTES_BETWEEN_LOOKS
    for block in content:
        unseen += len(block)
        if unseen >= BYTES_BETWEEN_LOOKS:
            unseen = 0
            if free_disk_mb(folder) < floor_mb + BYTES_BETWEEN_LOOKS // MEGABYTE:
                raise ConfigurationError(
                    f"The disk has too little room for the backup: {floor_mb} MB must stay free (RAG_DISK_FLOOR_MB). "
                    "Nothing was restored",
                    field="RAG_DISK_FLOOR_MB",
                )
        yield block


def _write(path: Path, content: Iterator[bytes], mode: int) -> None:
    make_folder(path.parent)
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), mode)


def _sync_all(folder: Path) -> None:
    for directory, _, _ in os.walk(folder):
        sync_folder(Path(directory))
