"""The characters of a text that declares its encoding, as web pages, books and mails do."""

from __future__ import annotations

import codecs
import re

import webencodings

from retrieval.parsing.parsed import UnreadableError
from retrieval.parsing.text_encodings import BYTE_ORDER_MARKS, decoded

_WIDER = {  # than Python's codecs of these names, as in browsers
    "gbk": "gb18030",
    "iso2022_jp": "iso2022_jp_ext",
    "x-user-defined": "cp1252",
}
_IN_OLD_MAILS = re.compile(r"cp\d+|hz|iso2022_kr|johab|mac-\w+|utf-7")  # which browsers do not know
_JAPANESE = ("euc_jp", "iso2022_jp_ext")
_FROM_ROWS = "rows of cp932"


def decoded_as(content: bytes, label: str) -> str:
    """Return the characters of a text that declares its encoding, by the labels of browsers: gb2312 is GB18030.

    A byte order mark decides, and an unknown label says nothing: see `decoded`. What does not fit its label, or is said
    to be Latin-1 or ASCII as by default, is UTF-8 if it can be; else wrong bytes become U+FFFD. Raises UnreadableError
    for what is no text, if its label says nothing.
    """
    codec = _codec(label)
    if codec is None or any(content.startswith(marks) for marks in BYTE_ORDER_MARKS.values()):
        return decoded(content)
    if codec.startswith("utf-16") and b"\0" not in content:
        return decoded(content)
    text = content.decode(codec, _FROM_ROWS if codec in _JAPANESE else "replace")
    replaced = text.count("\ufffd")
    if not replaced and codec != "cp1252":
        return text
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if replaced and codec == "utf-8" and replaced * 2 > sum(not character.isascii() for character in text):
        try:  # hardly any of it is what it is said to be
            return decoded(content)
        except UnreadableError:
            pass
    return text


def _codec(label: str) -> str | None:
    """Return the name of the codec for a label; None when nobody knows it."""
    known = webencodings.lookup(label)
    if known and known.name != "replacement":
        return _WIDER.get(known.codec_info.name, known.codec_info.name)
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    return name if _IN_OLD_MAILS.fullmatch(name) else None


def _from_rows(error: UnicodeError) -> tuple[str, int]:
    """Read two bytes of Japanese by the rows that Windows has and the standards do not: ① ㈱ 髙."""
    assert isinstance(error, UnicodeDecodeError)
    pair = error.object[error.start : error.start + 2]
    if len(pair) == 2 and all(0x21 <= each & 0x7F <= 0x7E for each in pair) and (pair[0] ^ pair[1]) < 0x80:
        row, column = (each & 0x7F for each in pair)
        lead = (row - 0x21) // 2 + (0x81 if row < 0x5F else 0xC1)
        trail = column + ((0x1F if column < 0x60 else 0x20) if row % 2 else 0x7E)
        read = bytes((lead, trail)).decode("cp932", "replace")
        if "\ufffd" not in read:
            return read, error.start + 2
    return "\ufffd", error.start + 1


codecs.register_error(_FROM_ROWS, _from_rows)
