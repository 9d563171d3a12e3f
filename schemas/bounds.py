"""The bounds of one request, whatever it asks for, and of a text in an index."""

import hashlib

MAX_PAGE = 1_000
DEFAULT_PAGE = 100
MAX_OFFSET = 2**53
MAX_TOP_K = 1_000
DEFAULT_TOP_K = 3
MAX_RESULTS = 100
DEFAULT_RESULTS = 10
DEFAULT_GROUP = 100
MAX_IDS = 10_000
"""The most ids that one request may name; a filter has room for as many values."""
BOUNDED_CHARACTERS = 256


def bounded(text: str) -> str:
    """Shorten a text to what fits into an index, which has no room for long ones.

    A text of at most `BOUNDED_CHARACTERS` is returned as it is, a longer one as its beginning and digest. The result is
    then longer than any text returned as it is, so the two are never confused.
    """
    if len(text) <= BOUNDED_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text[: BOUNDED_CHARACTERS + 1 - len(digest)] + digest
