"""The lines of a PDF's pages made into Markdown: headings, paragraphs, tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from retrieval.parsing.parsed import MarkdownText, escaped, heading
from retrieval.parsing.pdf.divided_words import DIVIDED, DividedWords, is_divided
from retrieval.parsing.pdf.page_lines import Line, Page, Row, Table, leading
from retrieval.parsing.pdf.running_lines import remove_running_lines
from retrieval.parsing.table_text import table as pipe_table

_LARGER, _LARGER_BOLD = 1.12, 1.05  # of the text's size, from which a line is a heading
_HEADING_CHARACTERS = 120
_HEADING_LINES = 4
_ABOVE_TITLE = 400  # characters of the first page, such as a letterhead
_SIZES = 4  # levels of headings by size
_MANY_HEADINGS = 0.3  # share of all letters from which sizes say nothing
_GAP = 1.6  # distance of lines, in that of most lines, from which a paragraph ends
_OUTLINE_FOUND = 0.6  # share of the bookmarks that must be found on their pages to go by them
_SECTION_NUMBER = re.compile(r"^(?:(?:chapter|appendix|part|section)\s+)?(?:[A-Z]|\d+|[IVXLC]+)(?:\.\d+)*\.?\s+", re.I)
_SECTION = re.compile(r"^(?:\d+|[A-Z])(?:\.\d+){0,4}\.?\s+\S")
_WORD = re.compile(r"[^\W\d_]{3}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_NO_LETTERS = re.compile(r"[\W_]+")
_LEADER = re.compile(r"(?:\.\s?){4,}")  # of a table of contents


def markdown_of(
    pages: Sequence[Page], outline: Sequence[tuple[int, int, str]]
) -> tuple[str, list[tuple[int, dict[str, Any]]]]:
    """Return (Markdown, a mark for each page with text). outline: bookmarks as (page, level, title)."""
    remove_running_lines(pages)
    levels = _outline_levels(pages, outline) or _size_levels(pages)
    usual = leading(pages)
    words = DividedWords(text for page in pages for line in page.lines for text in line.texts())
    document = MarkdownText()
    made = list(_blocks_of_pages(pages, levels, usual, words))
    _join_over_pages([blocks for blocks in made if blocks], words)
    for page, blocks in zip(pages, made, strict=True):
        if blocks or page.notes:
            document.mark(page=page.number)
        document.add(*blocks, *map(escaped, page.notes))
    return document.text.replace(DIVIDED, "-"), document.marks


def _blocks_of_pages(
    pages: Sequence[Page], levels: dict[int, int], usual: float, words: DividedWords
) -> Iterator[list[str]]:
    """Yield the blocks of each page. A table that goes on has its header again, where its page does not have it."""
    header: Row = ()
    above: Table | None = None
    for page in pages:
        blocks: list[str] = []
        for lines in _blocks(page, levels, usual):
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
            start = above[-1].rsplit(maxsplit=1)[-1]
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
    if not lines or largest < _LARGER * _body_size(pages):
        return ""
    first = next(index for index, line in enumerate(lines) if line.size == largest)
    if sum(len(line.text) for line in lines[:first]) > _ABOVE_TITLE or not _is_like_heading(lines[first]):
        return ""
    title = [line for line in lines[first : first + _HEADING_LINES] if line.size == largest]
    return DividedWords(line.text for line in lines).joined([line.text for line in title], " ")


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
    most = _MANY_HEADINGS * _letters_of(lines)
    if _letters_of(larger) > most:
        return {}
    sizes = sorted({line.size for line in larger}, reverse=True)
    ranks = {size: min(rank, _SIZES) for rank, size in enumerate(sizes, start=1)}
    levels = {id(line): ranks[line.size] for line in larger}
    bold = [line for page in pages for line in _bold_lines(page, body) if id(line) not in levels]
    if _letters_of([*bold, *larger]) <= most:
        level = min(len(ranks), _SIZES) + 1
        levels |= {id(line): level for line in bold}
    return levels


def _letters_of(lines: Sequence[Line]) -> int:
    return sum(len(line.text) for line in lines)


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
        and not line.is_spread
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


def _blocks(page: Page, levels: dict[int, int], usual: float) -> Iterator[list[Line]]:
    """Yield the lines of each heading, paragraph and table of a page."""
    block: list[Line] = []
    for line in page.lines:
        if block and _begins_block(line, block, levels, usual):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _begins_block(line: Line, block: Sequence[Line], levels: dict[int, int], usual: float) -> bool:
    """Return whether a line does not go on with the heading or the paragraph above it."""
    level, above = levels.get(id(line)), block[-1]
    if level != levels.get(id(above)) or line.table or above.table:
        return True
    if level is not None:
        return len(block) == _HEADING_LINES or above.size != line.size or above.y - line.y > 2 * line.size
    ended = above.y - line.top > _GAP * max(usual, line.size) or above.size != line.size
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
