"""The structure of a text: of Markdown (CommonMark and tables) its blocks, headings and sections; and its chunks."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import regex
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
_INK = re.compile(r"\S")
_MARKUP = re.compile(r"[^\w ,.:;?/()'\"-]|_")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?=[\w\"'-]+[ \t]*:)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")

# `{#id .class}` of Pandoc and others, `{: #id}` of kramdown, `{/* #id */}` of MDX.
_ATTRIBUTES = re.compile(r"\{(?::?\s*[#.]\w|/\*)[^{}]*\}$")
# What of a block says nothing: images, the links around them, tags, and characters by their names.
_WORDLESS = re.compile(r"!\[[^\[\]]*\](?:\([^()]*\)|\[[^\[\]]*\])?|<[^<>]*>|&\w+;")
_EMPTY_LINK = re.compile(r"\[\s*\]\([^()]*\)")
_WORD = re.compile(r"\w")
_COMMENT, _COMMENT_END = "<!--", "-->"

# Only at such places may a cluster go on: before a character that joins the one before it, or after one that joins.
_MAY_GO_ON = regex.compile(
    r"[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=SM}\p{GCB=V}\p{GCB=T}\p{GCB=RI}]"
    r"|(?<=[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=PP}\p{GCB=L}]).",
    regex.DOTALL,
)
# A flag is two letters. In a row of flags, `\X` by itself would count from the first one for each.
_CLUSTER = regex.compile(r"\p{GCB=RI}{2}[\p{GCB=EX}\p{GCB=ZWJ}\p{GCB=SM}]*|\X")


class Syntax(StrEnum):
    """How to read a text: Markdown has headings and blocks; the lines of code take the place of sentences."""

    MARKDOWN = "markdown"
    TEXT = "text"
    CODE = "code"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    section: heading path "A > B", "" when no heading is above. section_id: its slug path, unique in the document.
    chunk_index: position in the document, from 0. start_line: from 1. text_line: that of the first text which is no
    heading, the same as `start_line` where there is none.
    """

    text: str
    section: str
    section_id: str
    chunk_index: int
    start_line: int
    text_line: int


@dataclass(frozen=True, slots=True)
class SplitDocument:
    """The chunks in document order, and `warnings`: sentences about what made the Markdown hard to split."""

    chunks: list[Chunk]
    warnings: list[str]


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


class StructuredText:
    """A text with normalised line ends, and of Markdown the places of its blocks.

    Front matter is part of the text but not a block. Plain text and code have no blocks, nor has Markdown that takes
    too many steps to read: it `is_plain`. Functions that split texts accept a text, which is Markdown, or one of these,
    so that several can share one reading.
    """

    def __init__(self, text: str, syntax: Syntax = Syntax.MARKDOWN) -> None:
        self.text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        self.syntax = syntax
        self.line_starts = [0, *(match.end() for match in _LINE.finditer(self.text))]
        self.tokens: list[Token] = []
        self.front_matter = _FRONT_MATTER.match(self.text) if syntax is Syntax.MARKDOWN else None
        self.is_plain = syntax is not Syntax.MARKDOWN or not self._has_read()

    @classmethod
    def of(cls, text: str | StructuredText, syntax: Syntax = Syntax.MARKDOWN) -> StructuredText:
        return text if isinstance(text, StructuredText) else cls(text, syntax)

    def _has_read(self) -> bool:
        """Read the blocks of Markdown. Return whether that took no more steps than it may."""
        self._marked_characters = 0
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
            return False
        self.tokens = tokens
        return True

    @property
    def warnings(self) -> list[str]:
        """Return one sentence when Markdown is read as plain text, else nothing."""
        lines = len(self.line_starts)
        sentence = f"The Markdown is too long or too deep to be read: its {lines} lines are split as plain text"
        return [sentence] if self.is_plain and self.syntax is Syntax.MARKDOWN else []

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

    @cached_property
    def _blocks(self) -> list[tuple[int, bool]]:
        """Return where each block starts that is in no other, and whether it says something: headings do not, nor do
        rules, comments, images and empty lists."""
        blocks = [(0, True)] if self.front_matter else []
        is_heading = False
        for token in self.tokens:
            if token.map and token.level == 0:
                is_heading = token.type == "heading_open"
                blocks.append((self.start_of(token), token.type == "table"))
            if not is_heading and not blocks[-1][1] and _says_something(token):
                blocks[-1] = blocks[-1][0], True
        return blocks

    @cached_property
    def text_starts(self) -> list[int]:
        """Return where the blocks start that say something, ascending."""
        return [start for start, says_something in self._blocks if says_something]

    def below_headings(self, place: int, end: int) -> int:
        """Return where the text starts below the headings at `place`: there itself where there are none, or no text up
        to `end`."""
        block = bisect_right(self._blocks, (place, True)) - 1
        if block >= 0 and self._blocks[block][1]:
            return place
        found = self.text_start(place)
        return found if found < end else place

    def text_start(self, place: int) -> int:
        """Return where the first block from `place` on starts that says something, the end of the text if none does."""
        found = bisect_left(self.text_starts, place)
        return self.text_starts[found] if found < len(self.text_starts) else len(self.text)

    def with_their_text(self, count: Callable[[str], int], most: int) -> list[tuple[int, int]]:
        """Return spans after whose start and up to whose end a cut would part headings from the text below them or, at
        the end of the text, from that above. Of headings that follow each other and have more than `most` tokens, as
        `count` counts them, only the last do."""
        spans: list[tuple[int, int]] = []
        for end, run in groupby(self.headings, key=lambda heading: self.text_start(heading.start)):
            starts = [heading.start for heading in run]
            if not spans and self.text_start(0) == end:
                starts[0] = 0  # what is above the first heading says nothing either
            tokens, start = 0, end
            for each in reversed(starts):
                tokens += count(self.text[each:start])
                if tokens > most:
                    break
                start = each
            if start < end:
                spans.append((start if end < len(self.text) else start - 1, end))
        return spans

    def start_of(self, token: Token) -> int:
        return self.line_starts[token.map[0]] if token.map else 0

    def line_of(self, place: int) -> int:
        """Return the number of the line with the character at `place`, from 1."""
        return bisect_right(self.line_starts, place)

    def line(self, index: int) -> str:
        """Return the line at `index`, from 0."""
        return self.text[self.line_starts[index] : self._line_start(index + 1)].rstrip("\n")

    def ink(self, start: int, end: int | None = None) -> int | None:
        """Return the start of the first line, or part of one, from `start` on that is not blank.

        None when the text is blank up to `end`.
        """
        found = _INK.search(self.text, start, len(self.text) if end is None else end)
        return max(start, self.text.rfind("\n", start, found.start()) + 1) if found else None

    def ink_end(self, start: int, end: int) -> int:
        """Return where the text from `start` to `end` ends without its trailing white space."""
        return start + len(self.text[start:end].rstrip())

    def chunk(self, index: int, section: Section, start: int, end: int, above: str) -> Chunk:
        """Return a chunk of a section: `above`, and the text from `start` to `end` without white space at its end."""
        text = above + self.text[start:end].rstrip()
        text_line = self.line_of(self.below_headings(start, end))
        return Chunk(text, section.title, section.section_id, index, self.line_of(start), text_line)

    def grapheme_start(self, place: int) -> int:
        """Return the start of the grapheme cluster (what a reader takes for one character, such as a flag, a family or
        a letter with its accents) that goes on at `place`, `place` itself when none does."""
        if not 0 < place < len(self.text) or not _MAY_GO_ON.match(self.text, place):
            return place
        return self._grapheme_starts[bisect_right(self._grapheme_starts, place) - 1]

    @cached_property
    def _grapheme_starts(self) -> list[int]:
        return [match.start() for match in _CLUSTER.finditer(self.text)]

    def _line_start(self, index: int) -> int:
        return self.line_starts[index] if index < len(self.line_starts) else len(self.text)

    def _title(self, content: str) -> str:
        if len(content) > MAX_TITLE_CHARACTERS:
            content = content[:MAX_TITLE_CHARACTERS] + "…"
        content = _ATTRIBUTES.sub("", content.rstrip())
        if _MARKUP.search(content) and self._marked_characters < MAX_MARKED_CHARACTERS:
            self._marked_characters += len(content)
            children: list[Token] = []
            self._parser.inline.parse(content, self._parser, self._references, children)
            content = "".join(child.content or " " for child in children)
        return " ".join(content.split())


def opening_heading(document: StructuredText) -> str | None:
    """Return the heading with which the text begins, None when there is text above the first one."""
    first = next((heading for heading in document.headings if heading.title), None)
    above = document.front_matter.end() if document.front_matter else 0
    return first.title if first and first.start <= document.text_start(above) else None


def _says_something(token: Token) -> bool:
    content = token.content
    if token.type == "html_block" and content.lstrip().startswith(_COMMENT):
        content = content.rpartition(_COMMENT_END)[2]
    if token.type in ("inline", "html_block"):
        content = _EMPTY_LINK.sub("", _WORDLESS.sub("", content))
    return _WORD.search(content) is not None


def _counted(rule: RuleFuncBlockType) -> RuleFuncBlockType:
    def counted(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
        state.tokens.take(1)  # type: ignore[attr-defined]
        return rule(state, start_line, end_line, silent)

    return counted


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
