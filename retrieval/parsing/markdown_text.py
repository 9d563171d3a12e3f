"""Writing Markdown: blocks, tables and marks, in which text of a document is never taken for markup of a block."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from retrieval.parsing.parsed import Parsed

# What would begin a heading, a fence, a block of HTML or front matter, or underline a heading. The characters that
# Markdown only styles with are left as they are: words are searched for, and read by models.
_BLOCK_MARKUP = re.compile(
    r"^( {0,3})(?=#{1,6}(?:[ \t]|$)|```|~~~|=+[ \t]*$|-+[ \t]*$|<[!/?A-Za-z]|\+\+\+[ \t]*$|(?:[*_-][ \t]*){3,}$)",
    re.MULTILINE,
)
_INDENTED = re.compile(r"^(?: {4,}|\t)[ \t]*", re.MULTILINE)
_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
_SPACE = re.compile(r"\s+")


def collapsed(text: str) -> str:
    """Return a text on one line, without double spaces."""
    return _SPACE.sub(" ", text).strip()


def escaped(text: str) -> str:
    """Return a paragraph's text with everything escaped that would begin another block."""
    return _BLOCK_MARKUP.sub(r"\1\\", _INDENTED.sub("", text))


def heading(level: int, title: str) -> str:
    return f"{'#' * min(max(level, 1), 6)} {collapsed(title)}"


def fenced(code: str, language: str = "") -> str:
    """Return a block of code; its fence is longer than any in the code."""
    longest = max((len(found) for found in _FENCE.findall(code)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a pipe table whose first row is its header; "" without cells. Short rows are filled up."""
    width = max((len(row) for row in rows), default=0)
    if not width:
        return ""
    lines = [_row(row, width) for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _row(cells: Sequence[str], width: int) -> str:
    shown = [collapsed(cell).replace("|", "\\|") for cell in cells]
    return "| " + " | ".join([*shown, *[""] * (width - len(shown))]) + " |"


class MarkdownText:
    """A text that grows by blocks, with an empty line between them, and the marks at its lines."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._lines = 0
        self.marks: list[tuple[int, dict[str, Any]]] = []

    def add(self, *blocks: str) -> None:
        for block in blocks:
            if block.strip():
                trimmed = block.strip("\n")
                self._blocks.append(trimmed)
                self._lines += trimmed.count("\n") + 2

    def mark(self, **metadata: Any) -> None:
        """Let something hold from the next block on."""
        line = self._lines + 1
        if self.marks and self.marks[-1][0] == line:
            self.marks.pop()
        self.marks.append((line, metadata))

    @property
    def text(self) -> str:
        return "\n\n".join(self._blocks) + "\n" if self._blocks else ""

    def parsed(
        self,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        pages: int | None = None,
        warnings: list[str] | None = None,
    ) -> Parsed:
        return Parsed(self.text, title, metadata or {}, self.marks, pages, warnings or [])
