"""Running headers, footers and page numbers, which are no part of a document's text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrieval.parsing.parsed import collapsed
from retrieval.parsing.pdf.page_lines import Line, Page, leading

_EDGE_LINES = 2  # lines at the top and at the bottom of a page that may be running ones
_MOST_PAGES = 0.5
_FEWEST_PAGES = 3
_APART = 1.3  # distance of a running line from the text, in that of most lines
_FRONT_PAGES = 100  # before the page with the number 1, or left out before the first
_LETTER = re.compile(r"[^\W\d_]")
_PAGE_OF = re.compile(r"\b(?:page|p\.|pg\.?|seite|s\.|blatt|p[aá]gina|strana|sida|side|стр\.?|第)\s*(\d{1,5})\b")
_ENDS_WITH_NUMBER = re.compile(r"(?:^|\s)(\d{1,5})$")
_BEGINS_WITH_NUMBER = re.compile(r"^(\d{1,5})(?:\s|$)")
_NUMBER_ALONE = re.compile(r"^\W*(\d{1,5})\W*$")
_SHORT = 120  # characters


def remove_running_lines(pages: Sequence[Page]) -> None:
    """Take from the edges of pages what stands on most of them: the same words, or the number of the page.

    What stands apart from the text goes from all pages. The same words right above or below the text, such as the
    header of a table, stay on the first page that has them. A page whose lines would all go keeps its words.
    """
    usual = leading(pages)
    edges = [(page, list(_edges(page, usual))) for page in pages]
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


def _edges(page: Page, usual: float) -> Iterator[_Edge]:
    by_height = sorted(page.lines, key=lambda line: -line.y)
    for is_top in (True, False):
        lines = by_height if is_top else by_height[::-1]
        apart = [
            count
            for count in range(1, min(_EDGE_LINES, len(lines) - 1) + 1)
            if _distance(lines[count - 1], lines[count]) > _APART * usual
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
    return edge.is_apart and abs(offset) <= _FRONT_PAGES and len(line.text) < _SHORT


def _numbers(text: str) -> set[int]:
    """Return what may be the number of a page: what a line begins or ends with, or has beside no other sign but
    dashes."""
    found = (_BEGINS_WITH_NUMBER.search(text), _ENDS_WITH_NUMBER.search(text), _NUMBER_ALONE.search(text))
    return {int(each[1]) for each in found if each}
