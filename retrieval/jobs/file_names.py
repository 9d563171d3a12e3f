"""The names under which files are uploaded."""

from __future__ import annotations

import re
import unicodedata

from retrieval.ingest.identity import stored_name
from schemas.contracts.jobs import RefusedFileError

INVALID_NAME = "invalid_name"
MAX_NAME_CHARACTERS = 500
_NOT_IN_NAMES = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")
_TURNS_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
_DRIVE = re.compile(r"[A-Za-z]:")


def checked_name(given: str) -> str:
    """Return the name of a document for a file name, which may be a relative path: in NFC, its parts joined by `/`.

    Raises RefusedFileError for a name that leads out of a folder, that cannot be shown, or that is none.
    """
    name = unicodedata.normalize("NFC", given).strip().replace("\\", "/")
    if len(name) > MAX_NAME_CHARACTERS:
        raise _refused(f"has more than {MAX_NAME_CHARACTERS} characters")
    if any(unicodedata.category(each) in _NOT_IN_NAMES for each in name) or _TURNS_DIRECTION.search(name):
        raise _refused("has characters that cannot be shown")
    if name.startswith("/") or _DRIVE.match(name):
        raise _refused("is an absolute path: give it relative to a folder")
    name = stored_name(name)
    if not name:
        raise _refused("is blank")
    if ".." in name.split("/"):
        raise _refused("leads out of its folder")
    return name


def shown_name(given: str) -> str:
    """Return any name so that it can be shown, in a header too."""
    return "".join(each if each.isprintable() else "\ufffd" for each in given[:MAX_NAME_CHARACTERS])


def _refused(reason: str) -> RefusedFileError:
    return RefusedFileError(f"The name {reason}", code=INVALID_NAME)
