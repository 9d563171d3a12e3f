"""The lines of a PDF's pages made into Markdown: headings, paragraphs, and no running headers, footers or numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retrieval.parsing.parsed import MarkdownText, collapsed, escaped, heading

_EDGE_LINES = 2  # lines at the top and at the bottom of a page that may be running ones
_MOST_PAGES = 0.5
_FEWEST_PAGES = 3
_LARGER, _LARGER_BOLD = 1.12, 1.05  # of the text's size, from which a line is a heading
_HEADING_CHARACTERS = 120
_HEADING_LINES = 3
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
_LEADER = re.compile(r"(?:\.\s?){4,}")  # of a table of contents
_DIVIDED = re.compile(r"(\w)[-\u2010]$")
_SOFTLY_DIVIDED = "\xad"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page. size: of its letters; y: of their feet, from the foot of the page. Both in points."""

    text: str
    size: float
    bold: bool
    y: float


@dataclass(slots=True)
class Page:
    number: int
    lines: list[Line]


def markdown_of(
    pages: Sequence[Page], outline: Sequence[tuple[int, int, str]]
) -> tuple[str, list[tuple[int, dict[str, Any]]]]:
    """Return (Markdown, a mark for each page with text). outline: bookmarks as (page, level, title)."""
    _remove_running_lines(pages)
    levels = _outline_levels(pages, outline) or _size_levels(pages)
    leading = _leading(pages)
    document = MarkdownText()
    rest = ""  # a word divided by the end of a page
    for page in pages:
        blocks = list(_blocks(page, levels, leading))
        if blocks:
            document.mark(page=page.number)
        if rest and blocks and not blocks[0].startswith("#"):
            blocks[0] = rest + blocks[0]
        else:
            document.add(rest)
        rest = ""
        if blocks and blocks[-1].endswith(_SOFTLY_DIVIDED):
            head, _, word = blocks[-1].rpartition(" ")
            blocks[-1], rest = head, word.rstrip(_SOFTLY_DIVIDED)
        document.add(*blocks)
    document.add(rest)
    return document.text.replace(_SOFTLY_DIVIDED, ""), document.marks


def _remove_running_lines(pages: Sequence[Page]) -> None:
    """Take from the edges of pages what stands on most of them: the same words, or the number of the page.

    What stands apart from the text goes from all pages. The same words right above or below the text, such as the
    header of a table, stay on the first page that has them. A page whose lines would all go keeps its words.
    """
    leading = _leading(pages)
    edges = [(page, list(_edges(page, leading))) for page in pages]
    least = max(_FEWEST_PAGES, _MOST_PAGES * sum(bool(page.lines) for page in pages))
    offset = _offset(edges, least)
    repeated: Counter[tuple[bool, str]] = Counter()
    for page, both in edges:
        for edge in both:
            repeated.update({each for line in edge.lines for each in _compared(line, edge, page.number, offset)})
    running = {each for each, count in repeated.items() if count >= least}
    seen: set[tuple[bool, str]] = set()
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
            if abs(lines[count - 1].y - lines[count].y) > _APART * leading
        ]
        count = max(apart, default=_EDGE_LINES)
        yield _Edge(lines[:count], is_top, bool(apart))
        by_height = by_height[count:]


def _offset(edges: Sequence[tuple[Page, Sequence[_Edge]]], least: float) -> int | None:
    """Return what must be added to the position of a page to have its number, None when pages have none."""
    offsets: Counter[int] = Counter()
    for page, both in edges:
        numbers = {number for edge in both for line in edge.lines for number in _numbers(line.text)}
        offsets.update({number - page.number for number in numbers})
    offset, count = next(iter(offsets.most_common(1)), (0, 0))
    return offset if count >= least else None


def _compared(line: Line, edge: _Edge, position: int, offset: int | None) -> set[tuple[bool, str]]:
    """Return by what a line is compared with those of other pages: its text, and its text without the page's number."""
    text = collapsed(line.text).casefold()
    number = None if offset is None else position + offset
    without = {
        f"{text[: found.start(1)]}#{text[found.end(1) :]}"
        for found in _PAGE_OF.finditer(text)
        if int(found[1]) in (position, number)
    }
    return {(edge.is_top, each) for each in (text, *without)}


def _is_number_of_page(line: Line, edge: _Edge, position: int, offset: int) -> bool:
    """Return whether a line is the number of its page, alone or beside words that stand apart from the text.

    Beside words, a number far from the page's position is another one: a year, or an invoice's.
    """
    if position + offset not in _numbers(line.text):
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
    levels: dict[int, int] = {}
    found = 0
    for number, level, title in outline:
        page = by_number.get(number)
        lines = _lines_of_title(page.lines, _comparable(title)) if page else []
        found += bool(lines)
        levels.update({id(line): level for line in lines})
    return levels if outline and found >= _OUTLINE_FOUND * len(outline) else {}


def _lines_of_title(lines: Sequence[Line], title: str) -> list[Line]:
    """Return the lines, one or a few that follow each other, which together are a title."""
    for start in range(len(lines)):
        joined = ""
        for end in range(start, min(start + _HEADING_LINES, len(lines))):
            joined = f"{joined} {lines[end].text}".strip()
            if title and title in (_comparable(joined), _comparable(_SECTION_NUMBER.sub("", joined))):
                return list(lines[start : end + 1])
    return []


def _comparable(text: str) -> str:
    return "".join(character for character in _SECTION_NUMBER.sub("", text).casefold() if character.isalnum())


def _size_levels(pages: Sequence[Page]) -> dict[int, int]:
    """Return the levels of the lines (by their identity) that are larger than the text, or bold lines by themselves."""
    weights: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            weights[line.size] += len(line.text)
    body = weights.most_common(1)[0][0] if weights else 0.0
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


def _is_like_heading(line: Line) -> bool:
    """Return whether a line may be a heading by its words: not a formula, a label of a figure or a row of a table."""
    letters = [character for character in line.text if character.isalpha()]
    return (
        len(line.text) <= _HEADING_CHARACTERS
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
        for above, below in zip(page.lines, page.lines[1:], strict=False):
            if 0 < above.y - below.y < 60:
                distances[round(above.y - below.y)] += 1
    return distances.most_common(1)[0][0] if distances else 12.0


def _blocks(page: Page, levels: dict[int, int], leading: float) -> Iterator[str]:
    """Yield the headings and paragraphs of a page. A paragraph keeps its lines; a word divided by one is joined."""
    block: list[Line] = []
    for line in page.lines:
        if block and _begins_block(line, block, levels, leading):
            yield _block(block, levels)
            block = []
        block.append(line)
    if block:
        yield _block(block, levels)


def _begins_block(line: Line, block: Sequence[Line], levels: dict[int, int], leading: float) -> bool:
    """Return whether a line does not go on with the heading or the paragraph above it."""
    level, above = levels.get(id(line)), block[-1]
    if level != levels.get(id(above)):
        return True
    if level is not None:
        return len(block) == _HEADING_LINES or above.size != line.size or above.y - line.y > 2 * line.size
    ended = above.y - line.y > _GAP * max(leading, line.size) or above.size != line.size
    return ended and not _is_divided(above.text)


def _block(lines: Sequence[Line], levels: dict[int, int]) -> str:
    if (level := levels.get(id(lines[0]))) is None:
        return _paragraph([line.text for line in lines])
    return heading(level, " ".join(line.text for line in lines).replace(f"{_SOFTLY_DIVIDED} ", ""))


def _is_divided(text: str) -> bool:
    return text.endswith(_SOFTLY_DIVIDED) or bool(_DIVIDED.search(text))


def _paragraph(lines: list[str]) -> str:
    joined = lines[0]
    for line in lines[1:]:
        first, _, others = line.partition(" ")
        divided = joined.endswith(_SOFTLY_DIVIDED) or (_DIVIDED.search(joined) and line[:1].islower())
        # The rest of the word goes up to its beginning, what follows stays on its line.
        joined = f"{joined[:-1]}{first}\n{others}".rstrip("\n") if divided else f"{joined}\n{line}"
    return escaped(joined)
