"""The ways documents are split, by the tokens of the model that reads them; `loading.by_sections` is another."""

from __future__ import annotations

from collections.abc import Callable

from providers.embeddings.base import EmbeddingConnection
from retrieval.chunking import MarkdownDocument, SplitDocument, Syntax, split_whole, split_windows
from retrieval.tokens import token_counter

ReadingSplitter = Callable[[str | MarkdownDocument], SplitDocument]
"""A splitter that takes what was read already, too."""


def whole(
    embedding: EmbeddingConnection, max_tokens: int, section: str = "", levels: tuple[int, int] = (2, 3)
) -> ReadingSplitter:
    """Documents as they are, as long as they have no more tokens (seed 001). `section` is what a document that stays
    whole is called, its first heading when empty."""
    tokens = token_counter(embedding)
    return lambda text: split_whole(text, tokens=tokens, max_tokens=max_tokens, section=section, levels=levels)


def windows(
    embedding: EmbeddingConnection, max_tokens: int, overlap_tokens: int, syntax: Syntax = Syntax.MARKDOWN
) -> ReadingSplitter:
    """Pieces of like length that overlap (seeds 002 and 000)."""
    tokens = token_counter(embedding)

    def split(text: str | MarkdownDocument) -> SplitDocument:
        read = MarkdownDocument.of(text) if syntax is Syntax.MARKDOWN else text
        chunks = split_windows(read, tokens=tokens, max_tokens=max_tokens, overlap_tokens=overlap_tokens, syntax=syntax)
        return SplitDocument(chunks, read.warnings if isinstance(read, MarkdownDocument) else [])

    return split
