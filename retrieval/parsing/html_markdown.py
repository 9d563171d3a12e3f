"""HTML written as Markdown: headings, paragraphs, lists, code and tables, without links' addresses and without styling.

The tree is walked by its events, so depth costs nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lxml import etree

from retrieval.parsing.html_tables import layouts, table_blocks
from retrieval.parsing.html_text import BLOCKS, HEADINGS, LISTS, REPLACED, SKIPPED, local_name, number_of, replacement
from retrieval.parsing.parsed import MarkdownText, collapsed, escaped, fenced, heading

_BLOCKS_IN_TITLES = frozenset((*HEADINGS, *LISTS, "li", "blockquote"))  # other blocks do not end a heading
_LANGUAGE = re.compile(r"(?<![\w-])(?:language-|lang-|highlight-|sourceCode |code )(?!literal)([A-Za-z0-9+#]{1,20})")
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
        if tag in _BLOCKS_IN_TITLES or (tag in BLOCKS and not self.heading):
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
    known: dict[etree._Element, bool] = {}  # of tables, whether they only place their contents
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = local_name(element)
        if event == "end":
            _leave(state, tag)
            if element is not root:
                state.inline.append(element.tail or "")
        elif tag is None or tag in SKIPPED:
            walk.skip_subtree()
        elif tag in REPLACED:
            state.inline.append(replacement(element, tag))
            walk.skip_subtree()
        elif tag == "pre" or (tag == "table" and not _is_layout(element, known)):
            state.flush()
            for block in [_code(element)] if tag == "pre" else table_blocks(element):
                state.put(block)
            walk.skip_subtree()
        else:
            _enter(state, tag, element)
            state.inline.append(element.text or "")
    state.flush()
    return state.blocks


def opening_heading(document: MarkdownText) -> str | None:
    """Return the heading that a text begins with; None when other words stand above its first heading."""
    first = document.text.partition("\n")[0]
    return first.lstrip("#").strip() or None if first.startswith("#") else None


def _enter(state: _State, tag: str, element: etree._Element) -> None:
    state.flush_at(tag)
    if tag in HEADINGS:
        state.heading = HEADINGS[tag]
    elif tag in LISTS:
        state.lists.append(number_of(element, "start") if tag == "ol" else None)
    elif tag == "li":
        number = state.lists[-1] if state.lists else None
        state.bullet = "- " if number is None else f"{number}. "
        if number is not None:
            state.lists[-1] = number + 1
    elif tag == "blockquote":
        state.quotes += 1
    elif tag == "br":
        state.inline.append(" " if state.heading else "\n\0")


def _leave(state: _State, tag: str | None) -> None:
    state.flush_at(tag)
    if tag in HEADINGS:
        state.heading = 0
    elif tag in LISTS or tag == "li":
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


def _is_layout(element: etree._Element, known: dict[etree._Element, bool]) -> bool:
    if element not in known:
        known.update(layouts(element))
    return known[element]
