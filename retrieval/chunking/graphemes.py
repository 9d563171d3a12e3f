"""Grapheme clusters: what a reader takes for one character, such as a flag, a family or a letter with its accents."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

import regex

_LONGEST = 64
"""Clusters are known up to this many characters; longer ones exist only on purpose, and may be cut."""
_BLOCK = 256
"""How many places are looked up at a time: about as many as the overlap of two chunks has."""
# Only at such places may a cluster go on: before a character that joins the one before it, or after one that joins.
_MAY_GO_ON = regex.compile(
    r"[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=SM}\p{GCB=V}\p{GCB=T}\p{GCB=RI}\n]"
    r"|(?<=[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=PP}\p{GCB=L}]).",
    regex.DOTALL,
)
_CLUSTER = regex.compile(r"\X")
_FLAGS = regex.compile(r"\p{GCB=RI}{3,}")  # two letters make one flag


class Graphemes:
    """The places in a text where it may be cut without tearing a grapheme cluster."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []
        self._known = range(0)
        """The places whose clusters `_starts` has: those asked for next are mostly close behind the last one."""

    def begin_at(self, place: int) -> bool:
        return self.start(place) == place

    def start(self, place: int) -> int:
        """Return the start of the grapheme cluster that goes on at `place`, `place` itself when none does."""
        if not 0 < place < len(self._text) or not _MAY_GO_ON.match(self._text, place):
            return place
        if place not in self._known:
            first = self._certain_start(max(place - _LONGEST, 0))
            self._known = range(place, place + _BLOCK)
            # In a longer text a match looks back, and far at flags.
            around = self._text[first : place + _BLOCK + _LONGEST]
            self._starts = [first + match.start() for match in _CLUSTER.finditer(around)]
        return self._starts[bisect_right(self._starts, place) - 1]

    def _certain_start(self, place: int) -> int:
        """Return the place, or the one before it when it is between the two letters of a flag."""
        found = bisect_right(self._flags, (place, len(self._text))) - 1
        if found < 0 or place >= self._flags[found][1]:
            return place
        return place - (place - self._flags[found][0]) % 2

    @cached_property
    def _flags(self) -> list[tuple[int, int]]:
        """The spans of several flags in a row: where one begins can only be counted from the first."""
        return [match.span() for match in _FLAGS.finditer(self._text)]
