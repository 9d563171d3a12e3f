"""The place of plain copies while a backup is made: in the data directory, never where backups go.

A folder for backups may be on a share that others read; an encrypted backup must leave no plain copy there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wrapper.backups.files import give_to_owner
from wrapper.backups.places import PRIVATE_FOLDER, SCRATCH


@contextmanager
def scratch_folder(data_dir: Path) -> Iterator[Path]:
    """Give an empty folder for its owner alone, which is gone afterwards; what a killed backup left goes first.

    The caller keeps other backups of the directory away.
    """
    remove_scratch(data_dir)
    folder = data_dir / SCRATCH
    folder.mkdir(mode=PRIVATE_FOLDER)
    try:
        give_to_owner(folder, data_dir)
        yield folder
    finally:
        remove_scratch(data_dir)


def remove_scratch(data_dir: Path) -> None:
    if (folder := data_dir / SCRATCH).exists():
        shutil.rmtree(folder)
