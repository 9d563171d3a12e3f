"""HTML written as Markdown: headings, paragraphs, lists, code and tables, without links' addresses and without styling.

The tree is walked by its events, so depth costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from retrieval.parsing.parsed import collapsed, escaped, fenced, heading
from retrieval.parsing.table_text import table

# Never text that people read. Forms are not among them: whole pages may be in one.
_SKIPPED_NAMES = """
    script style noscript template svg math iframe object embed canvas audio video head title rt rp
    select datalist textarea button
"""
SKIPPED = frozenset(_SKIPPED_NAMES.split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_NAMES = """
    p div section article main header footer aside nav figure figcaption address details summary dl dt dd form fieldset
    legend center body html hr tr td th tbody thead tfoot caption table
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_BLOCKS_IN_TITLES = frozenset((*_HEADINGS, *_LISTS, "li", "blockquote"))  # other blocks do not end a heading
_BLOCKS_IN_CELLS = frozenset((*_HEADINGS, "table", "pre", "ul", "ol", "dl", "blockquote"))
_AROUND = dict.fromkeys((*_BLOCKS, *_BLOCKS_IN_CELLS, "li", "br"), (" ", " "))
_LANGUAGE = re.compile(r"(?<![\w-])(?:language-|lang-|highlight-|sourceCode |code )(?!literal)([A-Za-z0-9+#]{1,20})")
_MAX_SPAN = 50
_INDENT = "    "


@dataclass(slots=True)
class _State:
    """What has been written, and where in the document the walk is."""

    blocks: list[str] = field(default_factory=list)
    inline: list[str] = field(default_factory=list)
    lists: list[int | None] = field(default_factory=list)  # the number of the next item, None without numbers
    bullet: str | None = None
    quotes: int = 0
    heading: int = 0
    follows_item: bool = False

    def flush_at(self, tag: str | None) -> None:
        """End the text before the beginning or the end of an element, if it is a block."""
        if tag in _BLOCKS_IN_TITLES or (tag in _BLOCKS and not self.heading):
            self.flush()

    def flush(self) -> None:
        text = "\n".join(line for line in (collapsed(line) for line in "".join(self.inline).split("\n\0")) if line)
        self.inline.clear()
        if text:
            self.put(heading(self.heading, text) if self.heading else escaped(text))

    def put(self, block: str) -> None:
        lines = block.split("\n")
        depth = max(len(self.lists) - 1, 0)
        if self.bullet:
            rest = _INDENT * (depth + 1)
            lines = [f"{_INDENT * depth}{self.bullet}{lines[0]}", *(f"{rest}{line}" for line in lines[1:])]
        elif self.lists:
            lines = [f"{_INDENT * (depth + 1)}{line}" for line in lines]
        quoted = "> " * min(self.quotes, 5)
        block = "\n".join(f"{quoted}{line}".rstrip() for line in lines)
        if self.bullet and self.blocks and self.follows_item:
            self.blocks[-1] += f"\n{block}"  # the items of a list stand on lines next to each other
        else:
            self.blocks.append(block)
        self.follows_item = bool(self.lists)
        self.bullet = None


def markdown_blocks(root: etree._Element) -> list[str]:
    """Return the blocks of the text below an element of HTML."""
    state = _State()
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = local_name(element)
        if event == "end":
            _leave(state, tag)
            if element is not root:
                state.inline.append(element.tail or "")
        elif tag is None or tag in SKIPPED:
            walk.skip_subtree()
        elif tag == "pre" or (tag == "table" and not _is_layout(element)):
            state.flush()
            for block in [_code(element)] if tag == "pre" else _table(element):
                state.put(block)
            walk.skip_subtree()
        else:
            _enter(state, tag, element)
            state.inline.append(element.text or "")
    state.flush()
    return state.blocks


def local_name(element: etree._Element) -> str | None:
    """Return the tag without its namespace, in lower case; None for comments and the like."""
    if not isinstance(element.tag, str):
        return None
    return element.tag.rpartition("}")[2].lower()


def text_of(
    element: etree._Element, skipped: Set[str] = SKIPPED, around: Mapping[Any, tuple[str, str]] = _AROUND
) -> str:
    """Return the words below an element on one line, without elements that are `skipped`. Before and after others
    stands what `around` has for them: in HTML, words of different blocks are apart."""
    parts: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, each in walk:
        tag = local_name(each)
        before, after = around.get(tag, ("", ""))
        if event == "end":
            parts += [after, "" if each is element else each.tail or ""]
        elif tag is None or tag in skipped:
            walk.skip_subtree()
        else:
            parts += [before, _shown(each, tag), each.text or ""]
    return collapsed("".join(parts))


def _shown(element: etree._Element, tag: str) -> str:
    return f" {element.get('alt') or ''} " if tag == "img" else ""


def _enter(state: _State, tag: str, element: etree._Element) -> None:
    state.flush_at(tag)
    if tag in _HEADINGS:
        state.heading = _HEADINGS[tag]
    elif tag in _LISTS:
        state.lists.append(_number(element, "start") if tag == "ol" else None)
    elif tag == "li":
        number = state.lists[-1] if state.lists else None
        state.bullet = "- " if number is None else f"{number}. "
        if number is not None:
            state.lists[-1] = number + 1
    elif tag == "blockquote":
        state.quotes += 1
    elif tag == "br":
        state.inline.append(" " if state.heading else "\n\0")
    elif tag == "img":
        state.inline.append(_shown(element, tag))


def _leave(state: _State, tag: str | None) -> None:
    state.flush_at(tag)
    if tag in _HEADINGS:
        state.heading = 0
    elif tag in _LISTS or tag == "li":
        if state.lists and tag != "li":
            state.lists.pop()
        state.bullet = None
    elif tag == "blockquote":
        state.quotes -= 1
    elif tag in ("td", "th"):
        state.inline.append(" ")


def _code(element: etree._Element) -> str:
    for line_break in element.iter("br"):
        line_break.tail = "\n" + (line_break.tail or "")
    code = "".join(element.itertext()).strip("\n")
    inner = next(element.iterdescendants("code"), None)
    classes = " ".join(each.get("class") or "" for each in (element, inner, element.getparent()) if each is not None)
    named = _LANGUAGE.search(classes)
    return fenced(code, named[1].lower() if named else "") if code.strip() else ""


def _is_layout(element: etree._Element) -> bool:
    """Return whether a table only places its contents: it has blocks in its cells, or one cell in every row."""
    if any(local_name(each) in _BLOCKS_IN_CELLS for each in element.iterdescendants()):
        return True
    return all(sum(local_name(cell) in ("td", "th") for cell in row) < 2 for row in element.iter("{*}tr"))


def _table(element: etree._Element) -> list[str]:
    """Return a table's caption and rows; a cell that spans several rows stands in each of them."""
    rows: list[list[str]] = []
    spanning: dict[int, tuple[int, str]] = {}  # column: (rows left, text)
    for row in element.iter("{*}tr"):
        cells: list[str] = []
        for cell in row:
            if local_name(cell) not in ("td", "th"):
                continue
            _take_spanning(cells, spanning)
            text = text_of(cell)
            across, down = (min(max(_number(cell, name), 1), _MAX_SPAN) for name in ("colspan", "rowspan"))
            for offset in range(across):
                if down > 1:
                    spanning[len(cells)] = (down - 1, text if not offset else "")
                cells.append(text if not offset else "")
        _take_spanning(cells, spanning)
        if any(cells):
            rows.append(cells)
    caption = next((text_of(each) for each in element.iter("{*}caption")), "")
    return [block for block in (escaped(caption), table(rows)) if block]


def _take_spanning(cells: list[str], spanning: dict[int, tuple[int, str]]) -> None:
    while (found := spanning.pop(len(cells), None)) is not None:
        left, text = found
        if left > 1:
            spanning[len(cells)] = (left - 1, text)
        cells.append(text)


def _number(element: etree._Element, name: str) -> int:
    number = element.get(name, "1").strip()
    return int(number) if number.isascii() and number.isdigit() and len(number) < 9 else 1
