"""The profile *whole*: a document is one chunk up to the model's limit (contract *rules*, "Chunking Strategy")."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from textwrap import shorten
from typing import NamedTuple

from markdown_it.token import Token

from retrieval.chunking.boundaries import Boundary, boundaries_of
from retrieval.chunking.markdown_blocks import Chunk, Heading, Section, SectionIds, SplitDocument, StructuredText, slug
from retrieval.chunking.tables import TableHeaders
from retrieval.chunking.tokens import MIN_MAX_TOKENS, MeasuredText, TokenCounter

MAX_NAMED_CHARACTERS = 100  # of a title in a warning
_HEADINGS_PART = 3  # headings that follow each other take at most a third of the limit
_HEADER_PART = 4  # a header takes at most a quarter of a chunk
_ESTIMATE_SLACK_TOKENS = 16


def split_whole(
    text: str | StructuredText,
    *,
    tokens: TokenCounter,
    max_tokens: int = 8192,
    section: str | None = "",
    levels: tuple[int, int] = (2, 3),
) -> SplitDocument:
    """Split a document only when it has more than `max_tokens`.

    A longer document is split at `##`, a section that is still too long at `###`, and what is then too long between
    paragraphs, sentences, lines, words and finally characters.

    No chunk is longer than `max_tokens`, chunks do not overlap, and sections are not joined. Each chunk has the header
    of its section: its own heading, or above its text the path ("A", below `###` "A > A1"), cut to a quarter of the
    limit. Text before the first `##` is a chunk of its own; a heading without text goes with what follows. A `#` after
    the first `##` is a split as well, because it ends the section above it.

    `section` names a whole document, and text without a heading. Where it is "", a whole document is named by its first
    `##`, else by its first heading; where it is None, by the heading above its first text. `levels` are the two heading
    levels to split at, by default 2 and 3.

    Raises ValueError when max_tokens is below 16, or the levels do not rise from 1 to 6.
    """
    if max_tokens < MIN_MAX_TOKENS:
        raise ValueError(f"max_tokens is at least {MIN_MAX_TOKENS}")
    if not 1 <= levels[0] < levels[1] <= 6:
        raise ValueError("levels rise, from 1 to 6")
    return _Splitter(StructuredText.of(text), tokens, max_tokens, section, levels).split()


class _Part(NamedTuple):
    """A part of a document that is one chunk unless it is too long."""

    start: int
    end: int
    section: Section


class _Splitter:
    def __init__(
        self,
        document: StructuredText,
        tokens: TokenCounter,
        max_tokens: int,
        section: str | None,
        levels: tuple[int, int],
    ) -> None:
        self._document = document
        self._text = MeasuredText(document.text, tokens)
        self._boundaries = boundaries_of(document, document.with_their_text(tokens.count, max_tokens // _HEADINGS_PART))
        self._tables = TableHeaders(document.text, document.tables, tokens.count)
        self._max_tokens = max_tokens
        self._level, self._fallback_level = levels
        self._is_named_by_start = section is None
        self._section = Section(0, section or "", slug(section) if section else "")
        self._headings = document.headings
        self._heading_starts = [heading.start for heading in self._headings]
        self._sections = _sections(self._headings, self._fallback_level)
        self._chunks: list[Chunk] = []
        self._warnings = [*document.warnings, *_unclosed_fences(document)]

    def split(self) -> SplitDocument:
        start, end = self._document.ink(0), self._document.ink_end(0, len(self._document.text))
        if start is not None and self._fits(start, end, ""):
            self._add(start, end, self._section_of_whole(), "")
        elif start is not None:
            for section in self._split_at(self._level, _Part(start, end, self._section)):
                self._add_section(section)
        return SplitDocument(self._chunks, self._warnings)

    def _section_of_whole(self) -> Section:
        if self._section.title or not self._headings:
            return self._section
        if self._is_named_by_start:
            text_start = self._document.below_headings(0, len(self._document.text))
            return next(each for each in reversed(self._document.sections()) if each.start <= text_start)
        first = next((heading for heading in self._headings if heading.level == self._level), self._headings[0])
        return Section(0, first.title, slug(first.title))

    def _split_at(self, level: int, whole: _Part) -> list[_Part]:
        """Split a part at headings of at most `level`; the text before the first `##` is one part of level 2."""
        headings = [heading for heading in self._headings_of(whole.start, whole.end) if heading.level <= level]
        cuts = [whole.start]
        first = next((each.start for each in headings if each.level == level or level != self._level), whole.end)
        for heading in headings:
            above, text_start = self._document.text_start(cuts[-1]), self._document.text_start(heading.start)
            if above < heading.start and text_start >= self._document.text_start(first):
                cuts.append(heading.start)
        if len(cuts) > 1 and self._document.text_start(cuts[-1]) >= whole.end:  # headings at the end
            cuts.pop()
        spans = [(start, self._document.ink_end(start, end)) for start, end in pairwise([*cuts, whole.end])]
        return [_Part(start, end, self._section_of(level, start, end, whole)) for start, end in spans]

    def _section_of(self, level: int, start: int, end: int, whole: _Part) -> Section:
        """Return the section of the last heading above the text, else that of the whole."""
        headings = [heading for heading in self._headings_of(start, end) if heading.start in self._sections]
        content_start = self._document.text_start(start)
        above = [heading for heading in headings if heading.start < content_start]
        of_level = [heading for heading in above if heading.level <= level]
        named = of_level[-1:] or above[:1]
        return self._sections[named[0].start] if named else whole.section

    def _add_section(self, section: _Part) -> None:
        for part in [section] if self._is_chunk(section) else self._split_at(self._fallback_level, section):
            if self._is_chunk(part):
                self._add(*part, self._header(part, part.end))
            else:
                self._add_pieces(part)

    def _add_pieces(self, part: _Part) -> None:
        worst = Boundary.PARAGRAPHS
        header = self._header(part, self._document.text_start(part.start))
        start = self._document.ink(part.start, part.end)
        while start is not None:
            cut, boundary = self._cut(start, part.end, header)
            self._add(start, cut, part.section, header)
            worst = max(worst, boundary)
            header = self._header(part, part.start)
            start = self._document.ink(cut, part.end)
        title = shorten(part.section.title, MAX_NAMED_CHARACTERS, placeholder="…")
        named = f"Section '{title}'" if title else "Text without a heading"
        self._warnings.append(
            f"{named} has more than {self._max_tokens} tokens and no heading to split at: "
            f"it was cut between {worst.name.lower()}"
        )

    def _cut(self, start: int, end: int, header: str) -> tuple[int, Boundary]:
        """Return where the chunk from `start` ends, as late as possible."""
        if self._fits(start, end, header):
            return end, Boundary.PARAGRAPHS
        above = self._above(start, header)
        tokens = self._max_tokens - self._text.count_above(above)
        while tokens > 1:
            latest = min(max(self._text.reach(start, tokens), start + 1), end)
            cut, boundary = self._boundaries.last(start + 1, latest)
            cut = cut if cut > start else latest  # within a grapheme cluster that is longer than a chunk
            excess = self._text.count(start, cut, above=above) - self._max_tokens
            if excess <= 0:
                return cut, boundary
            tokens -= excess
        return start + 1, Boundary.CHARACTERS

    def _is_chunk(self, part: _Part) -> bool:
        return self._fits(part.start, part.end, self._header(part, part.end))

    def _fits(self, start: int, end: int, header: str) -> bool:
        may_fit = self._text.about(start, end) <= self._max_tokens + _ESTIMATE_SLACK_TOKENS
        return may_fit and self._text.count(start, end, above=self._above(start, header)) <= self._max_tokens

    def _above(self, start: int, header: str) -> str:
        """Return what stands above a chunk's own text: its section's header, and that of a table it goes on with."""
        return (f"{header}\n\n" if header else "") + self._tables.above(start, self._max_tokens)

    def _header(self, part: _Part, end: int) -> str:
        """Return the header for the part's text, at most a quarter of a chunk; "" when the text up to `end` has it."""
        title = part.section.title
        if any(heading.title == title for heading in self._headings_of(part.start, end)):
            return ""
        measured = MeasuredText(title, self._text.tokens)
        room = self._max_tokens // _HEADER_PART
        return title if measured.about(0, len(title)) <= room else title[: measured.reach(0, room - 1)] + "…"

    def _headings_of(self, start: int, end: int) -> list[Heading]:
        return self._headings[bisect_left(self._heading_starts, start) : bisect_left(self._heading_starts, end)]

    def _add(self, start: int, end: int, section: Section, header: str) -> None:
        first = self._document.ink(start, end)
        if first is None:  # indentation longer than a chunk
            return
        self._chunks.append(self._document.chunk(len(self._chunks), section, first, end, self._above(first, header)))


def _sections(headings: list[Heading], lowest: int) -> dict[int, Section]:
    """Return the sections of headings down to the level `lowest`, by their starts.

    A heading of that level below a higher one is called "A > A1".
    """
    sections: dict[int, Section] = {}
    ids = SectionIds()
    above: Section | None = None
    for heading in headings:
        if heading.level > lowest:
            continue
        parents = [above] if above and heading.level == lowest else []
        titles = [*(parent.title for parent in parents), heading.title]
        section_id = ids.new([*(parent.section_id for parent in parents), slug(heading.title)])
        sections[heading.start] = Section(heading.start, " > ".join(filter(None, titles)), section_id)
        if heading.level < lowest:
            above = sections[heading.start]
    return sections


def _unclosed_fences(document: StructuredText) -> list[str]:
    return [
        f"The code fence of line {token.map[0] + 1} is never closed"
        for token in document.tokens
        if token.type == "fence" and token.map and not _is_closed(document, token)
    ]


def _is_closed(document: StructuredText, fence: Token) -> bool:
    assert fence.map
    first, end = fence.map
    last = document.line(end - 1).strip(" \t>")
    return end - first > 1 and last.startswith(fence.markup) and not last.strip(fence.markup[0])
