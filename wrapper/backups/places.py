"""Where backups and restores put things: their names in a data directory, and the folders where backups may go."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from schemas.errors import ConfigurationError, DiskFloorError

DIR = "RAG_BACKUP_DIR"
"""The setting that names the folder for backups."""
ORIGINALS, UPLOADS, KEPT_FILES, AUDIT = "originals", "uploads", "files", "audit"
FOLDERS = (ORIGINALS, UPLOADS, KEPT_FILES)
CODES = "codes"
INDEX = ("chroma", "engine.json", "engine-config.yaml", CODES)
"""What belongs to the index of a catalogue, which is built anew for another one."""
HELD = "backup-under-way"
SCRATCH = "backup-scratch"
KEPT_FOLDER = "before-migration"
STAGED = "restore.incomplete"
MOVES = "restore-under-way"
"""What a restore has yet to put into its place (`moves.py`)."""
ASIDE = "replaced-"
OF_THE_SERVICE = (*FOLDERS, AUDIT, *INDEX, "qdrant", "query-embeddings", HELD, SCRATCH, STAGED, KEPT_FOLDER)
"""Folders of a data directory from which the service, a restore or an erasure takes what it does not know."""
PRIVATE_FOLDER = 0o700


def check_folder(folder: Path, data_dir: Path, named: str) -> None:
    """Raise ConfigurationError when a folder for backups, which is `named` so, is the data directory or in a folder of
    the service's there."""
    real, own = Path(os.path.realpath(folder)), Path(os.path.realpath(data_dir))
    if not real.is_relative_to(own):
        return
    first = next(iter(real.relative_to(own).parts), "")
    if first in ("", *OF_THE_SERVICE) or first.startswith(ASIDE):
        what = f"the folder {first} of the data directory" if first else "the data directory"
        raise ConfigurationError(f"{named}: {what} is the service's own: backups need a folder apart", field=named)


def ready_folder(folder: Path, data_dir: Path, named: str) -> None:
    """Check a folder for backups and make it if it is not there. Raises also DiskFloorError when it cannot be made."""
    check_folder(folder, data_dir, named)
    try:
        make_folder(folder)
    except OSError as error:
        raise unwritable(error, named) from error


def make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, and likewise those above it that are not there."""
    if not folder.is_dir():
        make_folder(folder.parent)
        if os.path.lexists(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def unwritable(error: OSError, named: str) -> DiskFloorError:
    """Return the error for a folder, `named` so, in which no backup can be written."""
    reason = os.strerror(error.errno) if error.errno else "unknown"
    return DiskFloorError(f"{named}: the backup could not be written: {reason}", code="backup_unwritable", field=named)
