"""Files in requests and answers: the parts of a multipart body, one after the other, none of them ever whole in
memory, and a file as an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flask import Response, send_file
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import NEED_DATA, Data, Epilogue, Event, Field, File, MultipartDecoder

from retrieval.jobs.spool import shown_name
from schemas.errors import InvalidInputError, PayloadTooLargeError
from wrapper.web.bodies import body_chunks, bounded
from wrapper.web.request_parts import store

MAX_FIELD_BYTES = 256 << 10
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


def arriving_pieces() -> Iterator[bytes]:
    """Yield the pieces of the request's body as long as there is room on the disk."""
    for piece in bounded(body_chunks()):
        store().writing.check_disk()
        yield piece


def take_field(fields: dict[str, str], part: Part) -> None:
    """Add a field of a form. Raises InvalidInputError for one that is there already, too long or not UTF-8."""
    name = part.name[:100]
    if part.name in fields:
        raise InvalidInputError(f"The field '{name}' is given twice", code="repeated_parameter", field=name)
    content = bytearray()
    for piece in part.pieces:
        content += piece
        if len(content) > MAX_FIELD_BYTES:
            sentence = f"{name} is longer than {MAX_FIELD_BYTES >> 10} KB"
            raise InvalidInputError(sentence, code="invalid_field", field=name)
    try:
        fields[part.name] = content.decode()
    except UnicodeDecodeError:
        raise InvalidInputError(f"{name} is not UTF-8", code="invalid_field", field=name) from None


def sent_file(path: Path, name: str, media_type: str) -> Response:
    """Return the answer that a file is, to be stored under its name."""
    response = send_file(path, as_attachment=True, download_name=shown_name(name), conditional=False, etag=False)
    # Without a charset, which nobody knows.
    response.headers["Content-Type"] = media_type
    # A browser must neither guess that it is a page, nor run what is in a page.
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Security-Policy"] = "sandbox"
    return response


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
