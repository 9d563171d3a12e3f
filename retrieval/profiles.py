"""The ways documents are split, by the tokens of the model that reads them; `loading.by_sections` is another."""

from __future__ import annotations

from providers.embeddings.base import EmbeddingConnection
from retrieval.chunking import SplitDocument, Syntax, plain_text_warnings, split_whole, split_windows
from retrieval.drafts import Splitter
from retrieval.tokens import token_counter


def whole(
    embedding: EmbeddingConnection, max_tokens: int, section: str = "", levels: tuple[int, int] = (2, 3)
) -> Splitter:
    """Documents as they are, as long as they have no more tokens (seed 001). `section` is what a document that stays
    whole is called, its first heading when empty."""
    tokens = token_counter(embedding)
    return lambda text: split_whole(text, tokens=tokens, max_tokens=max_tokens, section=section, levels=levels)


def windows(
    embedding: EmbeddingConnection, max_tokens: int, overlap_tokens: int, syntax: Syntax = Syntax.MARKDOWN
) -> Splitter:
    """Pieces of like length that overlap (seeds 002 and 000)."""
    tokens = token_counter(embedding)
    return lambda text: SplitDocument(
        split_windows(text, tokens=tokens, max_tokens=max_tokens, overlap_tokens=overlap_tokens, syntax=syntax),
        plain_text_warnings(text) if syntax is Syntax.MARKDOWN else [],
    )
