"""The profile *windows*: chunks of similar size that overlap (contract *documents*, "Chunking Strategy")."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain

from retrieval.chunking.boundaries import boundaries_of
from retrieval.chunking.markdown_blocks import Chunk, StructuredText
from retrieval.chunking.tables import TableHeaders
from retrieval.chunking.tokens import MIN_MAX_TOKENS, MeasuredText, TokenCounter

_HEADINGS_PART = 3  # headings that follow each other take at most a third of the limit
_LAST_CHUNK_PART = 4  # the last chunk has at least a quarter of the limit


def split_windows(
    text: str | StructuredText, *, tokens: TokenCounter, max_tokens: int = 1024, overlap_tokens: int = 100
) -> list[Chunk]:
    """Split a text into chunks of at least half of `max_tokens` and at most all of it; a shorter text is one chunk.

    A chunk ends with a paragraph, else with a sentence, a line or a word, and between two characters only in an endless
    word. It repeats the end of the one before it, at least half of `overlap_tokens` and at most all of it, from the
    start of a sentence where there is one. The last chunk has at least a quarter of `max_tokens`, because the one
    before it ends early enough. Where white space is longer than the overlap, chunks do not overlap and may be shorter
    than half. `section` is where the chunk's text starts, below its first headings; code and plain text have none.

    Raises ValueError when max_tokens is below 16, or the overlap is more than a quarter of it.
    """
    if max_tokens < MIN_MAX_TOKENS or not 0 <= overlap_tokens <= max_tokens // 4:
        raise ValueError(f"max_tokens is at least {MIN_MAX_TOKENS}, overlap_tokens at most a quarter of it")
    document = StructuredText.of(text)
    headers = TableHeaders(document.text, document.tables, tokens.count)
    sections = document.sections()
    section_starts = [section.start for section in sections]
    chunks: list[Chunk] = []
    for start, end in _Windows(document, tokens, headers, max_tokens, overlap_tokens).spans():
        section = sections[bisect_right(section_starts, document.below_headings(start, end)) - 1]
        chunks.append(document.chunk(len(chunks), section, start, end, headers.above(start, max_tokens)))
    return chunks


class _Windows:
    def __init__(
        self,
        document: StructuredText,
        tokens: TokenCounter,
        headers: TableHeaders,
        max_tokens: int,
        overlap_tokens: int,
    ) -> None:
        self._document = document
        self._text = MeasuredText(document.text, tokens)
        self._boundaries = boundaries_of(document, document.with_their_text(tokens.count, max_tokens // _HEADINGS_PART))
        self._headers = headers
        self._max_tokens = max_tokens
        self._min_tokens = (max_tokens + 1) // 2
        self._overlap_tokens = overlap_tokens

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of each chunk."""
        start = self._document.ink(0)
        while start is not None:
            cut = self._cut(start)
            end = self._document.ink_end(start, cut)
            if start < end:  # otherwise it is indentation longer than a chunk
                yield start, end
            start = self._next_start(start, end, cut)

    def _cut(self, start: int) -> int:
        """Return where the chunk from `start` ends; trailing white space may be on either side of it."""
        text_end = len(self._text.text)
        above = self._headers.above(start, self._max_tokens)
        tokens_above = self._text.count_above(above)
        left = self._text.about(start, text_end) + tokens_above
        # The factor leaves room: the estimate may be off by a few tokens, and white space at the end costs nothing.
        if left <= 2 * self._max_tokens and self._text.count(start, text_end, above=above) <= self._max_tokens:
            return text_end
        most = min(self._max_tokens, left - self._max_tokens // _LAST_CHUNK_PART) - tokens_above
        least = min(max(self._min_tokens - tokens_above, 1), most)
        while most > 1:
            earliest, latest = self._text.reach(start, least), self._text.reach(start, most)
            latest = max(latest, start + 1)
            cut, _ = self._boundaries.last(max(earliest, start + 1), latest)
            cut = cut if cut > start else latest  # within a grapheme cluster that is longer than a chunk
            count = self._text.count(start, cut, above=above)
            if count > self._max_tokens:
                most -= count - self._max_tokens
                least = min(least, most)
            elif count < self._min_tokens and least < most:
                least = min(least + self._min_tokens - count, most)
            else:
                return cut
        return start + 1

    def _next_start(self, start: int, end: int, cut: int) -> int | None:
        rest = self._document.ink(cut)
        if rest is None or self._overlap_tokens == 0 or self._text.about(end, rest) > self._overlap_tokens:
            return rest
        earliest = max(self._text.reach(end, -self._overlap_tokens), start + 1)
        latest = self._text.reach(end, -(self._overlap_tokens // 2))
        tokens = (self._text.reach(end, -count) for count in range(self._overlap_tokens, 0, -1))
        places = chain(self._boundaries.starts(earliest, latest), tokens)
        return next((place for place in places if place > start and self._overlaps_enough(place, end)), rest)

    def _overlaps_enough(self, start: int, end: int) -> bool:
        if self._text.text[start].isspace() or self._document.grapheme_start(start) != start:
            return False
        overlap_tokens = self._text.count(start, end) - self._text.added_tokens
        return self._overlap_tokens <= 2 * overlap_tokens and overlap_tokens <= self._overlap_tokens
