"""Which files cannot be renamed into a folder of the data directory: those on other disks, and mounts."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from schemas.errors import ConflictError

MOUNTS = Path("/proc/self/mountinfo")
ESCAPED = re.compile(r"\\([0-7]{3})")


def check_movable(sources: Sequence[Path], data_dir: Path) -> None:
    """Raise ConflictError when one of the files or folders cannot be moved aside within the data directory."""
    mounts = _mounts()
    for source in sources:
        if str(Path(os.path.realpath(source.parent), source.name)) in mounts or os.path.ismount(source):
            raise _unmovable(source, "it is a mount: unmount it first")
        if _disk(source.parent, mounts) != _disk(data_dir, mounts):
            raise _unmovable(source, "it is on another disk: move it away yourself first")


def _unmovable(source: Path, why: str) -> ConflictError:
    sentence = f"{source} cannot be moved aside into the data directory, {why}. Nothing was restored"
    return ConflictError(sentence, code="not_movable")


def _disk(folder: Path, mounts: Collection[str]) -> tuple[int, str]:
    """Return the device of a folder and the mount through which it is seen: nothing is renamed from one to another."""
    real = Path(os.path.realpath(folder))
    return real.stat().st_dev, next((str(each) for each in (real, *real.parents) if str(each) in mounts), "")


def _mounts() -> frozenset[str]:
    """Return the places of all mounts, none where the system does not list them."""
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    return frozenset(ESCAPED.sub(lambda found: chr(int(found[1], 8)), line.split()[4]) for line in lines)
