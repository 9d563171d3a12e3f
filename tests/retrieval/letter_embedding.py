"""An embedding model small enough to know its right answers."""

import numpy as np

from providers.embeddings.base import EmbeddingProvider


class LetterEmbedding(EmbeddingProvider):
    """Counts the letters a-z; `embedded` has every text it was asked for, in order."""

    id = "letters"
    display_name = "Letters"

    def __init__(self, model: str = "letters-1", *, dimension: int = 26) -> None:
        super().__init__({"model": model, "dimension": dimension})
        self.embedded: list[str] = []

    @classmethod
    def connection_schema(cls):
        return {"type": "object", "properties": {"model": {"type": "string"}, "dimension": {"type": "integer"}}}

    def _embed(self, texts):
        self.embedded.extend(texts)
        letters = [chr(ord("a") + number) for number in range(self.dimension)]
        return np.array([[1 + text.lower().count(letter) for letter in letters] for text in texts], dtype=np.float32)
