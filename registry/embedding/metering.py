"""Who is charged for an embedding: what is put around each call that embeds texts for a caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from providers.embeddings.base import EmbeddingProvider
from schemas.records import Vector

Metered = Callable[[EmbeddingProvider, Sequence[str], Callable[[], Vector]], Vector]
"""Takes a connection, the texts that it is to embed, and the function that has it embed them; returns the vectors.

It may refuse before, by raising TooManyRequestsError, and counts after. It is called in a thread that works for the
caller.
"""


def unmetered(connection: EmbeddingProvider, texts: Sequence[str], embed: Callable[[], Vector]) -> Vector:
    """Embed without counting."""
    return embed()
