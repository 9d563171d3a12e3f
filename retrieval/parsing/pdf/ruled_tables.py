"""Tables whose cells are divided by lines: where they are on a page, and what stands in their cells."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from retrieval.parsing.pdf.page_lines import Line, Table
from retrieval.parsing.pdf.page_text import PageText, Word, shown
from retrieval.parsing.pdf.rules import NEAR, Drawn, Rule
from retrieval.parsing.table_text import fill_spans

_MAX_CELLS, _MAX_GRIDS = 20_000, 50
_FILLED = 0.4  # share of cells that have a text; a chart has less
_RULED = 0.6  # share of the edges of cells that are drawn
_ABOVE_FEET = 2.5  # points: where a word is rather than its feet, which may stand on the line
_CUT = 0.1  # share of words that lines may cut
_MOST_LINES = 12  # of a cell that takes most of the table: that is a frame around a page

Place = tuple[int, int]  # row, column
Cell = tuple[int, int, int, int]  # row, column, number of rows, number of columns
Row = Sequence[Word]


@dataclass(slots=True)
class Grid:
    """The lines of a table. columns: their edges, ascending; rows: theirs, from the top; origins: by place, the first
    one of its cell; words: by the first place of a cell, the parts of words of each line of text."""

    columns: list[float]
    rows: list[float]
    cells: list[Cell]
    ruled: float  # share of the edges between cells that are drawn
    origins: dict[Place, Place]
    words: dict[Place, list[list[str]]] = field(default_factory=dict)
    sizes: Counter[float] = field(default_factory=Counter)
    cut: int = 0  # words through which a line runs
    light_rows: set[int] = field(default_factory=set)

    def place(self, x: float, y: float) -> Place | None:
        """Return the first row and column of the cell that has a point."""
        column = bisect_right(self.columns, x) - 1
        row = bisect_right(self.rows, -y, key=lambda edge: -edge) - 1
        return self.origins.get((row, column))

    def add(self, word: Word, place: Place, page: PageText, lines: set[tuple[int, Place]]) -> None:
        """Put a word into its cell, or its letters into theirs, where a line runs through it. lines: the cells that
        have a part of this line of text."""
        parts = [(place, word.text)]
        if word.first >= 0:
            self.sizes[round(page.size(word.first), 1)] += len(word.text)
            if not page.is_bold(word.first):
                self.light_rows.add(place[0])
            if any(word.x0 + 1 < edge < word.x1 - 1 for edge in self.columns):
                parts = self._letters(word, place, page)
                self.cut += len({where for where, _ in parts}) > 1
        for where, text in parts:
            cell = self.words.setdefault(where, [])
            if (id(self), where) not in lines:
                cell.append([])
                lines.add((id(self), where))
            cell[-1].append(text)

    def _letters(self, word: Word, place: Place, page: PageText) -> list[tuple[Place, str]]:
        found = []
        for index in range(word.first, word.last + 1):
            left, right, *_ = page.box(index)
            place = self.place((left + right) / 2, word.y + _ABOVE_FEET) or place
            found.append((place, page.text[index]))
        return [*found, (place, " ")]


def with_tables(rows: Sequence[Row], drawn: Drawn, page: PageText) -> list[Row | Line]:
    """Return the rows of a page; each table is one line, where its first word was read."""
    grids = _grids(drawn)
    placed = [[(word, _grid_of(word, grids)) for word in row] for row in rows]
    for row in placed:
        lines: set[tuple[int, Place]] = set()
        for word, found in row:
            if found:
                found[0].add(word, found[1], page, lines)
    tables = {id(grid): _table(grid) for grid in grids}
    done: list[Row | Line] = []
    placed_tables: set[int] = set()
    for row in placed:
        outside: list[Word] = []
        for word, found in row:
            table = tables[id(found[0])] if found else None
            if table is None:
                outside.append(word)
                continue
            if outside:
                done.append(outside)
                outside = []
            if id(table) not in placed_tables:
                placed_tables.add(id(table))
                done.append(table)
        if outside:
            done.append(outside)
    return done


def _grid_of(word: Word, grids: Sequence[Grid]) -> tuple[Grid, Place] | None:
    x, y = (word.x0 + word.x1) / 2, word.y + _ABOVE_FEET
    return next(((grid, place) for grid in grids if (place := grid.place(x, y))), None)


def _grids(drawn: Drawn) -> list[Grid]:
    """Return the lines that meet, as far as they make two rows and two columns."""
    found = []
    for level, upright in _groups(drawn.level, drawn.upright):
        columns, rows = _edges(upright, level), _edges(level, upright)[::-1]
        if len(columns) >= 3 and len(rows) >= 3 and len(columns) * len(rows) <= _MAX_CELLS:
            found.append(_grid(columns, rows, level, upright))
    return found[:_MAX_GRIDS]


def _groups(level: Sequence[Rule], upright: Sequence[Rule]) -> list[tuple[list[Rule], list[Rule]]]:
    """Return lines by whether they meet, those of one part each: (level, upright)."""
    parts = [[Rule(rule.at, [span]) for rule in rules for span in rule.spans] for rules in (level, upright)]
    group = list(range(len(parts[0]) + len(parts[1])))

    def top(index: int) -> int:
        while group[index] != index:
            group[index] = index = group[group[index]]
        return index

    heights = [rule.at for rule in parts[0]]
    for number, line in enumerate(parts[1], start=len(parts[0])):
        for index in range(bisect_left(heights, line.start - NEAR), bisect_right(heights, line.end + NEAR)):
            if parts[0][index].start - NEAR <= line.at <= parts[0][index].end + NEAR:
                group[top(number)] = top(index)
    found: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for index, rule in enumerate([*parts[0], *parts[1]]):
        found.setdefault(top(index), ([], []))[index >= len(parts[0])].append(rule)
    return list(found.values())


def _edges(lines: Sequence[Rule], across: Sequence[Rule]) -> list[float]:
    """Return the places of lines, ascending, and where those across begin and end: tables need no outer lines."""
    ends = [end for line in across for end in (line.start, line.end)]
    outer = [min(ends), max(ends)] if ends else []
    found: list[float] = []
    for place in sorted([*(line.at for line in lines), *outer]):
        if not found or place - found[-1] > 2 * NEAR:
            found.append(place)
    return found


def _grid(columns: list[float], rows: list[float], level: Sequence[Rule], upright: Sequence[Rule]) -> Grid:
    count, width = len(rows) - 1, len(columns) - 1
    between_columns, between_rows = _drawn_between(columns, rows, upright), _drawn_between(rows, columns, level)
    cells = _cells(count, width, between_columns, between_rows)
    ruled = (len(between_columns) + len(between_rows)) / ((count - 1) * width + (width - 1) * count)
    origins = {
        (row + down, column + right): (row, column)
        for row, column, rows_of_cell, columns_of_cell in cells
        for down in range(rows_of_cell)
        for right in range(columns_of_cell)
    }
    return Grid(columns, rows, cells, ruled, origins)


def _table(grid: Grid) -> Line | None:
    """Return a grid with its words as a line of the page, None when it is no table."""
    rows = [[""] * (len(grid.columns) - 1) for _ in grid.rows[1:]]
    for (row, column), lines in grid.words.items():
        rows[row][column] = "\n".join(text for line in lines if (text := shown("".join(line))))
    if not _is_table(grid, rows):
        return None
    flat = " ".join(text for row in rows for text in row if text)
    fill_spans(rows, [(row, column, count) for row, column, count, _ in grid.cells if count > 1])
    is_bold = next(number for number, row in enumerate(rows) if any(row)) not in grid.light_rows
    table = Table(tuple(tuple(row) for row in rows if any(row)), tuple(grid.columns), grid.rows[0], is_bold)
    size = max(grid.sizes, key=grid.sizes.__getitem__, default=0.0)
    return Line(flat, size, False, grid.rows[-1], grid.columns[0], table)


def _is_table(grid: Grid, rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a grid is one of a table, not of a chart, a drawing, or a frame around a page."""
    places = (len(grid.rows) - 1) * (len(grid.columns) - 1)
    filled = sum(bool(text) for row in rows for text in row)
    framed = any(
        2 * down * across > places and rows[row][column].count("\n") > _MOST_LINES
        for row, column, down, across in grid.cells
    )
    with_neighbours = sum(sum(map(bool, row)) > 1 for row in rows)
    words = sum(len(line) for lines in grid.words.values() for line in lines)
    if grid.cut > _CUT * words:
        return False
    return grid.ruled >= _RULED and filled >= _FILLED * len(grid.cells) and with_neighbours > 1 and not framed


def _drawn_between(edges: Sequence[float], across: Sequence[float], lines: Sequence[Rule]) -> set[Place]:
    """Return where a line divides two neighbours: (number of the inner edge, from 1; place along it, from 0)."""
    found: set[Place] = set()
    middles = [(one + other) / 2 for one, other in pairwise(across)]
    for line in lines:
        number = min(range(len(edges)), key=lambda index: abs(edges[index] - line.at))
        if 0 < number < len(edges) - 1:
            found |= {(number, at) for at, middle in enumerate(middles) if line.start <= middle <= line.end}
    return found


def _cells(count: int, width: int, upright: set[Place], level: set[Place]) -> list[Cell]:
    """Return the cells; those between which no line is drawn are one, as far as together they are a rectangle."""
    taken: set[Place] = set()
    cells = []
    for row in range(count):
        for column in range(width):
            if (row, column) in taken:
                continue
            right = column + 1
            while right < width and (right, row) not in upright and (row, right) not in taken:
                right += 1
            below = row + 1
            while below < count and all(
                (below, at) not in level and (below, at) not in taken and (at == column or (at, below) not in upright)
                for at in range(column, right)
            ):
                below += 1
            taken |= {(each, at) for each in range(row, below) for at in range(column, right)}
            cells.append((row, column, below - row, right - column))
    return cells
