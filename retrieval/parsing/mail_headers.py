"""What headers of mails say, in whatever encoding: encoded words, raw bytes, names of files."""

from __future__ import annotations

import binascii
import quopri
import re
from contextlib import suppress
from email import message_from_bytes
from email.message import Message
from email.policy import Compat32

from retrieval.parsing.declared_encodings import decoded_as
from retrieval.parsing.parsed import UnreadableError, collapsed

Mail = Message
_MOST_PARAMETERS = 4_000  # characters: the standard library's time for them grows with their square
_STRUCTURED = frozenset(("content-type", "content-disposition"))
_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bq])\?([^?]*(?:\?(?!=)[^?]*){0,3})\?=", re.I)


class _AsWritten(Compat32):
    """Gives headers as they are written: the standard library reads them by Python's names of encodings."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value[:_MOST_PARAMETERS] if name.lower() in _STRUCTURED else value


_AS_WRITTEN = _AsWritten()


def read_mail(content: bytes) -> Mail:
    """Return a mail. Raises UnreadableError for parts within parts some hundred deep."""
    try:
        return message_from_bytes(content, policy=_AS_WRITTEN)
    except RecursionError as error:
        raise UnreadableError("is nested too deeply") from error


def header(mail: Mail, name: str) -> str:
    """Return what a header says on one line, "" without it."""
    written = mail.get(name)
    return _read(written, mail.get_content_charset() or "") if isinstance(written, str) else ""


def file_name(part: Mail) -> str:
    """Return the name of an attached file without folders, "" when it has none."""
    named = None
    with suppress(ValueError, TypeError, IndexError):  # what the standard library raises for some that are broken
        named = part.get_param("filename", None, "content-disposition") or part.get_param("name", None)
    if isinstance(named, tuple):
        label, _, written = named
        read = _characters(written.encode("latin-1", "surrogateescape"), label or "utf-8")
    else:
        read = _read(named or "", "")
    return collapsed(read).replace("\\", "/").rpartition("/")[2]


def _read(written: str, label: str) -> str:
    """Read encoded words, and raw bytes as UTF-8 or by the label of the text."""
    if not written.isascii():
        raw = written.encode("utf-8", "surrogateescape")
        try:
            written = raw.decode("utf-8")
        except UnicodeDecodeError:
            written = _characters(raw, label)
    parts: list[str] = []
    data, known, end = b"", "", 0
    for found in _ENCODED_WORD.finditer(written):
        between = written[end : found.start()]
        word = _word(found[2].lower(), found[3])
        named = found[1].partition("*")[0].lower()
        if not end or between.strip() or named != known:  # else a character may be divided between two words
            parts += [_characters(data, known), between if not end or between.strip() else ""]
            data = b""
        data, known, end = data + word, named, found.end()
    return collapsed("".join((*parts, _characters(data, known), written[end:])))


def _word(encoding: str, written: str) -> bytes:
    content = written.encode("utf-8")
    if encoding == "q":
        return quopri.decodestring(content, header=True)
    try:
        return binascii.a2b_base64(content + b"==")
    except binascii.Error:
        return content


def _characters(content: bytes, label: str) -> str:
    try:
        return decoded_as(content, label) if content else ""
    except UnreadableError:
        return content.decode("utf-8", "replace")
