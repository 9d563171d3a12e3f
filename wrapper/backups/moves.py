"""What a restore has yet to put into its place, written down in the data directory until all of it is there.

A database commits what is restored into it by itself. So the marker comes first, with a token that the database gets in
the same transaction: where it has the token, the restore is completed, and where not, it has not happened.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from schemas.errors import ConfigurationError
from schemas.settings import WrapperSettings
from schemas.storage.synced_folders import sync_folder
from wrapper.backups.files import give_to_owner
from wrapper.backups.manifest import TIME
from wrapper.backups.places import ASIDE, MOVES, STAGED, make_folder
from wrapper.catalog.sqlite.copies import BESIDE
from wrapper.catalog_choice import CatalogAccess, catalog_access
from wrapper.engine.data_directory_lock import unusable
from wrapper.start_checks import catalogue_path


def write_down(moves: list[tuple[Path, Path]], data_dir: Path, token: str) -> None:
    """Write down what is to be renamed to what; `token` is what the database gets, empty where there is none."""
    marker = data_dir / STAGED / MOVES
    told = [[_told(source, data_dir), _told(target, data_dir)] for source, target in moves]
    with marker.open("w") as file:
        json.dump({"moves": told, "token": token}, file)
        file.flush()
        os.fsync(file.fileno())
    give_to_owner(marker, data_dir)
    os.replace(marker, data_dir / MOVES)
    sync_folder(data_dir)


def is_written_down(data_dir: Path, token: str) -> bool:
    """Return whether what is written down is that of the restore with this token, and not of one before it."""
    marker = data_dir / MOVES
    return marker.exists() and json.loads(marker.read_text())["token"] == token


def staged_beside(path: Path) -> Path:
    """Return where a restored catalogue outside of the data directory lies until it gets its name."""
    return path.with_name(f".{path.name}.{STAGED}")


def complete_moves(settings: WrapperSettings) -> None:
    """Complete a restore that was killed after it had begun to put things into their places, or undo it when its
    database has not committed.

    Raises ConfigurationError when the directory cannot be written to, or the database cannot be asked.
    """
    if not os.path.lexists(settings.data_dir / MOVES):
        shutil.rmtree(settings.data_dir / STAGED, ignore_errors=True)
        if (path := catalogue_path(settings)) is not None:
            with suppress(OSError):
                staged_beside(path).unlink(missing_ok=True)
        return
    access = catalog_access(settings, makes=False)
    try:
        complete_in(settings.data_dir, access)
    except access.copies.errors as error:
        raise ConfigurationError(
            f"RAG_CATALOG_URL: a restore was interrupted, and whether its database has it cannot be seen: {error}",
            field="RAG_CATALOG_URL",
        ) from error
    finally:
        access.database.close()


def complete_in(data_dir: Path, access: CatalogAccess, *, leaves_foreign: bool = False) -> None:
    """Do what `complete_moves` does. Raises also what the database's driver raises.

    With `leaves_foreign`, a restore into another database, which may be lost for good, stays as it is: the one that
    follows is written down in its place.
    """
    try:
        _complete(data_dir, access, leaves_foreign)
    except OSError as error:
        raise unusable(data_dir, error) from error


def _complete(data_dir: Path, access: CatalogAccess, leaves_foreign: bool) -> None:
    marker = data_dir / MOVES
    if marker.exists():
        said = json.loads(marker.read_text())
        database = access.database_copies if said["token"] else None
        if said["token"] and (database is None or not database.gave(said["token"])):
            if leaves_foreign:
                return
            raise ConfigurationError(
                "RAG_CATALOG_URL: a restore into a database was interrupted: set it to that of the restore, or restore "
                "again with --replace",
                field="RAG_CATALOG_URL",
            )
        if database is None or database.was_restored(said["token"]):
            _move([(data_dir / source, data_dir / target) for source, target in said["moves"]], data_dir)
            if database is not None:
                database.forget_token()
        marker.unlink()
        sync_folder(data_dir)
    shutil.rmtree(data_dir / STAGED, ignore_errors=True)


def _move(moves: list[tuple[Path, Path]], data_dir: Path) -> None:
    for source, target in moves:
        if not os.path.lexists(source):
            continue
        if os.path.lexists(target):
            if not _is_new(source, data_dir):
                continue  # it was set aside before; what has its name is of the backup, or gives way to that below
            _set_aside(target, data_dir)
        _make_folder(target.parent, data_dir)
        os.rename(source, target)
    for folder in {folder for move in moves for each in move if (folder := each.parent).is_dir()}:
        sync_folder(folder)


def _is_new(source: Path, data_dir: Path) -> bool:
    """Return whether a restore has made what it moves from there."""
    return data_dir / STAGED in source.parents or source.name.endswith(STAGED)


def _set_aside(taken: Path, data_dir: Path) -> None:
    """Move away what somebody has put into the place of something restored, with the files of SQLite beside it."""
    folder = data_dir / new_aside()
    _make_folder(folder, data_dir)
    for end in BESIDE:
        if os.path.lexists(file := taken.with_name(taken.name + end)):
            os.rename(file, folder / file.name)


def new_aside() -> str:
    """Return a name for what gives way, which no earlier one has: nothing is renamed to what exists."""
    return f"{ASIDE}{datetime.now(UTC).strftime(TIME).lower()}-{secrets.token_hex(4)}"


def _make_folder(folder: Path, data_dir: Path) -> None:
    if not folder.is_dir():
        make_folder(folder)
        give_to_owner(folder, data_dir)


def _told(path: Path, data_dir: Path) -> str:
    """Return a path as seen from the data directory, which may have another place when a restore is completed."""
    return str(path.relative_to(data_dir) if path.is_relative_to(data_dir) else path)
