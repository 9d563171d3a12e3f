"""Columns of running text that a program drew row by row: the gap between them is found, and they are read in order.

What is no running text stays as it is: rows of a table without lines, a form, a table of contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from retrieval.parsing.pdf.page_lines import Line
from retrieval.parsing.pdf.page_text import GAP, Word

_LETTERS = 0.5  # of a letter's height: the average width of a letter
_SPACE = 0.15  # of a letter's height, at least, between words
_FEWEST_ROWS = 3
_MOST_COLUMNS = 4
_COLUMN_CHARACTERS = 20  # of a line in a column of text
_FILLED = 0.6  # of its column's width a line has, as most lines
_ALIKE = 0.6  # width of the narrower column, in that of the wider
_FLOWING = 0.4  # share of lines that go on in the next one

Row = Sequence[Word]


def is_in_columns(rows: Sequence[Row], size: float) -> bool:
    """Return whether these rows, some of a page, have gaps as if there were columns. size: of letters, in points."""
    return 2 * sum(any(_gaps(row, size)) for row in rows) >= len(rows) > 0


def are_beside(lines: Sequence[Line], size: float) -> bool:
    """Return whether lines of a page stand beside those before them: columns, or lines that PDFium has cut."""
    beside = (abs(one.y - other.y) <= size * _LETTERS and other.x > one.x for one, other in pairwise(lines))
    return sum(beside) >= _FEWEST_ROWS


def rejoined(rows: Sequence[Row], size: float) -> list[Row]:
    """Return rows in which those are one that go on at the same height: PDFium cuts up what is not in its direction."""
    done: list[list[Word]] = []
    for row in rows:
        above = done[-1][-1] if done else None
        space = row[0].x0 - above.x1 if above and abs(above.y - row[0].y) < 1 else size
        if above and -1 < space < size * _LETTERS:
            done[-1][-1] = replace(above, text=above.text.rstrip() + " " * (space > size * _SPACE))
            done[-1] += row
        else:
            done.append(list(row))
    return list(done)


def by_columns(rows: Sequence[Row], size: float) -> list[Row]:
    """Return the rows of a page, those that run over several columns cut and in the order in which people read."""
    pieces = [piece for row in rows for piece in _pieces(row, size)]
    ordered = _ordered(pieces, size, 1)
    return list(rows) if ordered == pieces else ordered


def _gaps(row: Row, size: float) -> Iterator[int]:
    """Yield before which words of a row there is a wide gap."""
    for index in range(1, len(row)):
        if row[index].x0 - row[index - 1].x1 >= GAP * size:
            yield index


def _pieces(row: Row, size: float) -> Iterator[Row]:
    start = 0
    for index in _gaps(row, size):
        yield row[start:index]
        start = index
    yield row[start:]


def _ordered(pieces: list[Row], size: float, columns: int) -> list[Row]:
    """Return pieces of lines column by column between those that run over the page."""
    middle = _gap_between(pieces, size)
    if middle is None or columns == _MOST_COLUMNS:
        return pieces
    done: list[Row] = []
    run: list[Row] = []
    for piece in pieces:
        if piece[0].x0 < middle < piece[-1].x1:
            done += _columns(run, middle, size, columns)
            done.append(piece)
            run = []
        else:
            run.append(piece)
    return done + _columns(run, middle, size, columns)


def _columns(run: list[Row], middle: float, size: float, columns: int) -> list[Row]:
    left, right = ([row for row in run if (row[0].x0 < middle) is is_left] for is_left in (True, False))
    ordered = [_ordered(side, size, columns + 1) for side in (left, right)]
    divided = [after != before for after, before in zip(ordered, (left, right), strict=True)]
    if not all(was_divided or _is_text(side) for was_divided, side in zip(divided, (left, right), strict=True)):
        return run
    narrow, wide = sorted(max(row[-1].x1 for row in side) - min(row[0].x0 for row in side) for side in (left, right))
    return [*ordered[0], *ordered[1]] if any(divided) or narrow >= _ALIKE * wide else run


def _gap_between(pieces: Sequence[Row], size: float) -> float | None:
    """Return the place that lies in most of the gaps between two pieces of one row; None without gaps."""
    ends: list[tuple[float, int]] = []
    for one, other in pairwise(pieces):
        if abs(one[0].y - other[0].y) <= size * _LETTERS and other[0].x0 - one[-1].x1 >= GAP * size:
            ends += [(one[-1].x1, 1), (other[0].x0, -1)]
    depth, most, start, middle = 0, 0, 0.0, None
    for place, step in sorted(ends):
        if step < 0 and depth > most:
            most, middle = depth, (start + place) / 2
        depth, start = depth + step, place
    return middle if most >= _FEWEST_ROWS else None


def _is_text(side: Sequence[Row]) -> bool:
    """Return whether lines below each other are running text: long, as wide as their column, and going on."""
    if len(side) < _FEWEST_ROWS:
        return False
    texts = ["".join(word.text for word in row).strip() for row in side]
    widths = sorted(row[-1].x1 - row[0].x0 for row in side)
    typical = len(widths) // 2
    flowing = sum(
        above[-1:] not in ".!?:;" and below[:1].isalpha() and not below[:1].isupper()
        for above, below in pairwise(texts)
    )
    return (
        sorted(map(len, texts))[typical] >= _COLUMN_CHARACTERS
        and widths[typical] >= _FILLED * (max(row[-1].x1 for row in side) - min(row[0].x0 for row in side))
        and flowing >= _FLOWING * (len(side) - 1)
    )
