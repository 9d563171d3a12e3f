"""The structure of a Markdown document (CommonMark and tables): its blocks, headings and sections."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.parser_block import RuleFuncBlockType
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from retrieval.chunking.tables import HEADER_LINES, Table, read_table

# Longer titles are cut: every path below repeats them, and inline parsing takes quadratic time on some texts.
MAX_TITLE_CHARACTERS = 1_000
# A text that takes more steps is read as plain text. A step takes about a microsecond. A line takes some ten steps; one
# of nothing but nested quotes and lists takes some hundred.
MAX_STEPS = 300_000
_STEPS_OF_TOKEN = 3
# In one document; titles beyond that keep their markup.
MAX_MARKED_CHARACTERS = 20_000

_LINE = re.compile(r"\n")
_MARKUP = re.compile(r"[^\w ,.:;?/()'\"-]|_")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?=[\w\"'-]+[ \t]*:)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading outside any other block. start: its first character; level: 1 to 6; title: without markup."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Section:
    """The text from a heading to the next. title: heading path "A > B"; section_id: slug path, unique."""

    start: int
    title: str
    section_id: str


class _TooManyStepsError(Exception):
    """Reading a text takes more than `MAX_STEPS`."""


class _Tokens(list[Token]):
    """The parser's tokens; counts steps, one for each rule tried and some for each token, and stops at too many."""

    steps = 0

    def take(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise _TooManyStepsError

    def append(self, token: Token) -> None:
        self.take(_STEPS_OF_TOKEN)
        super().append(token)


class MarkdownDocument:
    """A text with normalised line ends, and the places of its blocks.

    Front matter is part of the text but not a block. A text that takes too many steps to read `is_plain`: its blocks
    are unknown. Functions that read Markdown accept a text or one of these, so that several can share one reading.
    """

    def __init__(self, text: str) -> None:
        self.text = normalised(text)
        self.line_starts = line_starts(self.text)
        self.front_matter = _FRONT_MATTER.match(self.text)
        self._references: dict[str, Any] = {}
        self._parser = MarkdownIt("commonmark").enable("table")
        self._parser.block.ruler.at("table", read_table, {"alt": ["paragraph", "reference"]})
        for rule in tuple(self._parser.block.ruler.__rules__):
            self._parser.block.ruler.at(rule.name, _counted(rule.fn), {"alt": rule.alt})
        hidden = "\n" * self.front_matter[0].count("\n") if self.front_matter else ""
        body = self.text[self.front_matter.end() :] if self.front_matter else self.text
        tokens = _Tokens()
        try:
            self._parser.block.parse((hidden + body).replace("\0", "\ufffd"), self._parser, self._references, tokens)
        except _TooManyStepsError:
            tokens.clear()
        self.is_plain = tokens.steps > MAX_STEPS
        self.tokens: list[Token] = tokens
        self._marked_characters = 0

    @classmethod
    def of(cls, text: str | MarkdownDocument) -> MarkdownDocument:
        return text if isinstance(text, MarkdownDocument) else cls(text)

    @property
    def warnings(self) -> list[str]:
        """Return one sentence when the text is read as plain text, else nothing."""
        lines = len(self.line_starts)
        sentence = f"The Markdown is too long or too deep to be read: its {lines} lines are split as plain text"
        return [sentence] if self.is_plain else []

    @cached_property
    def headings(self) -> list[Heading]:
        return [
            Heading(self.start_of(token), int(token.tag[1:]), self._title(inline.content))
            for token, inline in pairwise(self.tokens)
            if token.type == "heading_open" and token.level == 0
        ]

    @cached_property
    def tables(self) -> list[Table]:
        return [
            Table(*(self._line_start(line) for line in (token.map[0], token.map[0] + HEADER_LINES, token.map[1])))
            for token in self.tokens
            if token.type == "table" and token.map
        ]

    def sections(self) -> list[Section]:
        """Return the text before the first heading as a section, then one section for each heading of any level."""
        sections = [Section(0, "", "")]
        ids = SectionIds()
        path: list[tuple[Heading, str]] = []
        for heading in self.headings:
            while path and path[-1][0].level >= heading.level:
                path.pop()
            section_id = ids.new([*(above_id for _, above_id in path[-1:]), slug(heading.title)])
            path.append((heading, section_id))
            sections.append(Section(heading.start, " > ".join(above.title for above, _ in path), section_id))
        return sections

    def block_starts(self, level: int) -> list[int]:
        """Return where the blocks start that are nested in `level` others (0: in none), ascending."""
        return sorted({self.start_of(token) for token in self.tokens if token.map and token.level == level})

    def start_of(self, token: Token) -> int:
        return self.line_starts[token.map[0]] if token.map else 0

    def line_of(self, place: int) -> int:
        """Return the number of the line with the character at `place`, from 1."""
        return bisect_right(self.line_starts, place)

    def line(self, index: int) -> str:
        """Return the line at `index`, from 0."""
        return self.text[self.line_starts[index] : self._line_start(index + 1)].rstrip("\n")

    def _line_start(self, index: int) -> int:
        return self.line_starts[index] if index < len(self.line_starts) else len(self.text)

    def _title(self, content: str) -> str:
        if len(content) > MAX_TITLE_CHARACTERS:
            content = content[:MAX_TITLE_CHARACTERS] + "…"
        if _MARKUP.search(content) and self._marked_characters < MAX_MARKED_CHARACTERS:
            self._marked_characters += len(content)
            children: list[Token] = []
            self._parser.inline.parse(content, self._parser, self._references, children)
            content = "".join(child.content or " " for child in children)
        return " ".join(content.split())


def markdown_title(text: str | MarkdownDocument) -> str | None:
    """Return the title from the front matter, else the highest heading, else None."""
    document = MarkdownDocument.of(text)
    named = _named_title(document.front_matter[0]) if document.front_matter else None
    return named or highest_heading(document)


def highest_heading(document: MarkdownDocument) -> str | None:
    """Return the first heading of the highest rank, None when there is none."""
    headings = [heading for heading in document.headings if heading.title]
    return min(headings, key=lambda heading: heading.level).title if headings else None


def _counted(rule: RuleFuncBlockType) -> RuleFuncBlockType:
    def counted(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
        state.tokens.take(1)  # type: ignore[attr-defined]
        return rule(state, start_line, end_line, silent)

    return counted


def _named_title(front_matter: str) -> str:
    """Return the value of the first line `title: …`, without quotation marks; "" when there is none."""
    for line in front_matter.split("\n"):
        name, _, value = line.partition(":")
        if name.rstrip(" \t") == "title" and value.strip(" \t"):
            return value.strip(" \t").strip("\"'")
    return ""


class SectionIds:
    """Hands out unique slug paths by appending a number to one already used; "" is the document's own."""

    def __init__(self) -> None:
        self._taken = {"": 1}  # section id → the last number given to it

    def new(self, path: Iterable[str]) -> str:
        section_id = "/".join(path)
        candidate, number = section_id, self._taken.get(section_id, 0)
        while candidate in self._taken:
            number += 1
            candidate = f"{section_id}-{number}"
        self._taken[section_id] = max(number, 1)
        self._taken.setdefault(candidate, 1)
        return candidate


def slug(title: str) -> str:
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "section"


def line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _LINE.finditer(text))]


def normalised(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
