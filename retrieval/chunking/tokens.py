"""Tokens of texts, by the embedding model's own tokenizer or by cl100k_base: how many, and where each begins.

cl100k_base is the encoding of OpenAI's embedding models. Its ranks are shipped with this package: no network is needed.
"""

from __future__ import annotations

import base64
import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING

from providers.embeddings.base import EmbeddingProvider, SupportsTokens, TokenCounts
from schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from tiktoken import Encoding

MIN_MAX_TOKENS = 16  # of a chunk: below this the tokens of a single character would matter
# Longer texts are counted in parts: tokenizers become slow, or give up, on an endless run. A part ends where each of
# them starts a token: between two words, or before a line that begins with a letter. Elsewhere a count may be one off.
MAX_PART_CHARACTERS = 100_000
_LETTER = r"[^\W\d_]"
_PART = re.compile(
    rf"(?s).{{1,{MAX_PART_CHARACTERS}}}(?:\Z|(?<=\n)(?={_LETTER})|(?<={_LETTER})(?= {_LETTER}))"
    rf"|.{{1,{MAX_PART_CHARACTERS}}}"
)
RANKS_FILE = "cl100k_base.tiktoken"
# Ranks, digest and pattern as in tiktoken's openai_public.py; tiktoken itself would download the ranks.
RANKS_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


class TokenCounter:
    """Counts texts of any length by one tokenizer, in linear time.

    Safe for use by several threads. Nothing is loaded before the first text.
    """

    def __init__(self, tokenizer: SupportsTokens) -> None:
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


class MeasuredText:
    """Measures spans by where tokens start, which is nearly exact; `count` asks the tokenizer and is exact."""

    def __init__(self, text: str, tokens: TokenCounter) -> None:
        self.text = text
        self.tokens = tokens
        self.added_tokens = tokens.added()
        self._starts = tokens.starts(text)

    def count(self, start: int, end: int, *, above: str = "") -> int:
        """Count the tokens of a chunk: of `above` and of its own text without white space at its end, and those that
        the model adds."""
        return self.tokens.count(above + self.text[start:end].rstrip())

    def count_above(self, above: str) -> int:
        """Count the tokens that a chunk has before its own text, including those that the model adds."""
        return self.tokens.count(above) if above else self.added_tokens

    def about(self, start: int, end: int) -> int:
        """Return about how many tokens there are from `start` to `end`."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def reach(self, start: int, tokens: int) -> int:
        """Return the place about `tokens` tokens after `start`, or before it when `tokens` is negative."""
        index = bisect_left(self._starts, start) + tokens
        return self._starts[max(index, 0)] if index < len(self._starts) else len(self.text)


class Cl100k(SupportsTokens):
    """Counts tokens; special tokens such as `<|endoftext|>` are plain text.

    The ranks are read once per process, at the first use (half a second). Raises ConfigurationError when their file is
    not the original.
    """

    def count_tokens(self, text: str) -> int:
        encoding, counts = _loaded()
        known = counts.find(text)
        return counts.keep(text, len(encoding.encode_to_numpy(text))) if known is None else known

    def token_starts(self, text: str) -> list[int]:
        """Return the character in which each token starts; a character outside ASCII may have several."""
        encoding, _ = _loaded()
        return encoding.decode_with_offsets(encoding.encode_ordinary(text))[1]


_LOADING = Lock()
"""Threads that begin together wait for one reading: each would take as much time and memory."""


def _loaded() -> tuple[Encoding, TokenCounts]:
    with _LOADING:
        return _load()


@cache
def _load() -> tuple[Encoding, TokenCounts]:
    import tiktoken

    ranks = read_ranks(files("retrieval.chunking").joinpath(RANKS_FILE).read_bytes())
    encoding = tiktoken.Encoding("cl100k_base", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return encoding, TokenCounts()


def read_ranks(data: bytes) -> dict[bytes, int]:
    """Return the rank of each token. Raises ConfigurationError unless `data` is exactly what OpenAI publishes."""
    if hashlib.sha256(data).hexdigest() != RANKS_SHA256:
        raise ConfigurationError(
            f"The token ranks in {RANKS_FILE} are damaged (sha256 differs); install rag-wrapper again",
            error_type="invalid_config",
        )
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
