"""Token counts and the start of each token, by the embedding model's own tokenizer or by cl100k_base."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from providers.embeddings.base import EmbeddingProvider, SupportsTokens
from retrieval.chunking.cl100k import Cl100k

# Longer texts are counted in parts: tokenizers become slow, or give up, on an endless run. A part ends where each of
# them starts a token: between two words, or before a line that begins with a letter. Elsewhere a count may be one off.
MAX_PART_CHARACTERS = 100_000
_LETTER = r"[^\W\d_]"
_PART = re.compile(
    rf"(?s).{{1,{MAX_PART_CHARACTERS}}}(?:\Z|(?<=\n)(?={_LETTER})|(?<={_LETTER})(?= {_LETTER}))"
    rf"|.{{1,{MAX_PART_CHARACTERS}}}"
)


class Tokenizer(Protocol):
    """The part of `providers.embeddings.base.SupportsTokens` that counting needs."""

    def count_tokens(self, text: str) -> int: ...

    def token_starts(self, text: str) -> list[int]: ...


class TokenCounter:
    """Counts texts of any length by one tokenizer, in linear time.

    Safe for use by several threads. Nothing is loaded before the first text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def added(self) -> int:
        """Return how many tokens the model adds to each text; `count` includes them."""
        return self._tokenizer.count_tokens("")

    def count(self, text: str) -> int:
        """Count the tokens of the whole text as the model does, including those it adds."""
        if len(text) <= MAX_PART_CHARACTERS:
            return self._tokenizer.count_tokens(_unicode(text))
        added = self.added()
        return added + sum(self._tokenizer.count_tokens(part) - added for _, part in _parts(text))

    def starts(self, text: str) -> list[int]:
        """Return the character at which each token starts, ascending, repeated for a character of several tokens.

        The text between two such places has about as many tokens as there are starts: those at its edges may be
        tokenized differently.
        """
        return [start + offset for start, part in _parts(text) for offset in self._tokenizer.token_starts(part)]


def token_counter(connection: EmbeddingProvider | None = None) -> TokenCounter:
    """Return a counter by the connection's model where it supports that, else by cl100k_base, OpenAI's encoding
    (contracts *rules* and *documents*)."""
    return TokenCounter(connection if isinstance(connection, SupportsTokens) else Cl100k())


def _parts(text: str) -> Iterator[tuple[int, str]]:
    return ((match.start(), match[0]) for match in _PART.finditer(_unicode(text)))


def _unicode(text: str) -> str:
    """Replace lone surrogates, one character for one; refusing them is left to the embedding."""
    return text.encode("utf-8", "replace").decode()
