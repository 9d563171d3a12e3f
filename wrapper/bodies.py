"""Bodies in and out: JSON on orjson, gzip, streams of lines, all within bounds.

A body is read to its end before it is refused, so that the next request on the connection starts where it should.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

import orjson
from flask import Response, current_app, g, request
from flask.json.provider import JSONProvider
from werkzeug.exceptions import ClientDisconnected

from schemas.errors import InvalidInputError, PayloadTooLargeError, SlowClientError, UnsupportedMediaError
from schemas.json_in import decode
from wrapper.parsing import ParsingBudget
from wrapper.patience import PatientSocket

READ_BYTES = 1 << 16
MAX_REQUEST_LINE_BYTES = 32 * 1024
MOST_DISCARDED = 4
"""How many times the largest body is read after the answer is known."""
JSON = "application/json"
NDJSON = "application/x-ndjson"
MAX_GZIP_RATIO = 50
"""Documents pack to a half or a tenth; what packs better than this is meant to fill the memory."""
UNPACKED_UNASKED_BYTES = 10 << 20
"""So much may come out of a gzip body whatever its ratio."""


class LongRequestLineError(InvalidInputError):
    """The request line is longer than `MAX_REQUEST_LINE_BYTES`."""

    code = "request_line_too_long"


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
    """Raises LongRequestLineError, naming the route that takes the same in a body."""
    line = request.environ.get("RAW_URI") or request.full_path
    if len(line) > MAX_REQUEST_LINE_BYTES:
        raise LongRequestLineError(
            "The request line is too long: POST the same filter to /collections/{name}/documents/search",
            limit_bytes=MAX_REQUEST_LINE_BYTES,
        )


def decode_json(body: bytes) -> Any:
    """The value of the request's body; without one, an empty object. Raises InvalidInputError with the position."""
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
    """The whole body, unpacked, within the limits; there is room to parse it, until `finish_parsing` or the end of the
    request. Raises PayloadTooLargeError, BusyError, and what `body_chunks` raises."""
    limit = int(current_app.config["MAX_BODY_BYTES"])
    content = bytearray()
    for chunk in body_chunks():
        content += chunk
        if len(content) > limit:
            raise PayloadTooLargeError(f"The body is larger than {limit >> 20} MB", limit_bytes=limit)
    body = bytes(content)
    with ExitStack() as stack:
        stack.enter_context(room_for(body))
        g.parsing = stack.pop_all()
    return body


def room_for(content: bytes) -> AbstractContextManager[None]:
    """As of `ParsingBudget`, that of this process."""
    budget: ParsingBudget = current_app.extensions["rag.parsing"]
    return budget.room_for(content)


def finish_parsing() -> None:
    """What the body was parsed to is not kept any more: others may have its room."""
    if "parsing" in g:
        g.pop("parsing").close()


def body_chunks(seen: Callable[[bytes], object] | None = None) -> Iterator[bytes]:
    """The body in pieces, unpacked when it is gzip; `seen` is called with them as they came. Raises
    UnsupportedMediaError, InvalidInputError, SlowClientError."""
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip"):
        raise UnsupportedMediaError(f"Content-Encoding '{encoding}' is not supported", allowed=["gzip", "identity"])
    chunks = _pieces()
    if seen is not None:
        chunks = _passing(chunks, seen)
    return _unpacked(chunks) if encoding == "gzip" else chunks


def body_lines(seen: Callable[[bytes], object] | None = None) -> Iterator[bytes]:
    """The lines of a body in order, blank ones too, without their ends; one line is at most a body's limit long.
    `seen` as in `body_chunks`."""
    limit = int(current_app.config["MAX_BODY_BYTES"])
    begun = bytearray()
    for chunk in body_chunks(seen):
        first, *others = chunk.split(b"\n")
        begun += first
        if len(begun) > limit:
            raise PayloadTooLargeError(f"A line is longer than {limit >> 20} MB", limit_bytes=limit)
        if others:
            yield bytes(begun)
            *whole, last = others
            yield from whole
            begun = bytearray(last)
    if begun:
        yield bytes(begun)


def client_is_gone() -> bool:
    """Whether nobody waits for the answer of this request any more; False where that cannot be seen."""
    connection = _connection()
    return connection is not None and connection.is_gone()


def finish_within(seconds: float, give_up: Callable[[], None]) -> None:
    """Cut the connection, after `give_up`, when the client has not taken all of this request's answer by then."""
    connection = _connection()
    if connection is not None:
        connection.finish_within(seconds, give_up)


def leave_body() -> None:
    """Do not read the body of this request, if there is one: the connection ends with the answer."""
    connection = _connection()
    if connection is not None and (request.content_length or "Transfer-Encoding" in request.headers):
        connection.end()
        g.body_is_left = True


def discard_body() -> None:
    """Read what nobody has read: otherwise it would be taken for the next request. Who sends far too much is not heard
    to the end, and the connection ends with the answer."""
    if "body_is_left" in g:
        return
    left = MOST_DISCARDED * int(current_app.config["MAX_BODY_BYTES"])
    with suppress(OSError, ClientDisconnected):
        while content := request.stream.read(READ_BYTES):
            left -= len(content)
            if left < 0:
                connection = _connection()
                if connection is not None:
                    connection.end()
                return


def request_digest(body: bytes) -> str:
    """Tells one request from another, for idempotency keys."""
    digest = hashlib.sha256(f"{request.method} {request.full_path}\n".encode())
    digest.update(body)
    return digest.hexdigest()


def _connection() -> PatientSocket | None:
    """The client's, under gunicorn."""
    connection = request.environ.get("gunicorn.socket")
    return connection if isinstance(connection, PatientSocket) else None


def _passing(chunks: Iterator[bytes], seen: Callable[[bytes], object]) -> Iterator[bytes]:
    for chunk in chunks:
        seen(chunk)
        yield chunk


def _pieces() -> Iterator[bytes]:
    left = request.content_length
    while piece := _next_piece():
        if left is not None:
            left -= len(piece)
        yield piece
    if left:
        raise InvalidInputError("The body ends too early", code="body_cut_short")


def _next_piece() -> bytes:
    """Raises SlowClientError when the client is too slow, InvalidInputError when it has gone."""
    try:
        return request.stream.read(READ_BYTES)
    except (OSError, ClientDisconnected) as error:
        if isinstance(error, TimeoutError) or isinstance(error.__context__, TimeoutError):
            raise SlowClientError("The client sends its request too slowly") from None
        raise InvalidInputError("The body ends too early", code="body_cut_short") from None


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
