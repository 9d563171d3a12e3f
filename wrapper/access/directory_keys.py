"""The keys of a data directory, for a command beside the service or without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime

from schemas.settings import WrapperSettings
from wrapper.access.room_to_revoke import RoomToRevoke
from wrapper.access.stored_keys import StoredKeys, utc_now
from wrapper.backups.before_migration import keep_before_migration, note_release
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.postgres.own_tables import own_tables
from wrapper.catalog_choice import catalog_access
from wrapper.catalogue_mark import check_mark, check_none_made
from wrapper.catalogue_presence import existing_catalogue
from wrapper.engine.data_directory_lock import unusable
from wrapper.floored_catalog import FlooredCatalog
from wrapper.free_disk import check_floor, free_disk_mb
from wrapper.start_checks import catalogue_path

FIND_TABLE = "SELECT 1 FROM sqlite_master WHERE name = 'api_keys'"


@contextmanager
def open_keys(
    settings: WrapperSettings, *, makes: bool, clock: Callable[[], datetime] = utc_now
) -> Iterator[StoredKeys]:
    """Give the keys of the catalogue in the settings.

    With `makes`, directory and catalogue are made when they are not there. Raises ConfigurationError when there are
    none without it, when they cannot be used, and when the service of the directory works with another catalogue; and
    UnavailableError when the catalogue does not answer.
    """
    if makes:
        try:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable(settings.data_dir, error) from None
        check_none_made(settings)
    access = catalog_access(settings) if makes else existing_catalogue(settings)
    access.check()
    keep_before_migration(settings, access)
    with closing(Catalog(access.database)) as catalog:
        catalog.open()
        check_mark(settings.data_dir, catalog)
        note_release(settings.data_dir)
        floored = FlooredCatalog(catalog, lambda: check_floor(free_disk_mb(settings.data_dir), settings.disk_floor_mb))
        yield StoredKeys(floored, clock, give_room=RoomToRevoke(catalogue_path(settings)).give)


def has_keys(settings: WrapperSettings) -> bool:
    """Return whether there was ever a key in the catalogue of the settings. Nothing is made."""
    path = catalogue_path(settings)
    if path is not None and not path.exists():
        return False
    with closing(Catalog(catalog_access(settings, makes=False).database)) as catalog, catalog.read() as transaction:
        if catalog.kind == "postgresql":
            has_table = "api_keys" in own_tables(transaction.rows)
        else:
            has_table = transaction.row(FIND_TABLE) is not None
        return has_table and transaction.row("SELECT 1 FROM api_keys LIMIT 1") is not None
