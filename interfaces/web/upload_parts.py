"""Files in requests and answers: the parts of a multipart body, one after the other, none of them ever whole in
memory, and a file as an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flask import Response, request, send_file
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import NEED_DATA, Data, Epilogue, Event, Field, File, MultipartDecoder

from retrieval.jobs.spool import shown_name
from schemas.errors import InvalidInputError, PayloadTooLargeError
from wrapper.web.bodies import body_chunks, bounded
from wrapper.web.request_parts import store

FILE = "file"
MAX_FIELD_BYTES = 256 << 10
MAX_BUFFERED_BYTES = 1 << 20
"""The most that is held of a body: the head of a part, or what might be the beginning of a boundary."""
MAX_BOUNDARY_CHARACTERS = 200


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


def form_fields(take: Callable[[str, str, Iterable[bytes]], None], most: int) -> dict[str, str]:
    """Return the fields of the request's form, of which (name, media type, pieces) of each file are taken. Raises
    InvalidInputError, and PayloadTooLargeError for more than `most` parts, which says in which part it was."""
    fields: dict[str, str] = {}
    parts = parts_of(arriving_pieces(), request.mimetype_params.get("boundary", ""), most=most)
    for number, part in enumerate(parts, start=1):
        try:
            if part.file_name is None:
                _take_field(fields, part)
            elif part.name != FILE:
                sentence = f"The part '{part.name[:100]}' is a file: files are parts named '{FILE}'"
                raise InvalidInputError(sentence, code="invalid_field", field=FILE)
            else:
                take(part.file_name, part.media_type, part.pieces)
        except PayloadTooLargeError as error:
            error.details |= {"field": FILE, "part": number}
            raise
    return fields


def _take_field(fields: dict[str, str], part: Part) -> None:
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
    arriving = _whole_hyphens(chunks)
    decoder, number = MultipartDecoder(boundary.encode(), MAX_BUFFERED_BYTES, max_parts=most), 0

    def refused(what: str, part: int) -> InvalidInputError:
        return InvalidInputError(what, code="invalid_multipart", field="file", part=part or None)

    def next_event() -> Event:
        try:
            while (event := decoder.next_event()) is NEED_DATA:
                decoder.receive_data(next(arriving, None))
        except RequestEntityTooLarge:
            if number >= most:
                sentence = f"The form has more than {most} parts"
                raise PayloadTooLargeError(sentence, code="too_many_files", limit=most) from None
            raise refused(f"The body has no boundary, in {where()}", number) from None
        except UnicodeDecodeError:
            raise refused(f"The name in part {number + 1} of the form is not UTF-8", number + 1) from None
        except (ValueError, AttributeError):
            sentence = f"The body breaks off, or is no multipart/form-data of the boundary named, in {where()}"
            raise refused(sentence, number) from None
        return event

    def where() -> str:
        return f"part {number}" if number else "the form"

    def content() -> Iterator[bytes]:
        while isinstance(event := next_event(), Data):
            yield event.data
            if not event.more_data:
                return

    while not isinstance(event := next_event(), Epilogue):
        if not isinstance(event, File | Field):
            continue
        number += 1
        if isinstance(event, File):
            kind = event.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            part = Part(event.name or "", event.filename, kind, content())
        else:
            part = Part(event.name or "", None, "", content())
        yield part
        for _ in part.pieces:  # what the caller left
            pass
    if not number:
        raise refused("The form has no parts", 0)


def _whole_hyphens(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces that do not end within hyphens, unless these are too many for a boundary.

    The decoder would take the line break before a boundary for content when a piece ends between the two hyphens that
    may follow.
    """
    held = b""
    for chunk in chunks:
        held += chunk
        cut = max(len(held.rstrip(b"-")), len(held) - MAX_BOUNDARY_CHARACTERS - len(b"----"))
        if cut:
            yield held[:cut]
            held = held[cut:]
    if held:
        yield held
