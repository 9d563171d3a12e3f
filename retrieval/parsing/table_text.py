"""Tables of all kinds of files, written as Markdown: one way for merged labels, ticks, titles above tables, and cells
that hold several blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile

from retrieval.parsing.parsed import collapsed, escaped

TICKED, UNTICKED = "[x]", "[ ]"
"""A box of a form, whatever drew it."""
_MOST_NOTES = 3
_ROWS_LOOKED_AT = 20  # for a header, below lines of titles


def one_line(blocks: Iterable[str]) -> str:
    """Return the blocks of a cell, such as paragraphs and items of a list, on one line: a row of Markdown is a line."""
    return " ".join(line for block in blocks if (line := collapsed(block)))


def fill_spans(rows: list[list[str]], spans: Iterable[tuple[int, int, int]]) -> None:
    """Let a label that was merged over rows stand in each of them.

    A span is (row, column, number of rows), from 0. Cells that have a text of their own keep it.
    """
    for row, column, count in spans:
        if row >= len(rows) or column >= len(rows[row]):
            continue
        for below in rows[row + 1 : row + count]:
            below += [""] * (column + 1 - len(below))
            below[column] = below[column] or rows[row][column]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a pipe table whose first row is its header; "" without cells. Short rows are filled up."""
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    filled = ([*row, *[""] * (width - len(row))] for row in rows)
    lines = ["| " + " | ".join(collapsed(cell).replace("|", "\\|") for cell in row) + " |" for row in filled]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def sheet_blocks(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the tables of a sheet, and the lines of text around them.

    Empty rows divide tables, unless what follows goes on with the table above. The header of a table is its first row
    that is as wide as the table; lines above it are text, as are cells that stand alone. Without such a table, as in a
    sheet of one column, all rows are one.
    """
    pieces = [list(group) for is_filled, group in groupby(rows, key=any) if is_filled]
    if not any(map(_is_table, pieces)):
        return [_compact([row for piece in pieces for row in piece])] if pieces else []
    blocks: list[str] = []
    header: Sequence[str] = ()
    current: list[Sequence[str]] = []
    for piece in pieces:
        if header and _goes_on(header, current, piece):
            current += piece if current else [header, *piece]
            continue
        blocks.append(_compact(current))
        current = piece[_header(piece) :] if _is_table(piece) else []
        blocks += _lines(piece[: len(piece) - len(current)])
        header = current[0] if current else header
        notes = _notes(current)
        if notes:
            blocks += [_compact(current[:-notes]), *_lines(current[-notes:])]
            current = []
    return [block for block in (*blocks, _compact(current)) if block]


def _is_table(piece: Sequence[Sequence[str]]) -> bool:
    return sum(_filled(row) > 1 for row in piece) > 1


def _header(piece: Sequence[Sequence[str]]) -> int:
    """Return which row of a table is its header. A corner may be empty, and most rows, but not all, are as wide."""
    wide = [row for row in piece if _filled(row) > 1]
    start = min(map(_start, wide))
    end, filled = (sorted(map(measure, wide))[len(wide) * 3 // 4] for measure in (_end, _filled))
    for at, row in enumerate(piece[:_ROWS_LOOKED_AT]):
        count = _filled(row)
        is_wide = count >= max(3, filled - 1) or (_end(row) >= end and 2 * count >= filled)
        is_wide = is_wide or (2 * count > filled and not any(map(_is_number, row)))
        if is_wide and (count > 1 or _start(row) > start):
            return at
    return 0


def _notes(rows: Sequence[Sequence[str]]) -> int:
    """Return how many lines of text stand right below a table; more of them are rows that nobody has filled in."""
    if len(rows) < 2 or _filled(rows[0]) < 3:
        return 0
    notes = sum(1 for _ in takewhile(lambda row: _filled(row) == 1 and _start(row) == _start(rows[0]), reversed(rows)))
    return notes if notes <= _MOST_NOTES else 0


def _goes_on(header: Sequence[str], above: Sequence[Sequence[str]], piece: Sequence[Sequence[str]]) -> bool:
    """Return whether rows below an empty one belong to the table above: they fit below its header, and the first has
    numbers where that has none, or a word of the last rows above, or is alone."""
    first = next((row for row in piece if _filled(row) > 1), None)
    if first is None or any(_end(row) > _end(header) or _start(row) < _start(header) for row in piece):
        return False
    if any(_is_number(cell) and not _is_number(name) for cell, name in zip(first, header, strict=False)):
        return True
    words = {each for row in above[max(len(above) - _ROWS_LOOKED_AT, 1) :] for each in enumerate(row) if each[1]}
    return bool(above) and (len(piece) == 1 or not words.isdisjoint(enumerate(first)))


def _filled(row: Sequence[str]) -> int:
    return len(row) - row.count("")


def _start(row: Sequence[str]) -> int:
    return next(at for at, cell in enumerate(row) if cell)


def _end(row: Sequence[str]) -> int:
    return next(at for at in range(len(row), 0, -1) if row[at - 1])


def _is_number(cell: str) -> bool:
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))


def _compact(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table, without empty columns."""
    used = sorted({at for row in rows for at, cell in enumerate(row) if cell})
    return table([[row[at] if at < len(row) else "" for at in used] for row in rows])


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    return [escaped(one_line(row)) for row in rows]
