"""Opens the catalogue that the settings ask for, and decides which process leads on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import ConfigurationError
from schemas.settings import WrapperSettings
from schemas.storage.leadership import FileLeadership, Leadership
from wrapper.catalog.contract import Database
from wrapper.catalog.snapshots import Copies, DatabaseCopies
from wrapper.catalog.sqlite.copies import SQLiteCopies
from wrapper.catalog.sqlite.database import SQLiteDatabase
from wrapper.start_checks import catalogue_path, check_catalogue

ENGINE_ID_FILE = "engine.id"


@dataclass(frozen=True)
class CatalogAccess:
    """A catalogue as the settings describe it.

    `leadership` makes this process's share in the lead; `check` raises ConfigurationError when a service with these
    settings must not start. `copies` are for backups; where the catalogue is no file, `database_copies` are the same.
    """

    database: Database
    leadership: Callable[[], Leadership]
    check: Callable[[], None]
    copies: Copies
    database_copies: DatabaseCopies | None = None


def check_access(settings: WrapperSettings) -> None:
    """Raise ConfigurationError when the catalogue keeps a service with these settings from starting.

    Nothing is created.
    """
    access = catalog_access(settings, makes=False)
    try:
        access.check()
    finally:
        access.database.close()


def catalog_access(settings: WrapperSettings, *, makes: bool = True) -> CatalogAccess:
    """Return the access to the catalogue in the settings.

    `makes` says that the name of this service's engine may be made, which a check before the start does without.
    Raises ConfigurationError when the address is invalid or the driver for it is not installed.
    """
    path = catalogue_path(settings)
    if path is not None:
        lock = settings.data_dir / "indexer.lock"
        return CatalogAccess(
            SQLiteDatabase(path), lambda: FileLeadership(lock), lambda: check_catalogue(settings), SQLiteCopies(path)
        )
    try:
        from wrapper.catalog.postgres.copies import PostgresCopies
        from wrapper.catalog.postgres.database import PostgresDatabase
        from wrapper.catalog.postgres.leadership import AdvisoryLeadership, check_start, engine_number
    except ImportError:
        raise ConfigurationError(
            "RAG_CATALOG_URL names a PostgreSQL database, whose driver is missing: pip install 'rag-wrapper[postgres]'"
        ) from None
    database = PostgresDatabase(settings.catalog_url, settings.catalog_schema)
    engine = engine_number(None if settings.chroma_url else _engine_id(settings.data_dir, makes=makes))
    return CatalogAccess(
        database,
        lambda: AdvisoryLeadership(database.connect, engine),
        lambda: check_start(database.connect, engine, settings.catalog_schema),
        copies := PostgresCopies(database.connect),
        copies,
    )


def _engine_id(data_dir: Path, *, makes: bool) -> str:
    """Return a name that tells the engine in this directory from those of all other directories and machines."""
    path = data_dir / ENGINE_ID_FILE
    try:
        return path.read_text()
    except FileNotFoundError:
        if not makes:
            return ""
        data_dir.mkdir(parents=True, exist_ok=True)
        path.write_text(uuid.uuid4().hex)
        return path.read_text()
