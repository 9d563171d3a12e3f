"""The lines of a PDF's pages made into Markdown: headings, paragraphs, and no running headers, footers or numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from retrieval.parsing.parsed import MarkdownText, collapsed, escaped, heading
from retrieval.parsing.pdf.divided_words import DIVIDED, DividedWords, is_divided
from retrieval.parsing.table_text import table as pipe_table

_EDGE_LINES = 2  # lines at the top and at the bottom of a page that may be running ones
_MOST_PAGES = 0.5
_FEWEST_PAGES = 3
_LARGER, _LARGER_BOLD = 1.12, 1.05  # of the text's size, from which a line is a heading
_HEADING_CHARACTERS = 120
_HEADING_LINES = 4
_ABOVE_TITLE = 400  # characters of the first page, such as a letterhead
_SIZES = 4  # levels of headings by size
_MANY_HEADINGS = 0.3  # share of all lines from which sizes say nothing
_GAP = 1.6  # distance of lines, in that of most lines, from which a paragraph ends
_OUTLINE_FOUND = 0.6  # share of the bookmarks that must be found on their pages to go by them
_APART = 1.3  # distance of a running line from the text, in that of most lines
_FRONT_PAGES = 100  # before the page with the number 1, or left out before the first
_LETTER = re.compile(r"[^\W\d_]")
_PAGE_OF = re.compile(r"\b(?:page|p\.|pg\.?|seite|s\.|blatt|p[aá]gina|strana|sida|side|стр\.?|第)\s*(\d{1,5})\b")
_ENDS_WITH_NUMBER = re.compile(r"(?:^|\s)(\d{1,5})$")
_BEGINS_WITH_NUMBER = re.compile(r"^(\d{1,5})(?:\s|$)")
_NUMBER_ALONE = re.compile(r"^\W*(\d{1,5})\W*$")
_SECTION_NUMBER = re.compile(r"^(?:(?:chapter|appendix|part|section)\s+)?(?:[A-Z]|\d+|[IVXLC]+)(?:\.\d+)*\.?\s+", re.I)
_SECTION = re.compile(r"^(?:\d+|[A-Z])(?:\.\d+){0,4}\.?\s+\S")
_WORD = re.compile(r"[^\W\d_]{3}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_NO_LETTERS = re.compile(r"[\W_]+")
_LAST_WORD = re.compile(r"\S+$")
_LEADER = re.compile(r"(?:\.\s?){4,}")  # of a table of contents
_SAME_EDGE = 4.0  # points within which the columns of a table that goes on are those of the page before

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table on a page. rows: of all columns, a cell has its lines; edges: of columns, from the left; top: its upper
    edge, from the foot of the page."""

    rows: tuple[Row, ...]
    edges: tuple[float, ...]
    top: float
    has_bold_header: bool = False

    def goes_on_from(self, other: Table, header: Row) -> bool:
        """Return whether a table has the columns of another that has this header, and no other header."""
        same = len(self.edges) == len(other.edges) and all(
            abs(one - two) <= _SAME_EDGE for one, two in zip(self.edges, other.edges, strict=True)
        )
        return same and (self.rows[0] == header or not self.has_bold_header)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page, or a table, which has its words as text. size: of its letters; y: of their feet, from the foot
    of the page; x: where it begins, from the left. All in points."""

    text: str
    size: float
    bold: bool
    y: float
    x: float = 0.0
    table: Table | None = None

    @property
    def top(self) -> float:
        """Return what stands for the height of its first line."""
        return self.table.top - self.size if self.table else self.y

    def texts(self) -> Iterator[str]:
        cells = (cell for row in self.table.rows for cell in row) if self.table else [self.text]
        return (text for cell in cells for text in cell.split("\n"))


@dataclass(slots=True)
class Page:
    """The lines of a page. is_scanned: it has a picture, or is drawn, and has no text. notes: remarks on the page."""

    number: int
    lines: list[Line]
    is_scanned: bool = False
    notes: list[str] = field(default_factory=list)


def markdown_of(
    pages: Sequence[Page], outline: Sequence[tuple[int, int, str]]
) -> tuple[str, list[tuple[int, dict[str, Any]]]]:
    """Return (Markdown, a mark for each page with text). outline: bookmarks as (page, level, title)."""
    _remove_running_lines(pages)
    levels = _outline_levels(pages, outline) or _size_levels(pages)
    leading = _leading(pages)
    words = DividedWords(text for page in pages for line in page.lines for text in line.texts())
    document = MarkdownText()
    made = list(_blocks_of_pages(pages, levels, leading, words))
    _join_over_pages([blocks for blocks in made if blocks], words)
    for page, blocks in zip(pages, made, strict=True):
        if blocks or page.notes:
            document.mark(page=page.number)
        document.add(*blocks, *map(escaped, page.notes))
    return document.text.replace(DIVIDED, "-"), document.marks


def _blocks_of_pages(
    pages: Sequence[Page], levels: dict[int, int], leading: float, words: DividedWords
) -> Iterator[list[str]]:
    """Yield the blocks of each page. A table that goes on has its header again, where its page does not have it."""
    header: Row = ()
    above: Table | None = None
    for page in pages:
        blocks: list[str] = []
        for lines in _blocks(page, levels, leading):
            if (table := lines[0].table) is None:
                blocks.append(_block(lines, levels, words))
                continue
            header = header if above and not blocks and table.goes_on_from(above, header) else table.rows[0]
            blocks.append(_pipe_table(header, table.rows[table.rows[0] == header :], words))
        above = page.lines[-1].table if page.lines else above
        yield blocks


def _join_over_pages(pages: Sequence[list[str]], words: DividedWords) -> None:
    """Put the beginning of a word that the end of a page divides on the next page."""
    for above, below in pairwise(pages):
        if is_divided(above[-1]) and _is_text(above[-1]) and _is_text(below[0]):
            start = _LAST_WORD.findall(above[-1])[0]
            if left := above.pop().removesuffix(start).rstrip():
                above.append(left)
            below[0] = "\n".join(filter(None, words.continued(start, below[0])))


def _is_text(block: str) -> bool:
    return not block.startswith(("#", "|"))


def first_title(pages: Sequence[Page]) -> str:
    """Return the lines at the beginning that are larger than all others of the first page and than the text, or ""."""
    if not pages or pages[0].number > 1:
        return ""
    lines = [line for line in pages[0].lines if not line.table]
    largest = max((line.size for line in lines), default=0.0)
    if largest < _LARGER * _body_size(pages):
        return ""
    first = next(index for index, line in enumerate(lines) if line.size == largest)
    if sum(len(line.text) for line in lines[:first]) > _ABOVE_TITLE or not _is_like_heading(lines[first]):
        return ""
    title = [line for line in lines[first : first + _HEADING_LINES] if line.size == largest]
    return DividedWords(line.text for line in lines).joined([line.text for line in title], " ")


def _remove_running_lines(pages: Sequence[Page]) -> None:
    """Take from the edges of pages what stands on most of them: the same words, or the number of the page.

    What stands apart from the text goes from all pages. The same words right above or below the text, such as the
    header of a table, stay on the first page that has them. A page whose lines would all go keeps its words.
    """
    leading = _leading(pages)
    edges = [(page, list(_edges(page, leading))) for page in pages]
    least = max(_FEWEST_PAGES, _MOST_PAGES * sum(bool(page.lines) for page in pages))
    offset = _offset(edges, least)
    repeated: Counter[tuple[bool, int, str]] = Counter()
    for page, both in edges:
        for edge in both:
            repeated.update({each for line in edge.lines for each in _compared(line, edge, page.number, offset)})
    running = {each for each, count in repeated.items() if count >= least}
    seen: set[tuple[bool, int, str]] = set()
    for page, both in edges:
        removed: set[int] = set()
        for edge in both:
            for line in edge.lines:
                found = _compared(line, edge, page.number, offset) & running
                repeats = bool(found) and (edge.is_apart or found <= seen)
                if repeats or (offset is not None and _is_number_of_page(line, edge, page.number, offset)):
                    removed.add(id(line))
                seen |= found
        kept = [line for line in page.lines if id(line) not in removed]
        page.lines = kept or [line for line in page.lines if _LETTER.search(line.text)]


@dataclass(frozen=True, slots=True)
class _Edge:
    """The first or the last lines of a page, from the outside. Those that are apart have a gap between them and the
    text."""

    lines: list[Line]
    is_top: bool
    is_apart: bool


def _edges(page: Page, leading: float) -> Iterator[_Edge]:
    by_height = sorted(page.lines, key=lambda line: -line.y)
    for is_top in (True, False):
        lines = by_height if is_top else by_height[::-1]
        apart = [
            count
            for count in range(1, min(_EDGE_LINES, len(lines) - 1) + 1)
            if _distance(lines[count - 1], lines[count]) > _APART * leading
        ]
        count = max(apart, default=_EDGE_LINES)
        yield _Edge(lines[:count], is_top, bool(apart))
        by_height = by_height[count:]


def _distance(one: Line, other: Line) -> float:
    above, below = (one, other) if one.y > other.y else (other, one)
    return above.y - below.top


def _offset(edges: Sequence[tuple[Page, Sequence[_Edge]]], least: float) -> int | None:
    """Return what must be added to the position of a page to have its number, None when pages have none."""
    offsets: Counter[int] = Counter()
    for page, both in edges:
        numbers = {number for edge in both for line in edge.lines for number in _numbers(line.text)}
        offsets.update({number - page.number for number in numbers})
    offset, count = next(iter(offsets.most_common(1)), (0, 0))
    return offset if count >= least else None


def _compared(line: Line, edge: _Edge, position: int, offset: int | None) -> set[tuple[bool, int, str]]:
    """Return by what a line is compared with those of other pages: its text, and its text without the page's number."""
    text = collapsed(line.text).casefold()
    number = None if offset is None else position + offset
    without = {
        f"{text[: found.start(1)]}#{text[found.end(1) :]}"
        for found in _PAGE_OF.finditer(text)
        if int(found[1]) in (position, number)
    }
    return {(edge.is_top, round(line.size), each) for each in (text, *without)}


def _is_number_of_page(line: Line, edge: _Edge, position: int, offset: int) -> bool:
    """Return whether a line is the number of its page, alone or beside words that stand apart from the text.

    Beside words, a number far from the page's position is another one: a year, or an invoice's.
    """
    if line.table or position + offset not in _numbers(line.text):
        return False
    if not _LETTER.search(line.text):
        return line is edge.lines[0] and bool(_NUMBER_ALONE.search(line.text))
    return edge.is_apart and abs(offset) <= _FRONT_PAGES and len(line.text) < _HEADING_CHARACTERS


def _numbers(text: str) -> set[int]:
    """Return what may be the number of a page: what a line begins or ends with, or has beside no other sign but
    dashes."""
    found = (_BEGINS_WITH_NUMBER.search(text), _ENDS_WITH_NUMBER.search(text), _NUMBER_ALONE.search(text))
    return {int(each[1]) for each in found if each}


def _outline_levels(pages: Sequence[Page], outline: Sequence[tuple[int, int, str]]) -> dict[int, int]:
    """Return the levels of the lines (by their identity) that are bookmarked; {} when most bookmarks are not found."""
    by_number = {page.number: page for page in pages}
    titles: dict[int, dict[str, list[Line]]] = {}
    levels: dict[int, int] = {}
    found = 0
    for number, level, title in outline:
        if number not in titles:
            titles[number] = _titles(by_number[number].lines) if number in by_number else {}
        lines = titles[number].get(_letters(_SECTION_NUMBER.sub("", title)), [])
        found += bool(lines)
        levels.update({id(line): level for line in lines})
    return levels if outline and found >= _OUTLINE_FOUND * len(outline) else {}


def _titles(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """Return by what they are compared all lines, one or a few that follow each other, that may be a title."""
    titles: dict[str, list[Line]] = {}
    letters = [_letters(line.text) for line in lines]
    for start, line in enumerate(lines):
        without = _SECTION_NUMBER.sub("", f"{line.text} ")
        begins = {_letters(without), _letters(_SECTION_NUMBER.sub("", without))}
        for end in range(start + 1, min(start + _HEADING_LINES, len(lines)) + 1):
            below = "".join(letters[start + 1 : end])
            for begin in begins:
                titles.setdefault(begin + below, list(lines[start:end]))
    titles.pop("", None)
    return titles


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text.casefold())


def _size_levels(pages: Sequence[Page]) -> dict[int, int]:
    """Return the levels of the lines (by their identity) that are larger than the text, or bold lines by themselves."""
    body = _body_size(pages)
    lines = [line for page in pages for line in page.lines]
    larger = [
        line
        for line in lines
        if line.size >= body * (_LARGER_BOLD if line.bold else _LARGER) and _is_like_heading(line)
    ]
    if len(larger) > _MANY_HEADINGS * len(lines):
        return {}
    sizes = sorted({line.size for line in larger}, reverse=True)
    ranks = {size: min(rank, _SIZES) for rank, size in enumerate(sizes, start=1)}
    levels = {id(line): ranks[line.size] for line in larger}
    bold = [line for page in pages for line in _bold_lines(page, body) if id(line) not in levels]
    if len(bold) + len(larger) <= _MANY_HEADINGS * len(lines):
        level = min(len(ranks), _SIZES) + 1
        levels |= {id(line): level for line in bold}
    return levels


def _body_size(pages: Sequence[Page]) -> float:
    """Return the size that most letters have."""
    weights: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            weights[line.size] += len(line.text)
    return weights.most_common(1)[0][0] if weights else 0.0


def _is_like_heading(line: Line) -> bool:
    """Return whether a line may be a heading by its words: not a formula, a label of a figure or a row of a table."""
    letters = [character for character in line.text if character.isalpha()]
    return (
        len(line.text) <= _HEADING_CHARACTERS
        and not line.table
        and 2 * len(letters) >= len(line.text.replace(" ", ""))
        and bool(_WORD.search(line.text))
        and not letters[0].islower()
        and not _LEADER.search(line.text)
    )


def _bold_lines(page: Page, body: float) -> Iterator[Line]:
    """Yield the bold lines of the text's size that stand alone between others and are short."""
    for index, line in enumerate(page.lines):
        alone = all(
            not page.lines[near].bold or abs(page.lines[near].y - line.y) > 3 * line.size
            for near in (index - 1, index + 1)
            if 0 <= near < len(page.lines)
        )
        ended = line.text.endswith((".", ",", ";", ":")) and not _SECTION.match(line.text)
        if (
            line.bold
            and alone
            and not ended
            and line.size >= body * 0.95
            and _is_like_heading(line)
            and len(line.text) <= 80
        ):
            yield line


def _leading(pages: Sequence[Page]) -> float:
    """Return the distance from line to line that is the most common."""
    distances: Counter[float] = Counter()
    for page in pages:
        for above, below in pairwise(page.lines):
            if 0 < above.y - below.top < 60:
                distances[round(above.y - below.top)] += 1
    return distances.most_common(1)[0][0] if distances else 12.0


def _blocks(page: Page, levels: dict[int, int], leading: float) -> Iterator[list[Line]]:
    """Yield the lines of each heading, paragraph and table of a page."""
    block: list[Line] = []
    for line in page.lines:
        if block and _begins_block(line, block, levels, leading):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _begins_block(line: Line, block: Sequence[Line], levels: dict[int, int], leading: float) -> bool:
    """Return whether a line does not go on with the heading or the paragraph above it."""
    level, above = levels.get(id(line)), block[-1]
    if level != levels.get(id(above)) or line.table or above.table:
        return True
    if level is not None:
        return len(block) == _HEADING_LINES or above.size != line.size or above.y - line.y > 2 * line.size
    ended = above.y - line.top > _GAP * max(leading, line.size) or above.size != line.size
    return ended and not is_divided(above.text)


def _block(lines: Sequence[Line], levels: dict[int, int], words: DividedWords) -> str:
    texts = [line.text for line in lines]
    if (level := levels.get(id(lines[0]))) is None:
        return escaped(words.joined(texts))
    return heading(level, words.joined(texts, " "))


def _pipe_table(header: Row, rows: Sequence[Row], words: DividedWords) -> str:
    """Return a table without the columns in which nothing stands."""
    shown = [header, *rows]
    columns = [column for column in range(len(header)) if any(row[column] for row in shown)]
    return pipe_table([[words.joined(row[column].split("\n"), " ") for column in columns] for row in shown])
