"""Citations in answers: which passages the numbers name, and other ways to write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from markdown_it import MarkdownIt
from markdown_it.token import Token

from providers.chat.base import ChatAnswer, Said
from schemas.contracts.chat import Citation
from schemas.contracts.text_documents import SimilarChunk

_ITEM = r"[0-9]{1,3}(?:\s*[-–]\s*[0-9]{1,3})?"
_CITED = re.compile(rf"\[\s*({_ITEM}(?:\s*[,;，、]\s*{_ITEM})*)\s*\]")
_WIDE = re.compile(
    rf"【\s*({_ITEM}(?:\s*[,;，、]\s*{_ITEM})*)\s*(?:†[^【】\n]{{0,80}})?】|［\s*({_ITEM}(?:\s*[,;，、]\s*{_ITEM})*)\s*］"
)
_WIDE_BEGINNING = re.compile(r"[【［][^】］\n]{0,100}\Z")
_RULES_WITHOUT_A_MEANING_HERE = ["reference", "text_join", "html_block", "html_inline"]
"""Without the first, a list of sources does not make links of the citations; without the second, an escaped bracket
stays apart; and text between HTML tags is text."""


def citations(answer: str, passages: Sequence[SimilarChunk]) -> tuple[Citation, ...]:
    """Return one citation for each number that an answer cites, in the order of first mention.

    Passages are numbered from 1. A citation of any other number is not valid and has no passage.
    """
    return tuple(
        Citation(number, passages[number - 1] if 1 <= number <= len(passages) else None)
        for number in cited_numbers(answer)
    )


def cited_numbers(answer: str) -> list[int]:
    """Return the numbers in `[1]`, `[1, 2]` or `[1-3]`, each once, in the order of first mention.

    Brackets in Markdown's code, in the text of a link or an image and behind a backslash cite nothing, and neither do
    footnotes (`[^1]`) and numbers of more than three digits, such as years.
    """
    if not _CITED.search(answer):
        return []
    found = (number for text in _prose(answer) for cited in _CITED.finditer(text) for number in _numbers(cited[1]))
    return list(dict.fromkeys(found))


def _numbers(cited: str) -> Iterator[int]:
    for item in re.split(r"[,;，、]", cited):
        first, *rest = (int(number) for number in re.split(r"[-–]", item))
        last = rest[0] if rest else first
        yield from range(first, last + 1) if first <= last else (first, last)


def _prose(answer: str) -> Iterator[str]:
    markdown = MarkdownIt("commonmark").disable(_RULES_WITHOUT_A_MEANING_HERE)
    for block in markdown.parse(answer):
        if block.type == "inline":
            yield from _texts(block.children or [])


def _texts(tokens: list[Token]) -> Iterator[str]:
    links = 0
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            links += token.nesting
        elif token.type == "text" and not links:
            yield token.content


def plain(answer: str) -> str:
    """Return an answer with `[1]` for the citations `【1】`, `【1†source】` and `［1］`."""
    return _WIDE.sub(lambda found: f"[{re.sub('[，、]', ', ', found[1] or found[2])}]", answer)


def plainly(pieces: Said) -> Said:
    """Yield the same answer with such citations in its pieces and its whole. One that has begun is held back."""
    held = ""
    for piece in pieces:
        if isinstance(piece, ChatAnswer):
            if held:
                yield plain(held)
            yield replace(piece, content=plain(piece.content))
        elif isinstance(piece, str):
            text = held + piece
            begun = _WIDE_BEGINNING.search(text)
            known = begun.start() if begun else len(text)
            held = text[known:]
            if known:
                yield plain(text[:known])
        else:
            yield piece
