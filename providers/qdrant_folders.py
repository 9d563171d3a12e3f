"""Where embedded Qdrants keep their files: each in a folder of its own below `qdrant/` in the data directory.

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
"""Of a folder, the one that tells it comes last."""


def folder_of(data_dir: Path, name: str) -> Path:
    return data_dir / FOLDERS / name


def readable_folder(data_dir: Path, name: str) -> Path | None:
    """Where the files of that name are now, None when there are none: nothing is moved or made."""
    folder, former = folder_of(data_dir, name), data_dir / name
    if folder.exists() and not (former == folder.parent and is_qdrant(former)):
        return folder
    return former if is_qdrant(former) else None


def settled_folder(data_dir: Path, name: str, timeout_seconds: float) -> Path:
    """Where the files of that name belong, with those of an earlier release in it. Raises filelock.Timeout, OSError."""
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
    """Whether an embedded Qdrant made the folder."""
    try:
        meta = orjson.loads((folder / _META).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(meta, dict) and "collections" in meta


def _move_down(folders: Path) -> None:
    """An earlier release's folder called as all of them are now becomes one of them. What was cut off goes on."""
    moving = folders / f"{FOLDERS}.moving"
    if is_qdrant(folders):
        moving.mkdir(exist_ok=True)
        for part in _PARTS:
            if (folders / part).exists():
                os.rename(folders / part, moving / part)
    if is_qdrant(moving):
        os.rename(moving, folders / FOLDERS)
