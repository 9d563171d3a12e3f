"""Which document is which: one document is one document, however it came and whatever release stored it.

A file is known by its source, `<folder>/<path below it>`, whether it is loaded, watched or uploaded. A text that comes
with source S and path P (contract *documents*) is the same document as the file `S/P`.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from uuid import UUID, uuid5

from schemas.where import In, Where

_IDS = UUID("6f2ac9a4-51a5-5d0e-8b0f-1f3c0f6a9e57")  # must never change: stored ids are made from it


def document_id(source: str) -> str:
    """Make the id of a document without one of its own from its source's name for it.

    The same letters are the same name, composed (as most systems write them) or decomposed (as some of Apple's do).
    """
    return str(uuid5(_IDS, one_spelling(source)))


def one_spelling(name: str) -> str:
    """Return a name as it is written when its letters are composed."""
    return unicodedata.normalize("NFC", name)


def stored_name(path: str) -> str:
    """Return the name under which a file is stored that has this path: composed, its parts without blanks around them
    and joined by `/`."""
    parts = (part.strip() for part in one_spelling(path).strip().replace("\\", "/").split("/"))
    return "/".join(part for part in parts if part not in ("", "."))


def repeated_names(paths: Iterable[str]) -> set[str]:
    """Return the paths that name the same document as one before them, though they are spelled otherwise."""
    first: dict[str, str] = {}
    return {path for path in paths if first.setdefault(stored_name(path), path) != path}


def chunk_id(document: str, chunk_index: int) -> str:
    """Make a chunk's id: always the same for the same document and position."""
    return str(uuid5(_IDS, f"{document}\n{chunk_index}"))


def record_id(file: str, title: str, text: str) -> str:
    """Make the id of a record without one of its own."""
    return str(uuid5(_IDS, f"{file}\n{title}\n{text}"))


def text_document_id(source: str, path: str) -> str:
    """Return `md5(source + ":" + path)` in hexadecimal."""
    return hashlib.md5(f"{source}:{path}".encode(), usedforsecurity=False).hexdigest()


def file_ids(source: str) -> tuple[str, ...]:
    """Return the ids under which a file's document may be stored: as a file, by whatever release, and as a text that
    was sent with its source and path."""
    folder, slash, path = source.partition("/")
    texts = (text_document_id(folder, path), text_document_id(folder, f"/{path}")) if slash else ()
    # Releases before 0.3 knew each spelling of a name as a name of its own.
    decomposed = str(uuid5(_IDS, unicodedata.normalize("NFD", source)))
    return tuple(dict.fromkeys((document_id(source), decomposed, *texts)))


def same_file(source: str) -> Where:
    """Select the chunks of a file's document, however it came."""
    return In("document_id", file_ids(source))


def same_text(source: str, path: str) -> Where:
    """Select the chunks of a text's document: as a text, and as the file of that name."""
    return In("document_id", (text_document_id(source, path), document_id(f"{source}/{path.removeprefix('/')}")))
