"""The folders of embedded Qdrants: each has one of its own below `qdrant/` in the data directory.

Earlier releases kept them in the data directory itself; such a folder is moved when it is opened for use.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson
from filelock import FileLock

FOLDERS = "qdrant"
_META = "meta.json"
_PARTS = ("collection", ".lock", _META)
"""The parts of a folder in the order in which they are moved. The last one tells that the folder is Qdrant's."""


def folder_of(data_dir: Path, name: str) -> Path:
    return data_dir / FOLDERS / name


def readable_folder(data_dir: Path, name: str) -> Path | None:
    """Return the folder that has the files of that name now, None when there is none. Move and make nothing."""
    folder, former = folder_of(data_dir, name), data_dir / name
    if folder.exists() and not (former == folder.parent and is_qdrant(former)):
        return folder
    return former if is_qdrant(former) else None


def settled_folder(data_dir: Path, name: str, timeout_seconds: float) -> Path:
    """Return the folder where the files of that name belong, and move those of an earlier release there.

    Raise filelock.Timeout when another process moves files for longer than `timeout_seconds`, and OSError when files
    cannot be moved.
    """
    folders, folder = data_dir / FOLDERS, folder_of(data_dir, name)
    folders.mkdir(parents=True, exist_ok=True)
    if folder.exists() and not is_qdrant(folders):
        return folder
    with FileLock(data_dir / f"{FOLDERS}.lock", timeout=timeout_seconds):
        _move_down(folders)
        if not folder.exists() and name != FOLDERS and is_qdrant(data_dir / name):
            os.rename(data_dir / name, folder)
    return folder


def is_qdrant(folder: Path) -> bool:
    """Return whether an embedded Qdrant made the folder."""
    try:
        meta = orjson.loads((folder / _META).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(meta, dict) and "collections" in meta


def _move_down(folders: Path) -> None:
    """Move an earlier release's folder named `qdrant` below the folder that has this name now.

    A move that was interrupted is completed.
    """
    moving = folders / f"{FOLDERS}.moving"
    if is_qdrant(folders):
        moving.mkdir(exist_ok=True)
        for part in _PARTS:
            if (folders / part).exists():
                os.rename(folders / part, moving / part)
    if is_qdrant(moving):
        os.rename(moving, folders / FOLDERS)
