"""The parts of a multipart body, one after the other, none of them ever whole in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import NEED_DATA, Data, Epilogue, Event, Field, File, MultipartDecoder

from schemas.errors import InvalidInputError, PayloadTooLargeError

MAX_BUFFERED_BYTES = 1 << 20
"""The most that is held of a body: the head of a part, or what might be the beginning of a boundary."""
MAX_BOUNDARY_CHARACTERS = 200
_BEFORE_MARK, _BEHIND_MARK = b"\r\n", b"--\r\n"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a form: `pieces` must be read before the next part. `file_name` is None for a field."""

    name: str
    file_name: str | None
    media_type: str
    pieces: Iterator[bytes]


def parts_of(chunks: Iterable[bytes], boundary: str, *, most: int) -> Iterator[Part]:
    """Yield the parts of a form.

    Raises InvalidInputError, which says how many parts were read, for a body that is no such form or ends too early,
    and PayloadTooLargeError for more than `most` parts.
    """
    if not boundary or len(boundary) > MAX_BOUNDARY_CHARACTERS or not boundary.isascii():
        raise InvalidInputError("The Content-Type names no boundary", code="invalid_multipart", field="Content-Type")
    whole = _with_whole_boundaries(chunks, b"--" + boundary.encode())
    reading = _Reading(whole, MultipartDecoder(boundary.encode(), MAX_BUFFERED_BYTES, max_parts=most), most)
    while not isinstance(event := reading.next(), Epilogue):
        match event:
            case File():
                kind = event.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                part = Part(event.name or "", event.filename, kind, reading.content())
            case Field():
                part = Part(event.name or "", None, "", reading.content())
            case _:
                continue
        yield part
        for _ in part.pieces:  # what the caller left
            pass
    if not reading.parts:
        raise InvalidInputError("The form has no parts", code="invalid_multipart", field="file")


class _Reading:
    """The events of a form, asked for one at a time."""

    def __init__(self, chunks: Iterable[bytes], decoder: MultipartDecoder, most: int) -> None:
        self._chunks = iter(chunks)
        self._decoder = decoder
        self._most = most
        self.parts = 0

    def next(self) -> Event:
        while True:
            try:
                event = self._decoder.next_event()
                if event is not NEED_DATA:
                    self.parts += isinstance(event, File | Field)
                    return event
                self._decoder.receive_data(next(self._chunks, None))
            except RequestEntityTooLarge:
                if self.parts >= self._most:
                    sentence = f"The form has more than {self._most} parts"
                    raise PayloadTooLargeError(sentence, code="too_many_files", limit=self._most) from None
                raise self._fault("has no boundary") from None
            except UnicodeDecodeError:
                raise InvalidInputError(
                    f"The name in part {self.parts + 1} of the form is not UTF-8",
                    code="invalid_multipart",
                    field="file",
                    part=self.parts + 1,
                ) from None
            except (ValueError, AttributeError):
                raise self._fault("breaks off, or is no multipart/form-data of the boundary named") from None

    def content(self) -> Iterator[bytes]:
        """Yield the content of the part whose head was the last event."""
        while True:
            event = self.next()
            assert isinstance(event, Data)
            if event.data:
                yield event.data
            if not event.more_data:
                return

    def _fault(self, what: str) -> InvalidInputError:
        where = f"part {self.parts}" if self.parts else "the form"
        return InvalidInputError(
            f"The body {what}, in {where}", code="invalid_multipart", field="file", part=self.parts or None
        )


def _with_whole_boundaries(chunks: Iterable[bytes], mark: bytes) -> Iterator[bytes]:
    """Yield the same bytes in pieces that do not end within or right behind a boundary.

    The decoder would take the line break before such a boundary for content when the piece ends between the two hyphens
    that may follow.
    """
    around = len(_BEFORE_MARK) + len(mark) + len(_BEHIND_MARK)
    held = b""
    for chunk in chunks:
        held += chunk
        cut = max(0, len(held) - around)
        at = held.rfind(mark, max(0, cut - around), cut + around)
        if at >= 0 and at - len(_BEFORE_MARK) < cut < at + len(mark) + len(_BEHIND_MARK):
            cut = max(0, at - len(_BEFORE_MARK))
        if cut:
            yield held[:cut]
            held = held[cut:]
    if held:
        yield held
