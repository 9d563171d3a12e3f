"""cl100k_base, the encoding of OpenAI's embedding models, from ranks shipped with this package: no network needed."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from providers.embeddings.base import TokenCounts
from schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from tiktoken import Encoding

RANKS_FILE = "cl100k_base.tiktoken"
# Ranks, digest and pattern as in tiktoken's openai_public.py; tiktoken itself would download the ranks.
RANKS_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


class Cl100k:
    """Counts tokens; special tokens such as `<|endoftext|>` are plain text.

    The ranks are read once per process, at the first use (half a second). Raises ConfigurationError when their file is
    not the original.
    """

    def count_tokens(self, text: str) -> int:
        encoding, _, counts = _loaded()
        known = counts.find(text)
        return counts.keep(text, len(encoding.encode_to_numpy(text))) if known is None else known

    def token_starts(self, text: str) -> list[int]:
        """Return the character in which each token starts; a character outside ASCII may have several."""
        encoding, lengths_bytes, _ = _loaded()
        lengths = lengths_bytes[encoding.encode_to_numpy(text)]
        begins_character = np.frombuffer(text.encode(), np.uint8) & 0xC0 != 0x80
        character_of_byte = np.cumsum(begins_character) - 1
        starts: list[int] = character_of_byte[np.cumsum(lengths) - lengths].tolist()
        return starts


class _Loaded(NamedTuple):
    encoding: Encoding
    lengths_bytes: NDArray[np.int64]  # by token
    counts: TokenCounts


@cache
def _loaded() -> _Loaded:
    import tiktoken

    ranks = read_ranks(files("retrieval.chunking").joinpath(RANKS_FILE).read_bytes())
    lengths_bytes = np.fromiter(map(len, ranks), np.int64, len(ranks))
    encoding = tiktoken.Encoding("cl100k_base", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    return _Loaded(encoding, lengths_bytes, TokenCounts())


def read_ranks(data: bytes) -> dict[bytes, int]:
    """Return the rank of each token, ascending.

    Raises ConfigurationError unless `data` is, byte for byte, what OpenAI publishes.
    """
    if hashlib.sha256(data).hexdigest() != RANKS_SHA256:
        raise ConfigurationError(
            f"The token ranks in {RANKS_FILE} are damaged (sha256 differs); install rag-wrapper again",
            error_type="invalid_config",
        )
    return {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, data.splitlines())}
