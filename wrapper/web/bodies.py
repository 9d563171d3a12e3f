"""Reads and writes bodies: JSON by orjson, gzip, streams of lines, all within bounds.

A body is read to its end before it is refused, so that the next request on the connection starts where it should; one
that is too large is not, and its refusal is the connection's last answer.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from io import BytesIO
from typing import Any, cast

import orjson
from flask import Response, current_app, g, request
from flask.json.provider import JSONProvider
from werkzeug.exceptions import ClientDisconnected

from schemas.access.callers import check_acting
from schemas.errors import (
    BusyError,
    InvalidInputError,
    LongRequestLineError,
    MalformedRequestError,
    PayloadTooLargeError,
    SlowClientError,
    UnsupportedMediaError,
)
from schemas.wire.json_in import decode
from wrapper.web.parsing_budget import ArrivingBudget, ParsingBudget
from wrapper.web.slow_clients import MalformedBodyError, PatientSocket

READ_BYTES = 1 << 16
MAX_REQUEST_LINE_BYTES = 32 * 1024
JSON = "application/json"
NDJSON = "application/x-ndjson"
MULTIPART = "multipart/form-data"
FORM = "application/x-www-form-urlencoded"
ANY_MEDIA_TYPE = "*/*"
"""Stands for every media type but that of a simple form, among those that a route takes."""
MAX_GZIP_RATIO = 50
"""The most times that a gzip body may grow when it is unpacked. Documents pack to a half or a tenth; a body that packs
better than this is meant to fill the memory."""
UNPACKED_UNASKED_BYTES = 10 << 20
"""The number of bytes that a gzip body may unpack to whatever its ratio."""
CLIENT_WATCH = "rag.client_watch"
"""Where a request that another one makes of this application has what tells whether the other's client has left."""


class OrjsonProvider(JSONProvider):
    """Flask's JSON on orjson: NaN and Infinity are refused, NumPy arrays are written as they are."""

    def dumps(self, obj: Any, **_: Any) -> str:
        return encode(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        return orjson.loads(s)


def encode(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def json_response(value: Any, status: int = 200, etag: str | None = None) -> Response:
    response = Response(encode(value), status, mimetype=JSON)
    if etag is not None:
        response.headers["ETag"] = f'"{etag}"'
    return response


def check_request_line() -> None:
    """Raise LongRequestLineError for a line that is too long; it names the route that takes filters in a body."""
    line = request.environ.get("RAW_URI") or request.full_path
    if len(line) > MAX_REQUEST_LINE_BYTES:
        raise LongRequestLineError(
            "The request line is too long; a filter can go into the body of POST /collections/{name}/documents/search",
            limit_bytes=MAX_REQUEST_LINE_BYTES,
        )


def has_body() -> bool:
    return bool(request.content_length) or "Transfer-Encoding" in request.headers


def check_media_type(allowed: tuple[str, ...]) -> None:
    """Raise UnsupportedMediaError for a body of another media type, without reading it.

    The types of forms are refused even where the body is empty, because any page may send a form without asking.
    """
    given = request.mimetype
    if not given and not has_body() and "Content-Type" not in request.headers:
        return
    if given in allowed or (JSON in allowed and given.endswith("+json")):
        return
    if ANY_MEDIA_TYPE in allowed and given != FORM:
        return
    named = [each for each in allowed if each != ANY_MEDIA_TYPE]
    raise UnsupportedMediaError(f"The body must be {' or '.join(named)}", allowed=named)


def decode_json(body: bytes) -> Any:
    """Return the value of a JSON body, an empty object for an empty one. Raises InvalidInputError, with the position,
    when it is not JSON."""
    if not body:
        return {}
    try:
        return decode(body)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(
            f"The body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            code="invalid_json",
            line=error.lineno,
            column=error.colno,
        ) from None


def read_body() -> bytes:
    """Return the whole body, unpacked.

    There is room for it, and to parse it, until `finish_parsing` or the end of the request. Raises PayloadTooLargeError
    when it is too large, BusyError when there is no room in time, and what `body_chunks` raises.
    """
    with ExitStack() as stack:
        grow_to = stack.enter_context(_arriving())
        content = BytesIO()
        for chunk in bounded(body_chunks()):
            grow_to(content.tell() + len(chunk))
            content.write(chunk)
        body = content.getvalue()
        stack.enter_context(room_for(body))
        g.parsing = stack.pop_all()
    check_acting()  # again, because there may have been no room for long
    return body


def bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a body. Raises PayloadTooLargeError for one that is larger than a body may be: before the
    first piece when its length says so."""
    _check_size(request.content_length or 0)
    received = 0
    for chunk in chunks:
        received += len(chunk)
        _check_size(received)
        yield chunk


def _check_size(size_bytes: int) -> None:
    limit = int(current_app.config["MAX_BODY_BYTES"])
    if size_bytes > limit:
        raise PayloadTooLargeError(f"The body is larger than {limit >> 20} MB", limit_bytes=limit)


@contextmanager
def _arriving() -> Iterator[Callable[[int], None]]:
    """Give the function that makes room for a body of this request, as `ArrivingBudget.body` does. A body that finds
    none is not read to its end."""
    budget: ArrivingBudget = current_app.extensions["rag.arriving"]
    with budget.body() as grow_to:

        def grow_or_leave(size_bytes: int) -> None:
            try:
                grow_to(size_bytes)
            except BusyError:
                leave_body()
                raise

        yield grow_or_leave


def room_for(content: bytes) -> AbstractContextManager[None]:
    """Return the room of this process's `ParsingBudget` for a JSON text."""
    budget: ParsingBudget = current_app.extensions["rag.parsing"]
    return budget.room_for(content)


def finish_parsing() -> None:
    """Give the room of the body to others, because neither it nor its parsed values are kept any more."""
    if "parsing" in g:
        g.pop("parsing").close()


def body_chunks(seen: Callable[[bytes], object] | None = None) -> Iterator[bytes]:
    """Return the body in pieces, unpacked when it is gzip; `seen` is called with the pieces as they came.

    Raises UnsupportedMediaError for other encodings, and while the pieces are read InvalidInputError for a body that
    breaks off or is not valid gzip, MalformedRequestError for chunks that are none, and SlowClientError for one that
    comes too slowly.
    """
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip"):
        raise UnsupportedMediaError(f"Content-Encoding '{encoding}' is not supported", allowed=["gzip", "identity"])
    chunks = _pieces()
    if seen is not None:
        chunks = _passing(chunks, seen)
    return _unpacked(chunks) if encoding == "gzip" else chunks


def body_lines(seen: Callable[[bytes], object] | None = None) -> Iterator[bytes]:
    """Yield the lines of a body in order, blank ones too, without their ends.

    A line is at most as long as a body may be. `seen` as in `body_chunks`.
    """
    limit = int(current_app.config["MAX_BODY_BYTES"])
    begun = bytearray()
    with _arriving() as grow_to:
        for chunk in body_chunks(seen):
            first, *others = chunk.split(b"\n")
            begun += first
            if len(begun) > limit:
                raise PayloadTooLargeError(f"A line is longer than {limit >> 20} MB", limit_bytes=limit)
            grow_to(len(begun))
            if others:
                yield bytes(begun)
                *whole, last = others
                yield from whole
                begun = bytearray(last)
    if begun:
        yield bytes(begun)


def client_is_gone() -> bool:
    """Return whether the client has left without its answer; False where that cannot be seen."""
    return client_watch()()


def client_watch() -> Callable[[], bool]:
    """Return the same as a function that any thread may call until this request is answered."""
    if CLIENT_WATCH in request.environ:
        return cast(Callable[[], bool], request.environ[CLIENT_WATCH])
    connection = _connection()
    return (lambda: False) if connection is None else connection.is_gone


def finish_within(seconds: float, give_up: Callable[[], None]) -> None:
    """Cut the connection, after `give_up`, when the client has not taken all of this request's answer by then."""
    connection = _connection()
    if connection is not None:
        connection.finish_within(seconds, give_up)


def leave_body() -> None:
    """Do not read the body of this request, if there is one: the connection ends with the answer."""
    if _connection() is not None and has_body():
        _end_connection()
        g.body_is_left = True


def discard_body() -> None:
    """Read the rest of the body, which would otherwise be taken for the next request.

    A client that sends more than a body may have, what has no end, or nothing for a moment is not heard to the end, and
    its connection ends with the answer.
    """
    left = int(current_app.config["MAX_BODY_BYTES"])
    if (request.content_length or 0) > left:
        leave_body()
    if "body_is_left" in g:
        return
    if (connection := _connection()) is not None:
        connection.hurry()
    try:
        while left >= 0 and (content := request.stream.read(READ_BYTES)):
            left -= len(content)
    except MalformedBodyError:
        _end_connection()
    except (OSError, ClientDisconnected):
        return
    if left < 0:
        _end_connection()


def request_digest(body: bytes) -> str:
    """Return a digest that tells this request from any other, for idempotency keys."""
    digest = hashlib.sha256(f"{request.method} {request.full_path}\n".encode())
    digest.update(body)
    return digest.hexdigest()


def _connection() -> PatientSocket | None:
    """Return the client's connection under gunicorn, None under other servers."""
    connection = request.environ.get("gunicorn.socket")
    return connection if isinstance(connection, PatientSocket) else None


def _end_connection() -> None:
    connection = _connection()
    if connection is not None:
        connection.end()


def _passing(chunks: Iterator[bytes], seen: Callable[[bytes], object]) -> Iterator[bytes]:
    for chunk in chunks:
        seen(chunk)
        yield chunk


def _pieces() -> Iterator[bytes]:
    left = request.content_length
    while left != 0 and (piece := _next_piece()):
        if left is not None:
            left -= len(piece)
        yield piece
    if left:
        raise _cut_short()
    check_acting()  # whose key has ended while they sent it may not have it carried out


def _next_piece() -> bytes:
    """Return the next piece. Raises what `reading` raises."""
    with reading():
        return request.stream.read(READ_BYTES)


@contextmanager
def reading() -> Iterator[None]:
    """Do the block's reading of the body. Raises SlowClientError when the client is too slow, InvalidInputError when it
    has gone, MalformedRequestError when it sent something else, which the error does not quote."""
    try:
        yield
    except MalformedBodyError:
        leave_body()
        raise MalformedRequestError("The chunks of the body are not as HTTP allows") from None
    except (OSError, ClientDisconnected) as error:
        if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
            raise SlowClientError("The client sends its request too slowly") from None
        raise _cut_short() from None


def _cut_short() -> InvalidInputError:
    """Return the error of a body whose client sends no more of it. Most have left; one that still reads is told."""
    g.body_is_cut = True
    return InvalidInputError("The body ends too early", code="body_cut_short")


def _unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    received = unpacked = 0
    try:
        for chunk in chunks:
            packed = chunk
            received += len(chunk)
            while packed:
                piece = unpacker.decompress(packed, READ_BYTES)
                unpacked += len(piece)
                if unpacked > UNPACKED_UNASKED_BYTES + MAX_GZIP_RATIO * received:
                    raise PayloadTooLargeError(
                        f"The body unpacks to more than {MAX_GZIP_RATIO} times its size",
                        limit_ratio=MAX_GZIP_RATIO,
                    )
                yield piece
                packed = unpacker.unconsumed_tail
                if unpacker.eof and unpacker.unused_data:
                    packed = unpacker.unused_data
                    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        yield unpacker.flush()
    except zlib.error:
        raise InvalidInputError("The body is not valid gzip", code="invalid_gzip") from None
    if not unpacker.eof:
        raise InvalidInputError("The gzip body ends too early", code="invalid_gzip")
