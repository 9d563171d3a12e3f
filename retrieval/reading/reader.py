"""One way to read a file of any kind, within limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from retrieval.reading.document_kinds import Kind
from retrieval.reading.front_matter import split_front_matter
from retrieval.reading.plain_text import decoded
from retrieval.reading.read_document import EMPTY, TOO_LARGE, UNSUPPORTED_KIND, ReadDocument, UnreadableError

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """The most that one file may take: its own size, time of parsing (and more per megabyte), memory, text."""

    input_mb: int = 256
    seconds: float = 60.0
    seconds_per_mb: float = 2.0
    memory_mb: int = 1024
    output_mb: int = 64


class DocumentReader:
    """Reads files one after the other; threads wait for their turn.

    `nice` is added to the niceness of the process that parses.
    """

    def __init__(self, limits: ReadingLimits = ReadingLimits(), *, nice: int = 0) -> None:
        self._limits = limits
        self._nice = nice

    def read(self, content: bytes | Path, kind: Kind, *, name: str) -> ReadDocument:
        """Return the text of a file, given its bytes or its place. `name` is only for titles.

        Raises UnreadableError, whose code says why there is no text.
        """
        if kind.is_records:
            raise UnreadableError(f"is {kind.label}: each line is a document of its own", code=UNSUPPORTED_KIND)
        if kind.is_isolated:
            raise UnreadableError(f"is {kind.label}, which cannot be read yet", code=UNSUPPORTED_KIND)
        return _read_plain(self._bytes(content), kind)

    def close(self) -> None:
        """End the process that parses."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bytes(self, content: bytes | Path) -> bytes:
        limit = self._limits.input_mb * _MEGABYTE
        if isinstance(content, Path):
            try:
                with content.open("rb") as opened:
                    content = opened.read(limit + 1)
            except OSError as error:
                raise UnreadableError(f"cannot be read: {error.strerror}") from error
        if len(content) > limit:
            raise UnreadableError(f"is larger than {self._limits.input_mb} MB", code=TOO_LARGE)
        return content


def _read_plain(content: bytes, kind: Kind) -> ReadDocument:
    text = decoded(content)
    if not text.strip():
        raise UnreadableError("contains no text", code=EMPTY)
    if kind.name != "markdown":
        return ReadDocument(text, kind.syntax, has_own_lines=True)
    front = split_front_matter(text)
    return ReadDocument(
        front.text, kind.syntax, front.title, front.metadata, warnings=front.warnings, has_own_lines=True
    )
