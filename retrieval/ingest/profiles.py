"""The splitting profiles that count tokens as the embedding model does; `loading.by_sections` is the third one."""

from __future__ import annotations

from collections.abc import Callable

from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking import MarkdownDocument, SplitDocument, Syntax, split_whole, split_windows
from retrieval.chunking.tokens import token_counter

ReadingSplitter = Callable[[str | MarkdownDocument], SplitDocument]
"""A splitter that also takes a document that was read already."""


def whole(
    embedding: EmbeddingProvider, max_tokens: int, section: str = "", levels: tuple[int, int] = (2, 3)
) -> ReadingSplitter:
    """Keep documents whole up to `max_tokens` (contract *rules*).

    `section` names a document that stays whole; when it is empty, the first heading does.
    """
    tokens = token_counter(embedding)
    return lambda text: split_whole(text, tokens=tokens, max_tokens=max_tokens, section=section, levels=levels)


def windows(
    embedding: EmbeddingProvider, max_tokens: int, overlap_tokens: int, syntax: Syntax = Syntax.MARKDOWN
) -> ReadingSplitter:
    """Split documents into overlapping pieces of similar length (contracts *documents* and *context*)."""
    tokens = token_counter(embedding)

    def split(text: str | MarkdownDocument) -> SplitDocument:
        read = MarkdownDocument.of(text) if syntax is Syntax.MARKDOWN else text
        chunks = split_windows(read, tokens=tokens, max_tokens=max_tokens, overlap_tokens=overlap_tokens, syntax=syntax)
        return SplitDocument(chunks, read.warnings if isinstance(read, MarkdownDocument) else [])

    return split
