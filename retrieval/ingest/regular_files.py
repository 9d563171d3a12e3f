"""Open files that others may exchange at any time: no link leads elsewhere unnoticed, and no pipe is waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from retrieval.reading import UnreadableError

LINK, NOT_A_FILE = "link", "not_a_file"

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe would otherwise wait for a writer
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def open_regular(root: Path, path_below: str, *, follow_links: bool = False) -> BinaryIO:
    """Open a regular file by its path below a folder, with `/`.

    Without `follow_links`, no part of that path may be a symbolic link. Raises UnreadableError (LINK, NOT_A_FILE), and
    OSError when it cannot be opened.
    """
    descriptor = os.open(root / path_below, _FILE) if follow_links else _open_without_links(root, path_below)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableError("is not a file", code=NOT_A_FILE)
    return os.fdopen(descriptor, "rb")


def _open_without_links(root: Path, path_below: str) -> int:
    """Open one part of the path after the other, as what was checked beforehand may be something else by then."""
    *folders, name = path_below.split("/")
    place = os.open(root, _FOLDER)
    try:
        for folder in folders:
            try:
                below = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=place)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise UnreadableError("is behind a symbolic link or another file now", code=LINK) from error
                raise
            os.close(place)
            place = below
        return os.open(name, _FILE | os.O_NOFOLLOW, dir_fd=place)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError("is a symbolic link", code=LINK) from error
        raise
    finally:
        os.close(place)
