"""What a worker process and whoever asks it say to each other: messages, eight bytes with the length and the content.

A question is two of them, JSON and bytes, and so is an answer. The process that parses begins with this module.
"""

from __future__ import annotations

from typing import IO

LENGTH_BYTES = 8


def read_message(file: IO[bytes]) -> bytes | None:
    """Return the next message, None at the end of the file."""
    head = file.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "big")
    content = file.read(length)
    return content if len(content) == length else None


def write_messages(file: IO[bytes], *messages: bytes) -> None:
    for each in messages:
        file.write(len(each).to_bytes(LENGTH_BYTES, "big"))
        file.write(each)
    file.flush()
