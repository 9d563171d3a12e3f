"""E-mails and mailboxes: the text parts, with who wrote to whom; attachments are only named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import partial
from typing import Any

from retrieval.parsing.html_pages import body_blocks
from retrieval.parsing.parsed import (
    EMPTY,
    MarkdownText,
    Parsed,
    UnreadableError,
    collapsed,
    escaped,
    heading,
    listed,
    told,
)
from retrieval.parsing.text_encodings import decoded

_HEADERS = ("From", "To", "Cc", "Date")
_MESSAGE_START = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n")
_QUOTED_START = re.compile(rb"^>(>*From )", re.MULTILINE)


def parse_email(content: bytes) -> Parsed:
    """Return one mail. Its title is its subject."""
    message = _message(content)
    if not any(message[name] for name in (*_HEADERS, "Subject", "Message-ID", "Content-Type")):
        raise UnreadableError("is not an e-mail: it has no headers")
    document, attachments = MarkdownText(), list[str]()
    body = list(_body(message, attachments))
    if not any(each.strip() for each in body):
        raise UnreadableError("contains no text", EMPTY)
    subject = _header(message, "Subject")
    _add_mail(document, message, subject, body)
    return document.parsed(subject or None, told(_header(message, "From")), warnings=_named(attachments))


def parse_mbox(content: bytes) -> Parsed:
    """Return the mails of a mailbox, each a section."""
    starts = list(_MESSAGE_START.finditer(content))
    if not starts or starts[0].start() != 0:
        raise UnreadableError("is not a mailbox: it does not begin with 'From '")
    ends = [found.start() for found in starts[1:]] + [len(content)]
    document, attachments = MarkdownText(), list[str]()
    for found, end in zip(starts, ends, strict=True):
        message = _message(_QUOTED_START.sub(rb"\1", content[found.end() : end]))
        _add_mail(document, message, _header(message, "Subject"), list(_body(message, attachments)))
    return document.parsed(warnings=_named(attachments))


def _message(content: bytes) -> EmailMessage:
    message = message_from_bytes(content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    return message


def _header(message: EmailMessage, name: str) -> str:
    return _told(partial(message.get, name))


def _told(read: Callable[[], object]) -> str:
    """Return what a header says, "" where it is broken: the standard library raises one of many errors then."""
    try:
        return collapsed(str(read() or ""))
    except (ValueError, TypeError, IndexError, AttributeError, LookupError):
        return ""


def _add_mail(document: MarkdownText, message: EmailMessage, subject: str, body: list[str]) -> None:
    document.add(heading(1, subject or "(no subject)"))
    headers = ((name, _header(message, name)) for name in _HEADERS)
    document.add("\n".join(f"{name}: {value}" for name, value in headers if value))
    document.add(*body)


def _body(message: EmailMessage, attachments: list[str]) -> Iterator[str]:
    """Yield the blocks of the text parts; of alternatives the one in HTML only where there is no plain text."""
    parts = [part for part in message.walk() if not part.is_multipart()]
    attached = {part for part in parts if _told(part.get_content_disposition) == "attachment"}
    has_plain = any(part.get_content_type() == "text/plain" and part not in attached for part in parts)
    for part in parts:
        kind = part.get_content_type()
        if part in attached or not kind.startswith("text/"):
            name = _told(part.get_filename).rpartition("/")[2].rpartition("\\")[2]
            attachments.append(name or kind)
        elif kind == "text/html":
            if not has_plain:
                with suppress(UnreadableError):
                    yield from body_blocks(_characters(part))
        else:
            yield from (escaped(block) for block in re.split(r"\n[ \t]*\n", _characters(part).replace("\r\n", "\n")))


def _characters(part: Any) -> str:
    content = part.get_payload(decode=True) or b""
    try:
        return str(content.decode(part.get_content_charset() or "utf-8"))
    except (LookupError, UnicodeError, ValueError):
        try:
            return decoded(content)
        except UnreadableError:
            return ""


def _named(attachments: list[str]) -> list[str]:
    return [f"Attachments are left out: {listed(attachments)}"] if attachments else []
