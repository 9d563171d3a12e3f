"""E-mails and mailboxes: the text parts, with who wrote to whom; attachments are only named."""

from __future__ import annotations

import binascii
import re
from contextlib import suppress
from dataclasses import dataclass, field

from retrieval.parsing.declared_encodings import decoded_as
from retrieval.parsing.html_pages import HIDDEN_PASSAGES, characters, seen_blocks
from retrieval.parsing.mail_headers import Mail, file_name, header, read_mail
from retrieval.parsing.mail_texts import invitation, unflowed, without_armour
from retrieval.parsing.parsed import (
    EMPTY,
    ENCRYPTED,
    MarkdownText,
    Parsed,
    UnreadableError,
    escaped,
    heading,
    listed,
    losses,
    told,
)

_HEADERS = ("From", "To", "Cc", "Date")
_MESSAGE_START = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n")
_QUOTED_START = re.compile(rb"^>(>*From )", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n[ \t]*\n")
_MESSAGES = frozenset(("message/rfc822", "message/global", "message/news"))
_REPORTS = frozenset(("message/delivery-status", "message/disposition-notification"))
_SIGNATURES = frozenset(("application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"))
_ENVELOPES = frozenset(("application/pkcs7-mime", "application/x-pkcs7-mime"))
_OUTLOOK = frozenset(("application/ms-tnef", "application/vnd.ms-tnef"))
_NO_TEXTS = frozenset(("text/css", "text/directory", "text/rtf", "text/vcard", "text/x-amp-html", "text/x-vcard"))
_STUB_CHARACTERS = 400
_MORE_THAN_A_STUB = 4  # times as long


@dataclass(slots=True)
class _Reading:
    """What has been read of a mail or a mailbox, and what was left out."""

    document: MarkdownText = field(default_factory=MarkdownText)
    has_text: bool = False
    attachments: list[str] = field(default_factory=list)
    encrypted: int = 0
    hidden: int = 0

    def add(self, blocks: list[str]) -> None:
        self.has_text |= any(each.strip() for each in blocks)
        self.document.add(*blocks)

    @property
    def warnings(self) -> list[str]:
        return losses(
            ("Attachments are left out: {}", listed(self.attachments)),
            ("Encrypted parts are left out: {}", self.encrypted),
            (HIDDEN_PASSAGES, self.hidden),
        )


def parse_email(content: bytes) -> Parsed:
    """Return one mail. Its title is its subject."""
    mail = read_mail(content)
    if not any(mail[name] for name in (*_HEADERS, "Subject", "Message-ID", "Content-Type")):
        raise UnreadableError("is not an e-mail: it has no headers")
    reading = _Reading()
    _read(reading, mail)
    if not reading.has_text:
        if reading.encrypted:
            raise UnreadableError("is encrypted", ENCRYPTED)
        named = listed([each.replace("/", " ") for each in reading.attachments], 3)
        raise UnreadableError(f"contains no text{', only attachments: ' if named else ''}{named[:100]}", EMPTY)
    return reading.document.parsed(
        header(mail, "Subject") or None, told(header(mail, "From")), warnings=reading.warnings
    )


def parse_mbox(content: bytes) -> Parsed:
    """Return the mails of a mailbox, each a section."""
    starts = list(_MESSAGE_START.finditer(content))
    if not starts or starts[0].start() != 0:
        raise UnreadableError("is not a mailbox: it does not begin with 'From '")
    ends = [found.start() for found in starts[1:]] + [len(content)]
    reading = _Reading()
    for found, end in zip(starts, ends, strict=True):
        _read(reading, read_mail(_QUOTED_START.sub(rb"\1", content[found.end() : end])))
    return reading.document.parsed(warnings=reading.warnings)


def _read(reading: _Reading, mail: Mail) -> None:
    """Read the headers and all text parts of a mail; of alternatives one; mails in it are sections of their own."""
    _add_headers(reading, mail, 1)
    waiting = [(mail, 1, True)]  # parts, how deep they are, and whether their texts are read
    while waiting:
        part, depth, is_read = waiting.pop()
        kind, parts = part.get_content_type(), _parts(part)
        if kind in _MESSAGES and parts:
            inner = _unpacked(part, parts[0])
            _add_headers(reading, inner, depth + 1)
            waiting.append((inner, depth + 1, True))
        elif kind == "multipart/encrypted":
            reading.encrypted += 1
        elif kind in _REPORTS:
            reading.add([_fields(each) for each in parts])
        elif not part.is_multipart() or kind.startswith("message/"):
            _add_part(reading, part, kind, is_read)
        elif kind == "multipart/alternative" and is_read:
            chosen = _chosen(parts)
            for each in reversed(parts):
                if each is chosen or each.get_content_type() == "text/calendar":
                    waiting.append((each, depth, True))
                elif each.is_multipart():
                    waiting.append((each, depth, False))  # for its attachments
        else:
            waiting += [(each, depth, is_read) for each in reversed(parts)]


def _add_headers(reading: _Reading, mail: Mail, depth: int) -> None:
    reading.document.add(heading(depth, header(mail, "Subject") or "(no subject)"))
    headers = ((name, header(mail, name)) for name in _HEADERS)
    reading.document.add("\n".join(f"{name}: {value}" for name, value in headers if value))


def _add_part(reading: _Reading, part: Mail, kind: str, is_read: bool) -> None:
    """Read a part that has no parts, or name it."""
    is_envelope = kind in _ENVELOPES and "signed" not in str(part.get_param("smime-type", ""))
    if is_envelope or kind in _SIGNATURES:
        reading.encrypted += is_envelope
    elif not _is_text(part, kind) or (not is_read and file_name(part)):
        note = " (of Outlook, which may hold text and files)" if kind in _OUTLOOK else ""
        reading.attachments.append(f"{file_name(part) or kind}{note}")
    elif kind == "text/html" and is_read:
        with suppress(UnreadableError):
            blocks, hidden = seen_blocks(_html(part))
            reading.add(blocks)
            reading.hidden += hidden
    elif kind == "text/calendar":
        reading.add(list(map(escaped, invitation(_text(part), with_description=not reading.has_text))))
    elif is_read:
        text, encrypted = without_armour(_text(part))
        if str(part.get_param("format", "")).lower() == "flowed":
            text = unflowed(text, delete_space=str(part.get_param("delsp", "")).lower() == "yes")
        reading.encrypted += encrypted
        reading.add([escaped(block) for block in _EMPTY_LINES.split(text)])


def _chosen(parts: list[Mail]) -> Mail | None:
    """Return which alternative is read: the plain text, unless it is blank or only says that there is another."""
    plain = next((part for part in parts if part.get_content_type() == "text/plain"), None)
    rich = next((part for part in parts if part.is_multipart() or part.get_content_type() == "text/html"), None)
    if plain is None or rich is None:
        return plain or rich or (parts[0] if parts else None)
    length = len(_text(plain).strip())
    if length > _STUB_CHARACTERS:
        return plain
    page, shown = next((each for each in rich.walk() if each.get_content_type() == "text/html"), None), 0
    if page is not None:
        with suppress(UnreadableError):
            shown = sum(map(len, seen_blocks(_html(page))[0]))
    return rich if shown > length * _MORE_THAN_A_STUB else plain


def _is_text(part: Mail, kind: str) -> bool:
    return kind.startswith("text/") and kind not in _NO_TEXTS and part.get_content_disposition() != "attachment"


def _parts(part: Mail) -> list[Mail]:
    payload = part.get_payload()
    return [each for each in payload if isinstance(each, Mail)] if isinstance(payload, list) else []


def _unpacked(part: Mail, inner: Mail) -> Mail:
    """Return a mail in a mail; some programs encode it, which no standard allows."""
    payload = inner.get_payload()
    if str(part.get("Content-Transfer-Encoding", "")).strip().lower() == "base64" and isinstance(payload, str):
        with suppress(binascii.Error, ValueError):
            return read_mail(binascii.a2b_base64(payload))
    return inner


def _fields(report: Mail) -> str:
    """Return the headers of a part of a report, such as why a mail was not delivered."""
    return escaped("\n".join(f"{name}: {header(report, name)}" for name in dict.fromkeys(report.keys())))


def _html(part: Mail) -> str:
    content = _bytes(part)
    label = part.get_content_charset()
    return decoded_as(content, label) if label else characters(content)


def _text(part: Mail) -> str:
    content = _bytes(part)
    try:
        return decoded_as(content, part.get_content_charset() or "").replace("\r\n", "\n")
    except UnreadableError:
        return ""


def _bytes(part: Mail) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""
