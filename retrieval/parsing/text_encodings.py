"""The characters of a text file, in whatever common encoding it is."""

from __future__ import annotations

import codecs
import re

from charset_normalizer import from_bytes

from retrieval.parsing.parsed import UnreadableError

BYTE_ORDER_MARKS = {  # UTF-32's begin with UTF-16's
    "utf-8-sig": (codecs.BOM_UTF8,),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_SAMPLE_BYTES = 65_536
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MOST_CONTROLS = 0.005  # share of a text's characters
_NOT_TEXT = "is not a text"


def decoded(content: bytes) -> str:
    """Return the characters of a text file.

    A byte order mark decides, then UTF-8, then what the bytes look like. Raises UnreadableError for what is no text.
    """
    for encoding, marks in BYTE_ORDER_MARKS.items():
        if content.startswith(marks):
            try:
                return _checked(content.decode(encoding))
            except UnicodeDecodeError as error:
                named = encoding.removesuffix("-sig").upper()
                raise UnreadableError(f"is not {named}: byte {error.start} is wrong") from error
    try:
        if b"\0" not in content:
            return _checked(content.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    return _checked(_guessed(content))


def _guessed(content: bytes) -> str:
    """Decode what has no byte order mark and is not UTF-8. With zeros it may only be UTF-16 or UTF-32, in which many
    characters are of one alphabet."""
    sample = content[:_SAMPLE_BYTES]
    best = from_bytes(sample).best()
    if best is None:
        raise UnreadableError(f"{_NOT_TEXT} in a known encoding")
    if b"\0" in content:
        common = sum(character in " etanio\n" for character in sample.decode(best.encoding, errors="replace"))
        if not best.encoding.startswith(("utf_16", "utf_32")) or common * 32 <= len(sample):
            raise UnreadableError(_NOT_TEXT)
    return content.decode(best.encoding, errors="replace")


def _checked(text: str) -> str:
    sample = text[:_SAMPLE_BYTES]
    if "\0" in text or len(_CONTROLS.findall(sample)) > _MOST_CONTROLS * len(sample):
        raise UnreadableError(f"{_NOT_TEXT}: it contains control characters")
    return text
