"""A store and an embedding that can be made unavailable for the tests of watching."""

from datetime import UTC, datetime

from schemas.errors import InvalidInputError, UnavailableError
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.model_store import ModelProvider

MAX_FILE_BYTES = 10_000
NOW = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)


class Store(ModelProvider):
    """A store that can be made unavailable."""

    def __init__(self):
        super().__init__()
        self.is_away = False

    def documents(self, *arguments, **options):
        self._answer()
        return super().documents(*arguments, **options)

    def add_documents(self, *arguments, **options):
        self._answer()
        return super().add_documents(*arguments, **options)

    def _answer(self):
        if self.is_away:
            raise UnavailableError("The service is away")


class Embedding(LetterEmbedding):
    def __init__(self, model="letters-1"):
        super().__init__(model)
        self.is_away = False

    def _embed(self, texts):
        if self.is_away or any("poison" in text for text in texts):
            raise UnavailableError("The embeddings are away")
        if any("forbidden" in text for text in texts):
            raise InvalidInputError("is refused by the model")
        return super()._embed(texts)
