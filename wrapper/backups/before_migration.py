"""Keeps a copy of the catalogue before another release changes it, so that there is a way back.

Which release last opened the catalogue is noted in the data directory. Another one, or one that knows a newer schema,
keeps a copy first: the tables of layers above have versions of their own, of which nobody knows here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import structlog

from schemas.errors import ConfigurationError, RagError
from schemas.release import release
from schemas.settings import WrapperSettings
from wrapper.backups.files import give_to_owner
from wrapper.backups.keys import backup_key
from wrapper.backups.making import BackupMaker, check_no_moves, only_backup
from wrapper.backups.manifest import Reason
from wrapper.backups.places import KEPT_FOLDER, make_folder
from wrapper.backups.shelf import Shelf
from wrapper.catalog.migrations import NEWEST
from wrapper.catalog_choice import CatalogAccess
from wrapper.catalogue_mark import is_marked

log = structlog.get_logger(__name__)

RELEASE_FILE = "catalogue.release"
KEPT = 3
"""How many of these copies are kept."""


def keep_before_migration(settings: WrapperSettings, access: CatalogAccess) -> None:
    """Keep a copy of the catalogue unless this release has opened it before.

    A directory that is new keeps none of a catalogue whose schema stays: it was opened by no release. Raises
    ConfigurationError when the copy cannot be made and the schema would change, and when a restore was interrupted.
    """
    check_no_moves(settings.data_dir)
    try:
        version = access.copies.schema_version()
    except access.copies.errors:
        return  # whoever opens it says what is wrong
    stays = version == NEWEST
    if not 0 < version <= NEWEST or (stays and not _is_anothers(settings.data_dir)):
        return
    if not settings.migration_backup:
        log.warning("the catalogue is changed without a copy of it: RAG_MIGRATION_BACKUP is off", schema=version)
        return
    folder = settings.data_dir / KEPT_FOLDER
    key = backup_key(settings)
    failures: tuple[type[Exception], ...] = (OSError, RagError, *access.copies.errors)
    try:
        make_folder(folder)
        give_to_owner(folder, settings.data_dir)
        floor_mb = settings.disk_floor_mb
        maker = BackupMaker(settings.data_dir, access.copies, key=key, floor_mb=floor_mb, named="RAG_DATA_DIR")
        with only_backup(settings.data_dir):
            target = maker.new_target(folder, Reason.MIGRATION)
            log.info("keeping a copy of the catalogue before it is changed", schema=version, file=target.name)
            head = maker.make(target, Reason.MIGRATION, whole=False)
            give_to_owner(target, settings.data_dir)
            Shelf(folder).prune(head, KEPT)
    except ConfigurationError:
        raise
    except failures as error:
        why = error.message if isinstance(error, RagError) else " ".join(str(error).split())
        if stays:
            log.warning("no copy of the catalogue could be kept; its schema stays as it is", reason=why, schema=version)
            return
        raise ConfigurationError(
            f"No copy of the catalogue could be kept before this release changes it. {why}. Mend this, or set "
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


def _is_anothers(data_dir: Path) -> bool:
    """Return whether another release has opened the catalogue of a data directory last."""
    last = _last_release(data_dir)
    return last != release() if last else is_marked(data_dir)


def _last_release(data_dir: Path) -> str:
    try:
        return (data_dir / RELEASE_FILE).read_text(errors="replace").strip()
    except OSError:
        return ""
