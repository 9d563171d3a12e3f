"""Keeps a copy of the catalogue before another release changes it, so that there is a way back.

Which release last opened the catalogue is noted in the data directory. Another one, or one that knows a newer schema,
keeps a copy first: the tables of layers above have versions of their own, of which nobody knows here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import structlog

from schemas.errors import ConfigurationError, DiskFloorError
from schemas.release import release
from schemas.settings import WrapperSettings
from wrapper.backups.files import give_to_owner
from wrapper.backups.keys import backup_key
from wrapper.backups.making import BackupMaker, check_no_moves, only_backup
from wrapper.backups.manifest import Reason
from wrapper.backups.restoring import KEPT_FOLDER
from wrapper.backups.shelf import Shelf
from wrapper.catalog.migrations import NEWEST
from wrapper.catalog_choice import CatalogAccess

log = structlog.get_logger(__name__)

RELEASE_FILE = "catalogue.release"
KEPT = 3
"""How many of these copies are kept."""


def keep_before_migration(settings: WrapperSettings, access: CatalogAccess) -> None:
    """Keep a copy of the catalogue unless this release has opened it before.

    Raises ConfigurationError when the schema is to be changed and there is too little room for a copy, and when a
    restore was interrupted.
    """
    check_no_moves(settings.data_dir)
    try:
        version = access.copies.schema_version()
    except access.copies.errors:
        return  # whoever opens it says what is wrong
    if not 0 < version <= NEWEST or (version == NEWEST and _last_release(settings.data_dir) == release()):
        return
    if not settings.migration_backup:
        log.warning("the catalogue is changed without a copy of it: RAG_MIGRATION_BACKUP is off", schema=version)
        return
    folder = settings.data_dir / KEPT_FOLDER
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        give_to_owner(folder, settings.data_dir)
        key = backup_key(settings)
        maker = BackupMaker(settings.data_dir, access.copies, key=key, floor_mb=settings.disk_floor_mb)
        with only_backup(settings.data_dir):
            target = maker.new_target(folder, Reason.MIGRATION)
            log.info("keeping a copy of the catalogue before it is changed", schema=version, file=target.name)
            head = maker.make(target, Reason.MIGRATION, whole=False)
            give_to_owner(target, settings.data_dir)
            Shelf(folder).prune(head, KEPT)
    except (OSError, DiskFloorError) as error:
        why = error.message if isinstance(error, DiskFloorError) else error.strerror
        if version == NEWEST:
            # The schema stays. Reading, and revoking keys, must go on where there is no room.
            log.warning("no copy of the catalogue is kept before this release opens it", reason=why)
            return
        raise ConfigurationError(
            f"No copy of the catalogue could be kept before this release changes it. {why}. Make room, or set "
            "RAG_MIGRATION_BACKUP=off to go on without a copy",
            field="RAG_MIGRATION_BACKUP",
        ) from error


def note_release(data_dir: Path) -> None:
    """Note that this release has opened the catalogue of a data directory."""
    if _last_release(data_dir) == release():
        return
    incomplete = data_dir / f"{RELEASE_FILE}.tmp"
    with suppress(OSError):  # then the next start keeps a copy that nobody needed
        incomplete.write_text(release())
        give_to_owner(incomplete, data_dir)
        os.replace(incomplete, data_dir / RELEASE_FILE)


def _last_release(data_dir: Path) -> str:
    try:
        return (data_dir / RELEASE_FILE).read_text(errors="replace").strip()
    except OSError:
        return ""
