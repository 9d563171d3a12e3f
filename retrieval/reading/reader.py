"""One way to read a file of any kind, within limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePath
from queue import LifoQueue
from typing import Any, Self

import structlog

from retrieval.parsing.child import Question
from retrieval.parsing.confinement import lacking
from retrieval.parsing.markdown_comments import without_comments
from retrieval.parsing.parsed import (
    EMPTY,
    TOO_LARGE,
    TOO_SLOW,
    UNREADABLE,
    UNSUPPORTED_KIND,
    Parsed,
    UnreadableError,
    without_surrogates,
)
from retrieval.parsing.text_encodings import decoded
from retrieval.reading.front_matter import split_front_matter
from retrieval.reading.kinds import Kind, is_pdf
from retrieval.reading.scans import ALL_INSTALLED, Languages, OnPage, recognise
from retrieval.workers.worker_process import WorkerEndedError, WorkerProcess, WorkerTimeoutError
from schemas.errors import InvalidInputError
from schemas.metadata import check_metadata
from schemas.settings import RetrievalSettings

log = structlog.get_logger(__name__)

_ROOT = str(Path(__file__).resolve().parents[2])
_FAULT = {"code": UNREADABLE, "message": "cannot be read: the process that reads it ended"}
_MEGABYTE = 1024 * 1024
REPLACEMENT = "\ufffd"
"""What stands where a character could not be read."""
_WALL_FACTOR = 4
"""How many times as long as it may compute a parser may take by the clock: the machine may be busy, or it is nice."""


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """The most that one file may take: its own size, time of parsing (and more per megabyte), memory, text."""

    input_mb: int = 256
    seconds: float = 60.0
    seconds_per_mb: float = 2.0
    memory_mb: int = 1024
    output_mb: int = 64

    @classmethod
    def of(cls, settings: RetrievalSettings) -> Self:
        """Return the limits that an operator set."""
        return cls(seconds=settings.read_seconds, memory_mb=settings.read_memory_mb, output_mb=settings.read_output_mb)

    def seconds_for(self, size: int) -> float:
        """Return how long it may compute for so many bytes, or characters."""
        return self.seconds + self.seconds_per_mb * size / _MEGABYTE

    def wall_seconds_for(self, size: int) -> float:
        """Return how long that may take by the clock."""
        return self.seconds_for(size) * _WALL_FACTOR


class DocumentReader:
    """Reads files; safe for use by several threads.

    What needs a library is parsed in a process of its own, which starts with the first such file, and in one of several
    `processes` where others are under way. Pictures of text are recognised in one more, which scans share page by
    page: recognising takes long, and holds up no other file. `nice` is added to their niceness.
    """

    def __init__(
        self,
        limits: ReadingLimits = ReadingLimits(),
        *,
        nice: int = 0,
        processes: int = 1,
        languages: Languages = ALL_INSTALLED,
    ) -> None:
        self._limits, self._languages = limits, languages
        self._processes = [_process("The process that reads files", nice) for _ in range(processes)]
        self._recogniser = _process("The process that recognises text", nice)
        self._free: LifoQueue[WorkerProcess] = LifoQueue()  # so that no more are started than are needed
        for each in reversed(self._processes):
            self._free.put(each)

    def read(
        self, content: bytes | Path, kind: Kind, *, name: str, on_page: OnPage = lambda place, count: None
    ) -> Parsed:
        """Return the text of a file, given its bytes or its place. Its `name` is no title of a file that has one.
        `on_page` is called before a page is recognised.

        Raises UnreadableError, whose code says why there is no text, and what `on_page` raises.
        """
        if kind.holds_documents:
            part = "line" if kind.is_records else "member"
            raise UnreadableError(f"is {kind.label}: each {part} is a document of its own", code=UNSUPPORTED_KIND)
        content = self._bytes(content)
        if kind.name != "pdf" and is_pdf(content):
            raise UnreadableError(f"is a PDF, not {kind.label}")
        document = self._parsed(content, kind) if kind.is_isolated else _read_plain(content, kind)
        if document.scanned:
            recognise(document, partial(self._recognised, content, kind), on_page)
        if not document.text.strip():
            raise UnreadableError("contains no text", EMPTY)
        if replaced := document.text.count(REPLACEMENT):
            first = document.text.count("\n", 0, document.text.index(REPLACEMENT)) + 1
            document.warnings.append(
                f"{replaced} characters cannot be read and are shown as \ufffd, first in line {first}"
            )
        if document.title == PurePath(name).name:  # a program's own name for a file is no title, whatever the file says
            document.title = None
        return document

    def close(self) -> None:
        """End the processes that parse, at once."""
        for each in (*self._processes, self._recogniser):
            each.close()

    def rest(self) -> None:
        """End the processes that were not needed for a while."""
        for each in (*self._processes, self._recogniser):
            each.rest()

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
        if not content.strip():
            raise UnreadableError("contains no text", code=EMPTY)
        return content

    def _parsed(self, content: bytes, kind: Kind) -> Parsed:
        process = self._free.get()
        try:
            answer = self._answer(process, content, kind)
        finally:
            self._free.put(process)
        if "parsed" not in answer:
            raise UnreadableError(answer["message"], answer["code"])
        document = Parsed(**answer["parsed"])
        try:
            document.metadata = check_metadata(document.metadata)
        except InvalidInputError:
            document.metadata = {}
            document.warnings.append("What the file says of itself is too much to be kept")
        return document

    def _recognised(self, content: bytes, kind: Kind, page: int) -> dict[str, Any]:
        try:
            places = self._languages.places()
        except UnreadableError as error:
            return {"code": error.code, "message": error.message}
        return self._answer(self._recogniser, content, kind, page=page, languages=places)

    def _answer(self, process: WorkerProcess, content: bytes, kind: Kind, **more: Any) -> dict[str, Any]:
        """Return the answer. A question that ends with the process is asked once more, of a new one."""
        limits, size = self._limits, len(content)
        question = Question(kind.name, limits.seconds_for(size), limits.memory_mb, limits.output_mb, **more)
        if process.pid is None:
            for sentence in lacking():
                log.warning(sentence)
        for _ in range(2):
            try:
                return process.ask(asdict(question), content, seconds=limits.wall_seconds_for(size))[0]
            except WorkerTimeoutError:
                return {"code": TOO_SLOW, "message": question.too_slow}
            except WorkerEndedError:
                continue
        return _FAULT


def _process(name: str, nice: int) -> WorkerProcess:
    return WorkerProcess(
        name,
        ["-P", "-m", "retrieval.parsing.child", "--nice", str(nice)],
        # Nothing of this process's environment is passed on: it may hold keys.
        env={"PYTHONPATH": _ROOT, "PYTHONUTF8": "1"},
        cwd="/",
        is_apart=True,
    )


def _read_plain(content: bytes, kind: Kind) -> Parsed:
    text = without_surrogates(decoded(content))
    if kind.name != "markdown":
        return Parsed(text)
    document = split_front_matter(text)
    document.text = without_comments(document.text)
    return document
