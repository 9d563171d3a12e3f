"""Texts cut to a length that people and language models are shown."""

from __future__ import annotations

EXCERPT_CHARACTERS = 2_000
"""What is shown of one source: ten of them are some 5,000 tokens."""


def excerpt(text: str, characters: int = EXCERPT_CHARACTERS) -> str:
    """The text, cut where it is longer."""
    return text if len(text) <= characters else f"{text[:characters].rstrip()} …"
