"""Credentials in texts that are written down: keys of this service, and tokens of identity providers.

They get there by mistake, in a path or as the id of a request.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

Cleaner = Callable[[str], str]
"""Cuts what must not be written down out of a text."""

KEY = re.compile(r"rw_([a-z0-9]{8})_[A-Za-z0-9_-]{43}")
"""The text of a key, with its id."""
# The capital is looked for so far only: a text may have many beginnings of a key, and no capital until its end.
_PIECE = re.compile(r"rw_([a-z0-9]{8})_(?=[a-z0-9_%-]{0,128}+[A-Z])[A-Za-z0-9_%-]{16,}+")
"""What looks like a key that was cut short, or spoilt by an escape. A name may look so, too, if not by chance."""
_CAPITALS = re.compile(r"RW_([A-Z0-9]{8})_[A-Z0-9_-]{43}")
"""A key in capitals, as gunicorn writes the names of headers. What letters it had can be guessed."""
# A run of these characters is tried from its beginning only and never a second time, so a long one takes no longer.
_TOKEN = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]++\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]*+")
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{74,}+={0,2}")
"""What may be a key in Base64, as Basic credentials are, with or without a name before it."""
CUT = "…"
MAX_ESCAPES = 3
"""How often a credential may have been escaped, as in the path of an address, and is still found."""
MARGIN = 512
"""So many characters are read beyond those that are shown. A key is shorter, even one all of whose characters are
escaped `MAX_ESCAPES` times (`%25255F`), so one that begins where it would be shown is read to its end."""


def without_credentials(text: str) -> str:
    """Return a text with the secret parts of keys, and tokens, replaced by `…`. The id of a key stays."""
    if "rw_" in text:
        text = KEY.sub(rf"rw_\1_{CUT}", text)
    return _TOKEN.sub(f"eyJ{CUT}", text) if "eyJ" in text else text


def without_pieces_of_keys(text: str) -> str:
    """Return a text without what may be pieces of keys, and without keys in capitals or in Base64."""
    if "RW_" in text:
        text = _CAPITALS.sub(rf"RW_\1_{CUT}", text)
    text = _ENCODED.sub(_unless_it_holds_a_key, text)
    return _PIECE.sub(rf"rw_\1_{CUT}", text) if "rw_" in text else text


def _unless_it_holds_a_key(found: re.Match[str]) -> str:
    text = found[0].rstrip("=").replace("-", "+").replace("_", "/")
    # It may begin behind others of these characters, such as those of a path.
    return CUT if any(KEY.search(_decoded(text[start:])) for start in range(4)) else found[0]


def _decoded(text: str) -> str:
    whole = text[:-1] if len(text) % 4 == 1 else text
    return base64.b64decode(whole + "=" * (-len(whole) % 4)).decode("latin-1")


def cleaner(secret: str) -> Cleaner:
    """Return what cuts a secret of any form out of a text, if there is one, and then does as `without_credentials`."""
    if not secret:
        return without_credentials
    return lambda text: without_credentials(text.replace(secret, CUT))


def through_escapes(clean: Cleaner) -> Cleaner:
    """Return what does as `clean` does, and finds what is escaped (`rw%5F…`), too: then the text is left unescaped."""

    def cleaned_through(text: str) -> str:
        found = read = clean(text)
        for _ in range(MAX_ESCAPES):
            if "%" not in read:
                break
            read = unquote(read)
            if (left := clean(read)) != read:
                found = read = left
        return found

    return cleaned_through


def thorough(clean: Cleaner) -> Cleaner:
    """Return what does as `through_escapes` does, and as `without_pieces_of_keys`. For texts that nobody takes names
    from."""
    return through_escapes(lambda text: without_pieces_of_keys(clean(text)))


def cleaned_beginning(text: str, most: int, clean: Cleaner) -> str:
    """Return at most the first `most` characters of a cleaned text; of a longer one no more is read than that takes."""
    if len(text) <= most + MARGIN:
        return clean(text)[:most]
    # What is read last may be a key that is cut in two, which cleaning does not know.
    return clean(text[: most + MARGIN])[:-MARGIN][:most]


def cleaned(value: Any, clean: Cleaner) -> Any:
    """Return a JSON value with all its texts cleaned, the names of its objects too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(name, clean): cleaned(each, clean) for name, each in value.items()}
    return [cleaned(each, clean) for each in value] if isinstance(value, list | tuple) else value
