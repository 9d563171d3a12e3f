"""The places where a text may be cut: between paragraphs, sentences, lines or words."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from operator import itemgetter

from retrieval.chunking.markdown_blocks import StructuredText, Syntax

# Words whose full stop ends no sentence. "No." is not among them: it is more often an answer than a number.
_ABBREVIATION = re.compile(
    r"(?:^|[^\w.])(?:(?:[^\W\d_]\.)*[^\W\d_]"
    r"|Dr|Mr|Mrs|Ms|Prof|St|Sr|Jr|vs|etc|cf|al|Nr|Fig|Eq|Vol|pp|approx|ca|bzw|usw|vgl|bspw)\.$",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"(?:^|\n)[ \t]*\d{1,9}\.$")
_LONGEST_BEFORE_FULL_STOP = 16  # characters examined for an abbreviation or a list number
_SENTENCE_END = re.compile(r"(?<=[.!?…])[)\]\"'»”’*_]{0,4}\s+|[。！？][」』）”’]{0,4}\s*")
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)*\n")
_LINE = re.compile(r"\n")
_WORD_START = re.compile(r"(?<=\s)\S")
_LINES_OF_THEIR_OWN = frozenset({"fence", "code_block", "html_block", "table"})


class Boundary(IntEnum):
    """The kinds of place for a cut, the least harmful first."""

    PARAGRAPHS = 1
    SENTENCES = 2
    LINES = 3
    WORDS = 4
    CHARACTERS = 5


@dataclass(frozen=True)
class Boundaries:
    """The starts of paragraphs in a text, and those of sentences and paragraphs: character positions, ascending.

    Lines and words that start in one of the spans `whole`, after its start and up to its end, are no places to cut.
    """

    document: StructuredText
    paragraphs: list[int]
    sentences: list[int]
    whole: Sequence[tuple[int, int]] = ()

    def last(self, earliest: int, latest: int) -> tuple[int, Boundary]:
        """Return the best place to cut from `earliest` to `latest`; among equally good ones, the last.

        It is before `earliest` when all in between is part of one grapheme cluster.
        """
        for places, boundary in ((self.paragraphs, Boundary.PARAGRAPHS), (self.sentences, Boundary.SENTENCES)):
            found = bisect_right(places, latest)
            if found and places[found - 1] >= earliest:
                return places[found - 1], boundary
        line = self.document.text.rfind("\n", max(earliest - 1, 0), latest) + 1
        if line >= earliest and line > 0 and not is_within(self.whole, line):
            return line, Boundary.LINES
        *_, word = [0, *self._word_starts(earliest, latest)]
        return (word, Boundary.WORDS) if word else (self.document.grapheme_start(latest), Boundary.CHARACTERS)

    def starts(self, earliest: int, latest: int) -> Iterator[int]:
        """Yield places from `earliest` to `latest` to start at: those of sentences, then those of words, ascending."""
        yield from self.sentences[bisect_left(self.sentences, earliest) : bisect_right(self.sentences, latest)]
        yield from self._word_starts(earliest, latest)

    def _word_starts(self, earliest: int, latest: int) -> Iterator[int]:
        starts = (match.start() for match in _WORD_START.finditer(self.document.text, earliest, latest + 1))
        return (
            start
            for start in starts
            if self.document.grapheme_start(start) == start and not is_within(self.whole, start)
        )


def is_within(spans: Sequence[tuple[int, int]], place: int) -> bool:
    """Return whether a place is after the start of one of the ascending spans, up to its end."""
    found = bisect_left(spans, place, key=itemgetter(1))
    return found < len(spans) and spans[found][0] < place


def boundaries_of(document: StructuredText, held: Sequence[tuple[int, int]] = ()) -> Boundaries:
    """Return the boundaries of a text: of code those of its lines take the place of those of sentences. Nothing is cut
    after the start of a span of `held` and up to its end."""
    if not document.is_plain:
        return _markdown_boundaries(document, held)
    paragraphs = _after(document.text, _BLANK_LINES)
    if document.syntax is Syntax.CODE:
        return Boundaries(document, paragraphs, _after(document.text, _LINE))
    return Boundaries(document, paragraphs, sorted({*paragraphs, *_sentence_starts(document.text)}))


def _markdown_boundaries(document: StructuredText, held: Sequence[tuple[int, int]]) -> Boundaries:
    """Return the boundaries of Markdown.

    Blocks are paragraphs, and a heading is not cut off from the block below it. List items, table rows and lines of
    code are sentences.
    """
    blocks = document.block_starts(0)
    headings = {heading.start for heading in document.headings}
    below_headings = {start for before, start in pairwise(blocks) if before in headings}
    paragraphs = [start for start in blocks if start not in below_headings and not is_within(held, start)]
    parts = {document.start_of(token) for token in document.tokens if token.map and token.level}
    for token in document.tokens:
        if token.map and token.type in _LINES_OF_THEIR_OWN:
            parts.update(document.line_starts[token.map[0] : token.map[1]])
    parts.update(_sentence_starts(document.text))
    headers = [(table.start, table.body) for table in document.tables]  # kept whole, and with the first row
    whole = sorted([*headers, *held])
    parts = {start for start in parts - below_headings if not is_within(whole, start)}
    return Boundaries(document, paragraphs, sorted(parts.union(paragraphs)), whole)


def _after(text: str, pattern: re.Pattern[str]) -> list[int]:
    return [match.end() for match in pattern.finditer(text)]


def _sentence_starts(text: str) -> list[int]:
    return [match.end() for match in _SENTENCE_END.finditer(text) if _ends_sentence(text, match)]


def _ends_sentence(text: str, end: re.Match[str]) -> bool:
    if text[end.end() : end.end() + 1].islower():
        return False
    if text[end.start() - 1 : end.start()] != ".":
        return True
    before = text[max(end.start() - _LONGEST_BEFORE_FULL_STOP, 0) : end.start()]
    return not _ABBREVIATION.search(before) and not _LIST_NUMBER.search(before)
