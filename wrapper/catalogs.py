"""Which catalogue the settings ask for, and who leads on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import ConfigurationError
from schemas.settings import WrapperSettings
from wrapper.catalog.database import Database
from wrapper.catalog.sqlite import SQLiteDatabase
from wrapper.leadership import FileLeadership, Leadership
from wrapper.starting import catalogue_path, check_catalogue

ENGINE_ID_FILE = "engine.id"


@dataclass(frozen=True)
class CatalogAccess:
    """`leadership` makes this process's share in the lead; `check` raises ConfigurationError when a service with these
    settings must not start."""

    database: Database
    leadership: Callable[[], Leadership]
    check: Callable[[], None]


def check_access(settings: WrapperSettings) -> None:
    """Raises ConfigurationError when a service with these settings must not start, because of its catalogue. Makes
    nothing."""
    access = catalog_access(settings, makes=False)
    try:
        access.check()
    finally:
        access.database.close()


def catalog_access(settings: WrapperSettings, *, makes: bool = True) -> CatalogAccess:
    """Raises ConfigurationError when the address is no address, or the driver for it is not installed. `makes` the name
    of this service's engine, which a look before the start does without."""
    path = catalogue_path(settings)
    if path is not None:
        lock = settings.data_dir / "indexer.lock"
        return CatalogAccess(SQLiteDatabase(path), lambda: FileLeadership(lock), lambda: check_catalogue(settings))
    try:
        from wrapper.catalog.postgres import PostgresDatabase
        from wrapper.catalog.postgres_leadership import AdvisoryLeadership, check_engine, engine_number
    except ImportError:
        raise ConfigurationError(
            "RAG_CATALOG_URL names a PostgreSQL database, whose driver is missing: pip install 'rag-wrapper[postgres]'"
        ) from None
    database = PostgresDatabase(settings.catalog_url)
    engine = engine_number(None if settings.chroma_url else _engine_id(settings.data_dir, makes=makes))
    return CatalogAccess(
        database,
        lambda: AdvisoryLeadership(database.connect, engine),
        lambda: check_engine(database.connect, engine),
    )


def _engine_id(data_dir: Path, *, makes: bool) -> str:
    """What tells the engine in this directory from those in others, wherever they are."""
    path = data_dir / ENGINE_ID_FILE
    try:
        return path.read_text()
    except FileNotFoundError:
        if not makes:
            return ""
        data_dir.mkdir(parents=True, exist_ok=True)
        path.write_text(uuid.uuid4().hex)
        return path.read_text()
