"""How documents are split: the one place that chooses a profile of `retrieval.chunking` by syntax and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from providers.embeddings.base import EmbeddingProvider
from retrieval.chunking import Chunk, SplitDocument, StructuredText, Syntax, split_sections, split_whole, split_windows
from retrieval.chunking.tokens import token_counter
from schemas.settings import RetrievalSettings
from schemas.ways import SECTIONS, WHOLE, WINDOWS

CODE_MAX_TOKENS, CODE_OVERLAP_TOKENS = 256, 25
_CUTTING = 2
"""Grows when files are read or cut in another way, so that loading them again stores them anew."""
_USUAL_WINDOW_TOKENS = 512
"""The window of a model that does not tell its own."""

ReadingSplitter = Callable[[str | StructuredText], SplitDocument]
"""A splitter that also takes a document that was read already."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """How files are split: `profile` is one of the setting's words; code is always split into windows of its lines."""

    profile: str
    max_tokens: int
    overlap_tokens: int
    levels: tuple[int, int]
    embedding: EmbeddingProvider = field(repr=False)

    @property
    def label(self) -> str:
        """Name what decides where cuts are, as stored with each document, so that a change of it is noticed."""
        numbers = (self.max_tokens, self.overlap_tokens, CODE_MAX_TOKENS, *self.levels)
        return f"{self.profile} {'/'.join(map(str, numbers))} v{_CUTTING}"

    def splitter(self, syntax: Syntax) -> ReadingSplitter:
        """Return how a file of that syntax is split."""
        if syntax is Syntax.CODE:
            return windows(self.embedding, CODE_MAX_TOKENS, CODE_OVERLAP_TOKENS, syntax)
        if self.profile == SECTIONS:
            return partial(_split, split_sections, syntax, max_tokens=self.max_tokens)
        if self.profile == WHOLE:
            return whole(self.embedding, self.max_tokens, None, self.levels)
        return windows(self.embedding, self.max_tokens, self.overlap_tokens, syntax)


def chunking_of(settings: RetrievalSettings, embedding: EmbeddingProvider) -> Chunking:
    """Return how files are split by the settings.

    Sections fit into the window of the embedding model; windows and whole documents have limits of their own.
    """
    usual = {SECTIONS: window_tokens(embedding), WHOLE: settings.whole_max_tokens}
    most = usual.get(settings.chunking, settings.chunk_max_tokens)
    return Chunking(
        profile=settings.chunking,
        max_tokens=most,
        overlap_tokens=min(settings.chunk_overlap_tokens, most // 4),
        levels=settings.whole_levels,
        embedding=embedding,
    )


def windows_within(usual: Chunking, max_tokens: int, overlap_tokens: int) -> Chunking:
    """Return how files are split into windows of at most so many tokens, as far as the embedding model reads as many,
    which share at most so many, as far as that is a quarter of a window."""
    most = min(max_tokens, window_tokens(usual.embedding))
    return replace(usual, profile=WINDOWS, max_tokens=most, overlap_tokens=min(overlap_tokens, most // 4))


def window_tokens(embedding: EmbeddingProvider) -> int:
    """Return how many tokens the model reads at once, as far as its connection knows."""
    known = embedding.limits.get("window_tokens") or embedding.max_input_tokens
    return known or _USUAL_WINDOW_TOKENS


def whole(
    embedding: EmbeddingProvider, max_tokens: int, section: str | None, levels: tuple[int, int] = (2, 3)
) -> ReadingSplitter:
    """Keep documents whole up to `max_tokens` (contract *rules*).

    `section` names a document that stays whole, as `split_whole` says.
    """
    tokens = token_counter(embedding)
    return lambda text: split_whole(text, tokens=tokens, max_tokens=max_tokens, section=section, levels=levels)


def windows(
    embedding: EmbeddingProvider, max_tokens: int, overlap_tokens: int, syntax: Syntax = Syntax.MARKDOWN
) -> ReadingSplitter:
    """Split documents into overlapping pieces of similar length (contracts *documents* and *context*)."""
    tokens = token_counter(embedding)
    return partial(_split, split_windows, syntax, tokens=tokens, max_tokens=max_tokens, overlap_tokens=overlap_tokens)


def _split(
    profile: Callable[..., list[Chunk]], syntax: Syntax, text: str | StructuredText, **options: Any
) -> SplitDocument:
    read = StructuredText.of(text, syntax)
    return SplitDocument(profile(read, **options), read.warnings)
