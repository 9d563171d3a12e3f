"""Grapheme clusters: what a reader takes for one character, such as a flag, a family or a letter with its accents."""

from __future__ import annotations

import regex

_LONGEST = 64
"""Clusters are known up to this many characters; longer ones exist only on purpose, and may be cut."""
# Only at such places may a cluster go on: before a character that joins the one before it, or after one that joins.
_MAY_GO_ON = regex.compile(
    r"[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=SM}\p{GCB=V}\p{GCB=T}\p{GCB=RI}\n]"
    r"|(?<=[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=PP}\p{GCB=L}]).",
    regex.DOTALL,
)
_CLUSTER = regex.compile(r"\X")
_FLAG_LETTERS = regex.compile(r"(?r)\p{GCB=RI}*")


def starts_grapheme(text: str, place: int) -> bool:
    """Return whether a text may be cut at a place without tearing a grapheme cluster."""
    return grapheme_start(text, place) == place


def grapheme_start(text: str, place: int) -> int:
    """Return the start of the grapheme cluster that goes on at `place`, `place` itself when none does."""
    if not 0 < place < len(text) or not _MAY_GO_ON.match(text, place):
        return place
    # A cluster's start is certain after a character that never joins the next; flags are counted from the first letter.
    earliest = max(place - _LONGEST, 0)
    start = _FLAG_LETTERS.match(text, 0, earliest).start()
    while start < place:
        end = _CLUSTER.match(text, start).end()
        if end > place:
            return start
        start = end
    return place
