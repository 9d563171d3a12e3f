"""Split a document into chunks that an embedding model reads whole.

Markdown is cut at its headings. What is longer than the limit is cut again: between blocks, between blocks inside
them (list items), then lines, sentences, words and characters, the next only where the one before leaves too much.
A cut is a position in the text, so nothing is lost and nothing is doubled but white space at the edges.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

DEFAULT_MAX_TOKENS = 256  # all-MiniLM-L6-v2 reads this many and ignores the rest
_RESERVED_TOKENS = 12  # the model's own two, and what the estimate may miss

_ATOM = re.compile(r"[A-Za-zÀ-ɏ]{1,24}|\d{1,24}|\S")  # bounded: an endless word must be cut somewhere
_LINE = re.compile(r"\n")
_SENTENCE = re.compile(r"[.!?…][)\"'»”]*\s+|[。！？]")
_WORD = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_INK = re.compile(r"\S")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(?=[\w\"'-]+[ \t]*:)(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_FRONT_MATTER_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.+?)[ \t]*$", re.MULTILINE)

Cuts = Callable[[int, int], Iterable[int]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one section. section: heading path "A > B", "" before the first heading. section_id: its slug path,
    unique in the document. chunk_index: position in the document, from 0. start_line: from 1."""

    text: str
    section: str
    section_id: str
    chunk_index: int
    start_line: int


@dataclass(frozen=True, slots=True)
class _Section:
    start: int
    title: str
    section_id: str


def split_markdown(text: str, *, max_tokens: int = DEFAULT_MAX_TOKENS) -> list[Chunk]:
    """Chunks of a Markdown document (CommonMark and tables), in its order; YAML front matter belongs to what comes
    before the first heading. A section's path and its chunk's text together keep to `max_tokens`."""
    text = _normalised(text)
    tokens = _parse(text)
    line_starts = _line_starts(text)
    sections = _sections(tokens, line_starts)
    levels = [_block_cuts(tokens, line_starts, depth) for depth in range(_depth(tokens) + 1)]
    return _chunks(text, sections, levels, max_tokens)


def split_text(text: str, *, max_tokens: int = DEFAULT_MAX_TOKENS) -> list[Chunk]:
    """Chunks of a plain text, whole paragraphs as long as they fit; one section, whose id is ""."""
    text = _normalised(text)
    return _chunks(text, [_Section(0, "", "")], [_cuts_after(text, _BLANK_LINES)], max_tokens)


def markdown_title(text: str) -> str | None:
    """The title that the front matter gives, else the first heading of the highest rank, else None."""
    text = _normalised(text)
    front_matter = _FRONT_MATTER.match(text)
    named = _FRONT_MATTER_TITLE.search(front_matter[0]) if front_matter else None
    if named:
        return named[1].strip("\"'")
    headings = [(token.tag, title) for token, title in _headings(_parse(text)) if title]
    return min(headings, key=lambda heading: heading[0])[1] if headings else None


def estimate_tokens(text: str) -> int:
    """How many WordPiece tokens `text` has, estimated without a vocabulary; made to err upwards on prose and code."""
    return sum(_atom_tokens(atom) for atom in _ATOM.findall(text))


def _atom_tokens(atom: str) -> int:
    return 1 + (len(atom) - 1) // (2 if atom[0].isdigit() else 5)


def _chunks(text: str, sections: list[_Section], levels: list[Cuts], max_tokens: int) -> list[Chunk]:
    if max_tokens < 1:
        raise ValueError("max_tokens is at least 1")
    line_starts = _line_starts(text)
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
            line = bisect_right(line_starts, first)
            chunks.append(Chunk(text[first:end].rstrip(), section.title, section.section_id, len(chunks), line))
    return chunks


def _fit(text: str, start: int, end: int, levels: list[Cuts], limit: int) -> Iterator[tuple[int, int]]:
    """Spans that cover text[start:end], each of at most `limit` tokens unless nothing is left to cut at."""
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


def _sections(tokens: list[Token], line_starts: list[int]) -> list[_Section]:
    sections = [_Section(0, "", "")]
    taken = {"": 1}  # section id → the last number it was given
    path: list[tuple[str, str, str]] = []  # (tag, title, section id) of the headings above
    for token, title in _headings(tokens):
        while path and path[-1][0] >= token.tag:
            path.pop()
        parent = path[-1][2] + "/" if path else ""
        section_id = _unique(parent + _slug(title), taken)
        path.append((token.tag, title, section_id))
        start = line_starts[token.map[0]] if token.map else 0
        sections.append(_Section(start, " > ".join(heading[1] for heading in path), section_id))
    return sections


def _headings(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    for token, inline in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0:
            words = (child.content or " " for child in inline.children or ())
            yield token, " ".join("".join(words).split())


def _unique(section_id: str, taken: dict[str, int]) -> str:
    candidate, number = section_id, taken.get(section_id, 0)
    while candidate in taken:
        number += 1
        candidate = f"{section_id}-{number}"
    taken[section_id] = max(number, 1)
    taken.setdefault(candidate, 1)
    return candidate


def _slug(title: str) -> str:
    return re.sub(r"[^\w]+", "-", title.lower()).strip("-") or "section"


def _parse(text: str) -> list[Token]:
    front_matter = _FRONT_MATTER.match(text)
    hidden = "\n" * front_matter[0].count("\n") if front_matter else ""
    body = text[front_matter.end() :] if front_matter else text
    return MarkdownIt("commonmark").enable("table").parse(hidden + body)


def _depth(tokens: list[Token]) -> int:
    return max((token.level for token in tokens if token.map), default=0)


def _block_cuts(tokens: list[Token], line_starts: list[int], depth: int) -> Cuts:
    cuts = sorted({line_starts[token.map[0]] for token in tokens if token.map and token.level == depth})

    def between(start: int, end: int) -> Iterable[int]:
        return cuts[bisect_left(cuts, start) : bisect_left(cuts, end)]

    return between


def _cuts_after(text: str, pattern: re.Pattern[str]) -> Cuts:
    return lambda start, end: (match.end() for match in pattern.finditer(text, start, end))


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _LINE.finditer(text))]


def _normalised(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
