"""How many tokens a text has and where each of them starts: by the embedding model's tokenizer, else by cl100k_base."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from providers.embeddings.base import EmbeddingConnection, SupportsTokens
from retrieval.cl100k import Cl100k

# Longer texts are counted in parts: tokenizers get slow, or give up, on a run without end. A part ends where all of
# them start a token: between two words, or before a line that begins with a letter. Elsewhere a count may be one off.
MAX_PART_CHARACTERS = 100_000
_LETTER = r"[^\W\d_]"
_PART = re.compile(
    rf"(?s).{{1,{MAX_PART_CHARACTERS}}}(?:\Z|(?<=\n)(?={_LETTER})|(?<={_LETTER})(?= {_LETTER}))"
    rf"|.{{1,{MAX_PART_CHARACTERS}}}"
)


class Tokenizer(Protocol):
    """What `providers.embeddings.base.SupportsTokens` promises."""

    def count_tokens(self, text: str) -> int: ...

    def token_starts(self, text: str) -> list[int]: ...


class TokenCounter:
    """Counts texts of any length by one tokenizer, in time proportional to it. Safe to use from several threads;
    nothing is loaded before the first text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def added(self) -> int:
        """Tokens that the model adds to each text, and that `count` has in it."""
        return self._tokenizer.count_tokens("")

    def count(self, text: str) -> int:
        """Tokens of the whole text as the model counts them, its own included."""
        if len(text) <= MAX_PART_CHARACTERS:
            return self._tokenizer.count_tokens(_unicode(text))
        added = self.added()
        return added + sum(self._tokenizer.count_tokens(part) - added for _, part in _parts(text))

    def starts(self, text: str) -> list[int]:
        """The character at which each token starts, rising, equal where a character has several tokens. What stands
        between two such places has about as many tokens as there are starts: at its edges some may be read anew."""
        return [start + offset for start, part in _parts(text) for offset in self._tokenizer.token_starts(part)]


def token_counter(connection: EmbeddingConnection | None = None) -> TokenCounter:
    """By the connection's model where it tells, else by cl100k_base, OpenAI's encoding (seeds 001 and 002)."""
    return TokenCounter(connection if isinstance(connection, SupportsTokens) else Cl100k())


def _parts(text: str) -> Iterator[tuple[int, str]]:
    return ((match.start(), match[0]) for match in _PART.finditer(_unicode(text)))


def _unicode(text: str) -> str:
    """The text with lone surrogates replaced, one character for one: they are for the embedding to refuse."""
    return text.encode("utf-8", "replace").decode()
