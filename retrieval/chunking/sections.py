"""The profile *sections*: Markdown cut at each of its headings, text between paragraphs.

What is longer than the limit is cut again: between blocks, blocks inside them (list items), lines, sentences, words and
characters, each only where the one before leaves too much. A cut is a position in the text, so nothing is lost or
duplicated except white space at the edges. Tokens are estimated, so no tokenizer is loaded.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from retrieval.chunking.chunks import Chunk
from retrieval.chunking.markdown_blocks import MarkdownDocument, Section, line_starts, normalised

DEFAULT_MAX_TOKENS = 256  # the limit of all-MiniLM-L6-v2
_RESERVED_TOKENS = 12  # the two that the model adds, and room for errors of the estimate

_ATOM = re.compile(r"[A-Za-zÀ-ɏ]{1,24}|\d{1,24}|\S")  # bounded, so that an endless word can be cut somewhere
_LINE = re.compile(r"\n")
_SENTENCE = re.compile(r"[.!?…][)\"'»”]*\s+|[。！？]")
_WORD = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_INK = re.compile(r"\S")

Cuts = Callable[[int, int], Iterable[int]]


def split_markdown(text: str | MarkdownDocument, *, max_tokens: int = DEFAULT_MAX_TOKENS) -> list[Chunk]:
    """Split a Markdown document (CommonMark and tables) into chunks, in order.

    YAML front matter belongs to the text before the first heading. A section's path and its chunk's text together stay
    within `max_tokens`.
    """
    document = MarkdownDocument.of(text)
    if document.is_plain:
        return split_text(document.text, max_tokens=max_tokens)
    depth = max((token.level for token in document.tokens if token.map), default=0)
    levels = [_cuts_at(document.block_starts(level)) for level in range(depth + 1)]
    return _chunks(document.text, document.sections(), levels, max_tokens)


def split_text(text: str, *, max_tokens: int = DEFAULT_MAX_TOKENS) -> list[Chunk]:
    """Split a plain text into chunks of whole paragraphs where they fit; its only section has the id ""."""
    text = normalised(text)
    return _chunks(text, [Section(0, "", "")], [_cuts_after(text, _BLANK_LINES)], max_tokens)


def estimate_tokens(text: str) -> int:
    """Estimate the WordPiece tokens of a text without a vocabulary, erring upwards on prose and code."""
    return sum(_atom_tokens(atom) for atom in _ATOM.findall(text))


def _atom_tokens(atom: str) -> int:
    return 1 + (len(atom) - 1) // (2 if atom[0].isdigit() else 5)


def _chunks(text: str, sections: list[Section], levels: list[Cuts], max_tokens: int) -> list[Chunk]:
    if max_tokens < 1:
        raise ValueError("max_tokens is at least 1")
    lines = line_starts(text)
    levels = [*levels, *(_cuts_after(text, pattern) for pattern in (_LINE, _SENTENCE, _WORD, _ATOM))]
    chunks: list[Chunk] = []
    ends = [section.start for section in sections[1:]] + [len(text)]
    for section, section_end in zip(sections, ends, strict=True):
        limit = max(max_tokens - _RESERVED_TOKENS - estimate_tokens(section.title), max_tokens // 2, 1)
        for start, end in _fit(text, section.start, section_end, levels, limit):
            ink = _INK.search(text, start, end)
            if ink is None:
                continue
            first = max(start, text.rfind("\n", start, ink.start()) + 1)
            line = bisect_right(lines, first)
            chunks.append(Chunk(text[first:end].rstrip(), section.title, section.section_id, len(chunks), line))
    return chunks


def _fit(text: str, start: int, end: int, levels: list[Cuts], limit: int) -> Iterator[tuple[int, int]]:
    """Yield spans that cover text[start:end], each of at most `limit` tokens unless it cannot be cut further."""
    if not levels or estimate_tokens(text[start:end]) <= limit:
        yield start, end
        return
    open_at, open_tokens = start, 0
    bounds = [start, *(cut for cut in levels[0](start, end) if start < cut < end), end]
    for piece_start, piece_end in pairwise(bounds):
        tokens = estimate_tokens(text[piece_start:piece_end])
        if open_tokens + tokens <= limit:
            open_tokens += tokens
            continue
        if open_at < piece_start:
            yield open_at, piece_start
        open_at, open_tokens = piece_start, tokens
        if tokens > limit:
            yield from _fit(text, piece_start, piece_end, levels[1:], limit)
            open_at, open_tokens = piece_end, 0
    if open_at < end:
        yield open_at, end


def _cuts_at(places: list[int]) -> Cuts:
    return lambda start, end: places[bisect_left(places, start) : bisect_left(places, end)]


def _cuts_after(text: str, pattern: re.Pattern[str]) -> Cuts:
    return lambda start, end: (match.end() for match in pattern.finditer(text, start, end))
