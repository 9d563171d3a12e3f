"""A writer whose collection is re-embedded, or made by another writer, while it works."""

from dataclasses import replace

import pytest

from providers.pinned_writes import PinsEmbeddings
from retrieval.chunking import Syntax
from retrieval.ingest.collection_writer import ATTEMPTS, CollectionWriter
from retrieval.ingest.drafts import SourceDocument
from retrieval.ingest.ingestion import ingest_document
from retrieval.ingest.profiles import chunking_of
from schemas.errors import ConflictError
from schemas.settings import RetrievalSettings
from schemas.storage.reembedding import ReembeddedMeanwhileError
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.model_store import ModelProvider, ModelStore

MODELS = {"letters-1": LetterEmbedding(), "letters-a-m": LetterEmbedding("letters-a-m", dimension=13)}


class Reembedded(ModelProvider, PinsEmbeddings):
    """A provider whose collection is re-embedded before the next writes, `times` times."""

    times = 0

    def create_collection(self, name, metadata, *, metric="cosine"):
        if name in self.store.collections:
            raise ConflictError("It is there already")
        return super().create_collection(name, metadata, metric=metric)

    def embedded_as(self, collection, described):
        return self

    def add_documents(self, collection, batch, *, replace_where=None):
        if self.times:
            self.times -= 1
            raise ReembeddedMeanwhileError(collection)
        return super().add_documents(collection, batch, replace_where=replace_where)


@pytest.fixture
def embedded():
    """The models of what is embedded, in order."""
    return []


@pytest.fixture
def writer(embedded):
    def embed(embedding, texts):
        embedded.append(embedding.model)
        return embedding.embed(texts)

    def open_writer(provider):
        def embedding_of(info):
            return MODELS["letters-1" if info is None else info.metadata["embedding_model"]]

        return CollectionWriter(provider, "docs", embedding_of, embed)

    return open_writer


@pytest.fixture
def document():
    chunking = chunking_of(RetrievalSettings(), MODELS["letters-1"])
    return SourceDocument("a", "A", "Some words.", {}, chunking.splitter(Syntax.MARKDOWN))


@pytest.mark.parametrize("times", range(ATTEMPTS))
def test_a_document_is_embedded_again_where_its_collection_was_reembedded_and_refused_when_that_goes_on(
    writer, document, embedded, times
):
    provider = Reembedded(ModelStore())
    provider.times = times
    assert ingest_document(writer(provider), document).created == 1
    assert len(embedded) == times + 1
    embedded.clear()
    provider.times = ATTEMPTS
    with pytest.raises(ReembeddedMeanwhileError):
        ingest_document(writer(provider), replace(document, text="Other words."))
    assert len(embedded) == ATTEMPTS


def test_a_collection_that_another_made_meanwhile_gets_vectors_of_its_own_model(writer, document, embedded):
    provider = Reembedded(ModelStore())
    late = writer(provider)
    provider.create_collection("docs", {"embedding_model": "letters-a-m"})
    assert ingest_document(late, document).created == 1
    assert embedded == ["letters-1", "letters-a-m"]
    assert provider.collection("docs").dimension == 13
