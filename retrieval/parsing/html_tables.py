"""Tables of HTML: which of them only place parts of a page, and the rows of the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from retrieval.parsing.html_text import APART, HEADINGS, LISTS, REPLACED, SKIPPED, local_name, number_of, text_of
from retrieval.parsing.parsed import escaped
from retrieval.parsing.table_text import table

_CELLS = frozenset(("td", "th"))
_BLOCKS = frozenset((*HEADINGS, *LISTS, "table", "pre", "dl", "blockquote"))
_BREAK = "\0"  # html_root leaves none in a page
_IN_CELLS = {
    **APART,
    **dict.fromkeys((*LISTS, "dl", "table"), (_BREAK, _BREAK)),
    **dict.fromkeys(("li", "dt", "tr"), (_BREAK, " ")),
}
_ENDS = tuple(".:;,!?…。：；，！？")
_LONG = 1_000  # characters, which a cell of a table seldom has
_PARAGRAPH = 200  # characters: below a heading in a cell they make an article, side by side columns of a page
_MAX_SPAN = 50


@dataclass(slots=True)
class _Look:
    """What a table looks like so far. Lengths are in characters, those of tables in it included."""

    is_placed: bool  # it says that it is no table
    rows: int = 0  # with several cells that are not empty
    cells: int = 0  # of this row, not empty
    cell: int = 0
    headings: int = 0  # of this cell
    paragraphs: int = 0  # of this cell
    whole: int = 0
    longest: int = 0
    nested: int = 0
    has_header: bool = False
    has_blocks: bool = False
    has_articles: bool = False

    def end_cell(self) -> None:
        self.whole += self.cell
        self.longest = max(self.longest, self.cell)
        self.cells += self.cell > 0
        self.has_blocks |= self.paragraphs > 1
        self.has_articles |= 0 < self.headings < self.cell - _PARAGRAPH
        self.cell = self.headings = self.paragraphs = 0

    def end_row(self) -> None:
        self.rows += self.cells > 1
        self.cells = 0

    @property
    def is_layout(self) -> bool:
        """Whether the table only places its contents: it says so, has a single cell in every row, or is a page whose
        parts stand side by side."""
        if self.is_placed or not self.rows:
            return True
        if self.rows == 1 and (self.has_blocks or self.longest > _PARAGRAPH):
            return True
        if not self.has_blocks or self.has_header:
            return False
        is_page = self.longest > _LONG and self.longest * 2 > self.whole
        return self.nested * 2 > self.whole or self.has_articles or is_page


def layouts(element: etree._Element) -> dict[etree._Element, bool]:
    """Return whether a table only places its contents, and the same for each table in it: one walk for all."""
    found: dict[etree._Element, bool] = {}
    open_tables: list[_Look] = []
    heading = 0
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, each in walk:
        tag = local_name(each)
        if event == "start":
            if tag is None or tag in SKIPPED:
                walk.skip_subtree()
                continue
            if tag == "table":
                if open_tables:
                    open_tables[-1].has_blocks = True
                open_tables.append(_Look((each.get("role") or "").lower() in ("presentation", "none")))
            look = open_tables[-1]
            look.has_header |= tag in ("th", "thead", "caption")
            look.has_blocks |= tag in _BLOCKS and tag != "table"
            look.paragraphs += tag == "p"
            heading = heading + 1 if tag in HEADINGS else heading
            length = 1 if tag in REPLACED else len((each.text or "").strip())
        else:
            look = open_tables[-1]
            if tag in _CELLS:
                look.end_cell()
            elif tag == "tr":
                look.end_row()
            elif tag == "table":
                open_tables.pop()
                found[each] = look.is_layout
                if open_tables:
                    open_tables[-1].nested += look.whole
                    open_tables[-1].cell += look.whole
            heading = max(heading - 1, 0) if tag in HEADINGS else heading
            length = 0 if each is element else len((each.tail or "").strip())
            if not open_tables:
                break
        look = open_tables[-1]
        look.cell += length
        look.headings += length if heading else 0
    return found


def table_blocks(element: etree._Element) -> list[str]:
    """Return a table's caption, titles above its columns, and rows; a cell that spans rows stands in each of them."""
    above = [text_of(each) for each in element if local_name(each) == "caption"]
    rows: list[list[str]] = []
    spanning: dict[int, tuple[int, str]] = {}  # column: (rows left, text)
    for row in _rows(element):
        cells: list[str] = []
        own = [cell for cell in row if local_name(cell) in _CELLS]
        for cell in own:
            _take_spanning(cells, spanning)
            text = _cell_text(cell)
            across, down = (min(max(number_of(cell, name), 1), _MAX_SPAN) for name in ("colspan", "rowspan"))
            for offset in range(across):
                if down > 1:
                    spanning[len(cells)] = (down - 1, text if not offset else "")
                cells.append(text if not offset else "")
        _take_spanning(cells, spanning)
        if len(own) == 1 and len(cells) > 1 and not rows:
            above.append(cells[0])
        elif any(cells):
            rows.append(cells)
    return [block for block in (*map(escaped, above), table(rows)) if block]


def _rows(element: etree._Element) -> Iterator[etree._Element]:
    """Yield a table's rows without those of tables in its cells."""
    walk = etree.iterwalk(element, events=("start",))
    for _, each in walk:
        tag = local_name(each)
        if tag == "tr":
            yield each
        if tag == "tr" or (tag == "table" and each is not element):
            walk.skip_subtree()


def _cell_text(cell: etree._Element) -> str:
    """Return a cell on one line: its items, and the rows of a table in it, are divided by semicolons."""
    parts: list[str] = []
    for part in text_of(cell, around=_IN_CELLS).split(_BREAK):
        if part := part.strip():
            parts += [("" if parts[-1].endswith(_ENDS) else ";") + " " if parts else "", part]
    return "".join(parts)


def _take_spanning(cells: list[str], spanning: dict[int, tuple[int, str]]) -> None:
    while (found := spanning.pop(len(cells), None)) is not None:
        left, text = found
        if left > 1:
            spanning[len(cells)] = (left - 1, text)
        cells.append(text)
