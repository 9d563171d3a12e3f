"""The profile *sections*: Markdown cut at each of its headings, text between paragraphs.

What is longer than the limit is cut again: between blocks, blocks inside them (list items), lines, sentences, words and
characters, each only where the one before leaves too much. A scrap that remains, such as a heading above a long table
or the last line of a long paragraph, is no chunk of its own: its section's heading would make it the best hit, and it
tells nothing. It joins the chunk beside it, or both are cut anew, near their middle. A cut is a position in the text,
so nothing is lost or duplicated except white space at the edges and a table's header, which each chunk that begins
further down in the table repeats. Tokens are estimated, so no tokenizer is loaded.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from retrieval.chunking.boundaries import is_within
from retrieval.chunking.markdown_blocks import Chunk, StructuredText
from retrieval.chunking.tables import TableHeaders

DEFAULT_MAX_TOKENS = 256  # the limit of all-MiniLM-L6-v2
_RESERVED_TOKENS = 12  # the two that the model adds, and room for errors of the estimate
_HEADINGS_PART = 3  # headings that follow each other take at most a third of the limit
_SCRAP_PART = 6  # less than a sixth of the limit is a scrap, where its section has more
_TRIED = 32  # cuts of a kind, which bounds the work where none will do

_ATOM = re.compile(r"[A-Za-zÀ-ɏ]{1,24}|\d{1,24}|\S")  # bounded, so that an endless word can be cut somewhere
_LINE = re.compile(r"\n")
_SENTENCE = re.compile(r"[.!?…][)\"'»”]*\s+|[。！？]")
_WORD = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")

Cuts = Callable[[int, int], Iterable[int]]


def split_sections(text: str | StructuredText, *, max_tokens: int = DEFAULT_MAX_TOKENS) -> list[Chunk]:
    """Split Markdown (CommonMark and tables) at its headings, and other texts into whole paragraphs where they fit.

    YAML front matter belongs to the text before the first heading; a plain text is one section with the id "". A
    section's path and its chunk's text together stay within `max_tokens`. A heading without text is part of the section
    below it.
    """
    if max_tokens < 1:
        raise ValueError("max_tokens is at least 1")
    document = StructuredText.of(text)
    headers = TableHeaders(document.text, document.tables, estimate_tokens)
    levels = _levels(document)
    sections = document.sections()
    section_starts = [section.start for section in sections]
    held = document.with_their_text(estimate_tokens, max_tokens // _HEADINGS_PART)
    chunks: list[Chunk] = []
    starts = [0, *(start for start in section_starts[1:] if start and not is_within(held, start))]
    for section_start, section_end in pairwise([*starts, len(document.text)]):
        below = document.below_headings(section_start, section_end)
        section = sections[bisect_right(section_starts, below) - 1]
        limit = max(max_tokens - _RESERVED_TOKENS - estimate_tokens(section.title), max_tokens // 2, 1)
        room = _Room(document.text, limit, headers, held)
        for start, end in _without_scraps(room, _fit(room, section_start, section_end, levels), levels):
            if (first := document.ink(start, end)) is not None:
                chunks.append(document.chunk(len(chunks), section, first, end, headers.above(first, limit)))
    return chunks


def _levels(document: StructuredText) -> list[Cuts]:
    """Return where a text may be cut, the least harmful cuts first."""
    patterns = [_LINE, _SENTENCE, _WORD, _ATOM]
    levels: list[Cuts] = []
    if document.is_plain:
        patterns.insert(0, _BLANK_LINES)
    else:
        depth = max((token.level for token in document.tokens if token.map), default=0)
        levels = [_cuts_at(document.block_starts(level)) for level in range(depth + 1)]
    # The last: within a grapheme cluster that is longer than a chunk.
    return [*levels, *(_cuts_after(document, pattern) for pattern in patterns), range]


def estimate_tokens(text: str) -> int:
    """Estimate the WordPiece tokens of a text without a vocabulary, erring upwards on prose and code."""
    return sum(1 + (len(atom) - 1) // (2 if atom[0].isdigit() else 5) for atom in _ATOM.findall(text))


class _Room:
    """How many tokens a chunk that begins at a place may have, beside the table's header that it repeats."""

    def __init__(self, text: str, limit: int, headers: TableHeaders, held: list[tuple[int, int]]) -> None:
        self._text = text
        self._limit = limit
        self._headers = headers
        self._held = held

    def tokens(self, start: int, end: int) -> int:
        return estimate_tokens(self._text[start:end])

    def at(self, start: int) -> int:
        return self._limit - self._headers.tokens_above(start, self._limit)

    def may_cut(self, place: int) -> bool:
        return not self._headers.hold(place, self._limit) and not is_within(self._held, place)

    def has_for(self, start: int, end: int) -> bool:
        return self.tokens(start, end) <= self.at(start)

    def is_scrap(self, start: int, end: int) -> bool:
        return self.tokens(start, end) * _SCRAP_PART < self._limit


def _fit(room: _Room, start: int, end: int, levels: list[Cuts]) -> Iterator[tuple[int, int]]:
    """Yield spans that cover the text from `start` to `end`, each with room for it unless it cannot be cut further."""
    if not levels or room.has_for(start, end):
        yield start, end
        return
    open_at, open_tokens = start, 0
    bounds = [start, *(cut for cut in levels[0](start, end) if start < cut < end and room.may_cut(cut)), end]
    for piece_start, piece_end in pairwise(bounds):
        tokens = room.tokens(piece_start, piece_end)
        if open_tokens + tokens <= room.at(open_at):
            open_tokens += tokens
            continue
        if open_at < piece_start:
            yield open_at, piece_start
        open_at, open_tokens = piece_start, tokens
        if tokens > room.at(piece_start):
            yield from _fit(room, piece_start, piece_end, levels[1:])
            open_at, open_tokens = piece_end, 0
    if open_at < end:
        yield open_at, end


def _without_scraps(room: _Room, spans: Iterable[tuple[int, int]], levels: list[Cuts]) -> list[tuple[int, int]]:
    """Return the spans of one section, which follow each other, with scraps joined to the span before or after."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and (room.is_scrap(start, end) or room.is_scrap(*joined[-1])):
            before, _ = joined.pop()
            cuts = [] if room.has_for(before, end) else [_middle(room, before, end, levels) or start]
            joined += pairwise([before, *cuts, end])
        else:
            joined.append((start, end))
    return joined


def _middle(room: _Room, start: int, end: int, levels: list[Cuts]) -> int | None:
    """Return the cut nearest to the middle that leaves no scrap, between the largest parts that can be; None where
    there is none."""
    for cuts in levels:
        places = [place for place in cuts(start, end) if start < place < end and room.may_cut(place)]
        places.sort(key=lambda place: abs(2 * place - start - end))
        for place in places[:_TRIED]:
            parts = (start, place), (place, end)
            if all(room.has_for(*part) and not room.is_scrap(*part) for part in parts):
                return place
    return None


def _cuts_at(places: list[int]) -> Cuts:
    return lambda start, end: places[bisect_left(places, start) : bisect_left(places, end)]


def _cuts_after(document: StructuredText, pattern: re.Pattern[str]) -> Cuts:
    def cuts(start: int, end: int) -> Iterator[int]:
        places = (match.end() for match in pattern.finditer(document.text, start, end))
        return (place for place in places if document.grapheme_start(place) == place)

    return cuts
