"""The files of a folder that become documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from retrieval.ingest.regular_files import open_regular
from retrieval.reading import Kind, UnreadableError
from schemas.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a folder. path_below: its path below that folder, with `/`; a single file's is its name.

    Links on that path are followed only with `follows_links`, even those that took its place after it was found. A file
    whose `signature` (inode, size, times of the last change in nanoseconds) differs from before may have changed.
    """

    path: Path
    path_below: str
    kind: Kind
    size_bytes: int
    follows_links: bool = False
    signature: tuple[int, ...] = ()

    def open(self) -> BinaryIO:
        """Open the file. Raises UnreadableError when it cannot be opened, or is no regular file any more."""
        return opened_below(self.path, self.path_below, self.follows_links)


@dataclass(frozen=True, slots=True)
class SourceError:
    """A file or line that could not be loaded, and why; line counts from 1 and is None when the whole file is meant."""

    source: str
    line: int | None
    message: str
    code: str = InvalidInputError.code

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.message}" if self.line else f"{self.source}: {self.message}"


def opened_below(path: Path, path_below: str, follows_links: bool) -> BinaryIO:
    """Open a file by its path below a folder. Raises UnreadableError when that fails, or it is no regular file."""
    with unreadable():
        return open_regular(path.parents[path_below.count("/")], path_below, follow_links=follows_links)


@contextmanager
def unreadable() -> Iterator[None]:
    """Turn what the system says against a file into UnreadableError."""
    try:
        yield
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from error
