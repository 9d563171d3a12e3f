"""Tables of Markdown: read by lines, and the header that a chunk repeats which begins further down in one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markdown_it.rules_block import StateBlock, table

HEADER_LINES = 2  # the header row, and the delimiter row below it
_HEADER_PART = 2  # a header that takes more than half of a chunk is not repeated


@dataclass(frozen=True, slots=True)
class Table:
    """The places of a table in its text: `start`, the first row below the header, and the end."""

    start: int
    body: int
    end: int


def read_table(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Read a table as the parser's own rule does, but as one token: nobody asks for its cells.

    A row that begins with a pipe cannot be anything else, so a table of a hundred thousand rows is read in no time.
    """
    if not table(state, start_line, end_line, True):
        return False
    if silent:
        return True
    parent_type, state.parentType = state.parentType, "table"
    rules = state.md.block.ruler.getRules("blockquote")
    line = start_line + HEADER_LINES
    while line < end_line and state.sCount[line] >= state.blkIndent:
        begins = state.bMarks[line] + state.tShift[line]
        if begins >= state.eMarks[line] or state.is_code_block(line):
            break
        if state.src[begins] != "|" and any(rule(state, line, end_line, True) for rule in rules):
            break
        line += 1
    token = state.push("table", "table", 0)
    token.map = [start_line, line]
    state.parentType = parent_type
    state.line = line
    return True


class TableHeaders:
    """The headers of a text's tables, counted by `count`. `limit` is the tokens that a chunk may have: a header of more
    than half of it is neither repeated nor kept in one piece."""

    def __init__(self, text: str, tables: Sequence[Table], count: Callable[[str], int]) -> None:
        self._tables = tables
        self._texts = [text[each.start : each.body] for each in tables]
        self._tokens = [count(header) for header in self._texts]
        self._bodies = [each.body for each in tables]

    def above(self, place: int, limit: int) -> str:
        """Return the header of the table in whose rows a chunk begins, with its line ends; "" elsewhere."""
        found = self._repeated(place, limit)
        return "" if found is None else self._texts[found]

    def tokens_above(self, place: int, limit: int) -> int:
        found = self._repeated(place, limit)
        return 0 if found is None else self._tokens[found]

    def hold(self, place: int, limit: int) -> bool:
        """Return whether a cut at a place would tear a header, or part it from its first row."""
        found = bisect_left(self._bodies, place)
        return found < len(self._bodies) and self._tables[found].start < place and self._is_short(found, limit)

    def _repeated(self, place: int, limit: int) -> int | None:
        found = bisect_right(self._bodies, place) - 1
        return found if found >= 0 and place < self._tables[found].end and self._is_short(found, limit) else None

    def _is_short(self, index: int, limit: int) -> bool:
        return self._tokens[index] <= limit // _HEADER_PART
