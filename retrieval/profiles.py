"""The ways documents are split, with the limits of the settings and the tokens of the model that reads the chunks."""

from __future__ import annotations

from providers.embeddings.base import EmbeddingConnection
from retrieval.chunking import split_whole, split_windows
from retrieval.drafts import Split, Splitter
from retrieval.tokens import token_counter
from schemas.settings import RetrievalSettings


def whole(settings: RetrievalSettings, embedding: EmbeddingConnection, section: str = "") -> Splitter:
    """Documents as they are, as long as the model can read them (seed 001). `section` is what a document that stays
    whole is called, its first heading when empty."""
    tokens = token_counter(embedding)

    def split(text: str) -> Split:
        done = split_whole(text, tokens=tokens, max_tokens=settings.whole_max_tokens, section=section)
        return Split(done.chunks, done.warnings)

    return split


def windows(settings: RetrievalSettings, embedding: EmbeddingConnection) -> Splitter:
    """Pieces of like length that overlap (seed 002)."""
    tokens = token_counter(embedding)

    def split(text: str) -> Split:
        return Split(
            split_windows(
                text,
                tokens=tokens,
                max_tokens=settings.chunk_max_tokens,
                overlap_tokens=settings.chunk_overlap_tokens,
            )
        )

    return split
