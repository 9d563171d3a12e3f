"""Files as a multipart form that is read while it is sent."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from rag_wrapper_client.bodies import PIECE_BYTES, Body

UploadedFile: TypeAlias = str | os.PathLike[str] | tuple[str, bytes | str | os.PathLike[str]]
"""A path, or a name with the bytes or the path of its content."""


def form(files: UploadedFile | Iterable[UploadedFile]) -> Body:
    """Return a form with one part `file` for each file. Paths are opened when they are sent, each time anew."""
    listed = [files] if isinstance(files, str | os.PathLike | tuple) else list(files)
    boundary = uuid.uuid4().hex

    def pieces() -> Iterator[bytes]:
        for each in listed:
            name, content = each if isinstance(each, tuple) else (Path(each).name, each)
            yield (
                f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{_quoted(name)}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n"
            ).encode()
            yield from [content] if isinstance(content, bytes) else _read(content)
            yield b"\r\n"
        yield f"--{boundary}--\r\n".encode()

    return Body(f"multipart/form-data; boundary={boundary}", pieces_of=pieces)


def _read(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _quoted(name: str) -> str:
    """Return a name as browsers put it into a form."""
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")
