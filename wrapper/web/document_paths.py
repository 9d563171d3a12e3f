"""Document ids in paths, and the words that cannot be ids there."""

from __future__ import annotations

import re

from werkzeug.routing import PathConverter

WORDS = ("count", "search", "all")
"""Routes below `documents`, which are not taken for ids there."""
WORD_IN_PLACE_OF_ID = re.compile(rf"/collections/[^/]+/documents/({'|'.join(WORDS)})")


class DocumentId(PathConverter):
    """Any id, slashes too, except the words that are routes of their own."""

    regex = rf"(?!(?:{'|'.join(WORDS)})\Z)[\s\S]+"
    part_isolating = False


def hint(path: str) -> str:
    """Return a sentence for a caller that meant a document by the path of a route, empty for other paths."""
    found = WORD_IN_PLACE_OF_ID.fullmatch(path)
    if found is None:
        return ""
    return (
        f"A document with the id '{found[1]}' is read and deleted by ids: "
        f'POST …/documents/search or DELETE …/documents with {{"ids": ["{found[1]}"]}}. POST …/documents replaces it'
    )
