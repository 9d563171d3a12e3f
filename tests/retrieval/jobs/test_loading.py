"""Files become chunks in a collection, also where it is re-embedded, or made by another writer, meanwhile."""

import json

import numpy as np
import pytest

from providers.local import LocalProvider
from retrieval.ingest.collection_writer import ATTEMPTS
from retrieval.ingest.drafts import text_to_embed
from retrieval.ingest.identity import document_id
from schemas.records import DocumentBatch
from schemas.storage.reembedding import ReembeddedMeanwhileError
from schemas.where import EVERYTHING, parse_where
from tests.retrieval.letter_embedding import LetterEmbedding
from wrapper.writing import AS_IT_COMES

GUIDE = "# Guide\n\nHow to start.\n\n## Install\n\nPut it there.\n\n## Use\n\nDo that.\n"


@pytest.fixture
def store(app):
    return app.extensions["rag.service"].store


@pytest.fixture
def embedded(parts):
    """The texts that were embedded, in order."""
    texts = []
    parts.embed = lambda connection, asked: (texts.extend(asked), connection.embed(asked))[1]
    return texts


@pytest.fixture
def stored(parts):
    """`stored(**metadata)`: the chunks that have these, in the order of their documents, with their embeddings."""

    def stored(**metadata):
        provider = parts.texts.corpus.open().provider
        found = provider.documents(parts.collection, parse_where(metadata), with_embeddings=True).documents
        return sorted(found, key=lambda each: each.metadata.get("chunk_index", 0))

    return stored


def test_markdown_becomes_chunks_that_say_where_they_are_from_in_a_collection_that_knows_its_model(
    parts, stored, store
):
    files = parts.ingest(("docs/guide.md", GUIDE), ("docs/sub/note.txt", "A note.")).files
    assert [(each.status, each.chunks) for each in files] == [("done", 3), ("done", 1)]
    [install] = stored(section="Guide > Install")
    assert install.text == "## Install\n\nPut it there."
    assert {key: value for key, value in install.metadata.items() if key not in ("content_hash", "updated_at")} == {
        "source": "docs/guide.md",
        "title": "Guide",
        "section": "Guide > Install",
        "section_id": "docs/guide.md#guide/install",
        "chunk_index": 1,
        "start_line": 5,
        "kind": "markdown",
        "contentType": "documentation",
        "path": "guide.md",
        "document_id": document_id("docs/guide.md"),
    }
    first = stored(source="docs/guide.md")[0].metadata
    assert (first["chunk_count"], first["embedding_model"]) == (3, "letters-1")
    assert first["created_at"] == first["updated_at"]
    [note] = stored(source="docs/sub/note.txt")
    assert (note.metadata["section_id"], note.metadata["title"]) == ("docs/sub/note.txt", "note.txt")
    assert store.collection(parts.collection).metadata == {
        "embedding_provider": "letters",
        "embedding_model": "letters-1",
        "title_field": "title",
        "source_field": "source",
    }


def test_of_a_changed_file_only_new_words_are_embedded_and_what_others_add_to_it_is_no_change(
    parts, stored, store, embedded
):
    parts.ingest(("guide.md", GUIDE))
    store.patch_metadata(parts.collection, {"reviewed": True}, AS_IT_COMES, where=EVERYTHING)
    embedded.clear()
    before = stored()
    assert [each.status for each in parts.ingest(("guide.md", GUIDE)).files] == ["unchanged"]
    assert (embedded, [each.metadata for each in stored()]) == ([], [each.metadata for each in before])
    parts.ingest(("guide.md", GUIDE.replace("## Install\n\nPut it there.", "## Set up\n\nNow.")))
    assert embedded == ["Guide > Set up\n\n## Set up\n\nNow."]
    assert [each.metadata["section"] for each in stored()] == ["Guide", "Guide > Set up", "Guide > Use"]
    parts.ingest(("guide.md", GUIDE))
    embedded.clear()
    parts.ingest(("guide.md", "Hello.\n\n" + GUIDE))
    assert embedded == ["Hello."], "a text that only moved keeps its embedding"
    fresh = LetterEmbedding().embed([text_to_embed(each.text, each.metadata) for each in stored()])
    assert [each.embedding.tolist() for each in stored()] == fresh.tolist()


def test_a_files_name_is_its_title_and_a_text_that_was_embedded_with_it_is_embedded_again_once(
    parts, stored, store, embedded
):
    files = ("note.txt", "A note."), ("plain.md", "No heading.")
    parts.ingest(*files)
    assert embedded == ["A note.", "No heading."]
    assert {each.metadata["title"] for each in stored()} == {"note.txt", "plain.md"}
    [note] = stored(title="note.txt")
    told = {name: value for name, value in note.metadata.items() if name not in ("title_is_file_name", "kind", "given")}
    told = {**told, "content_hash": "another"}  # made to look as earlier releases stored it
    del told["chunking"]
    vectors = LetterEmbedding().embed(["note\n\nA note."])
    store.add_documents(parts.collection, DocumentBatch([note.id], [note.text], [told], vectors))
    embedded.clear()
    assert [each.status for each in parts.ingest(*files).files] == ["done", "unchanged"]
    assert embedded == ["A note."]
    assert stored(title="note.txt")[0].embedding.tolist() == LetterEmbedding().embed(["A note."])[0].tolist()
    assert [each.status for each in parts.ingest(*files).files] == ["unchanged"] * 2


def test_another_model_is_refused_with_both_names_before_embedding_and_so_is_another_dimension(parts, store, embedded):
    store.create_collection(parts.collection, {"embedding_model": "letters-2"}, "cosine")
    [file] = parts.ingest(("guide.md", GUIDE)).files
    assert (file.status, embedded) == ("failed", [])
    assert "was embedded with 'letters-2', not with 'letters-1'" in file.message
    store.change_collection_metadata(parts.collection, {}, AS_IT_COMES, merge=False)
    store.add_documents(parts.collection, DocumentBatch(["x"], ["x"], [{}], np.float32([[1, 2]])))
    [file] = parts.ingest(("guide.md", GUIDE)).files
    assert (file.status, file.code) == ("failed", "embedding_dimension_differs")
    assert "holds embeddings of 2 dimensions, 'letters-1' makes 26: re-embed it" in file.message


def test_own_embeddings_are_stored_as_they_are_and_no_model_is_claimed(parts, stored, store, embedded):
    for second, status in ((2, "done"), (2, "unchanged"), (3, "done")):
        line = json.dumps({"id": "a", "text": "one", "embedding": [1, second]})
        assert [each.status for each in parts.ingest(("data.jsonl", line)).files] == [status]
        assert stored()[0].embedding.tolist() == [1, second]
    assert embedded == []
    assert "embedding_model" not in store.collection(parts.collection).metadata


@pytest.mark.parametrize("times", range(ATTEMPTS + 1))
def test_a_document_is_stored_again_where_its_collection_was_reembedded_and_has_failed_when_that_goes_on(
    parts, monkeypatch, times
):
    left, add = [None] * times, LocalProvider.add_documents

    def add_documents(self, collection, batch, **options):
        if left:
            left.pop()
            raise ReembeddedMeanwhileError(collection)
        return add(self, collection, batch, **options)

    monkeypatch.setattr(LocalProvider, "add_documents", add_documents)
    [file] = parts.ingest(("a.md", "Some words.")).files
    assert (file.status, file.code) == (("done", None) if times < ATTEMPTS else ("failed", "reembedded_meanwhile"))


def test_a_collection_that_another_made_meanwhile_gets_vectors_of_its_own_model(parts, store):
    metadata = {"embedding_model": "letters-a-m", "embedding_connection": "narrow"}
    models = []

    def embed(connection, texts):
        models.append(connection.model)
        if len(models) == 1:
            store.create_collection(parts.collection, metadata, "cosine")
        return connection.embed(texts)

    parts.embed = embed
    assert [each.status for each in parts.ingest(("a.md", "Some words.")).files] == ["done"]
    assert models == ["letters-1", "letters-a-m"]
    assert store.collection(parts.collection).dimension == 13


def test_records_tell_the_model_that_their_collection_has_since_it_was_reembedded(parts, store):
    line = json.dumps({"id": "a", "text": "one"})
    metadata = {"embedding_model": "letters-a-m", "embedding_connection": "narrow"}
    parts.while_embedding(
        lambda: store.create_collection(parts.collection, metadata, "cosine") if len(parts.batches) == 1 else None
    )
    assert [each.status for each in parts.ingest(("data.jsonl", line)).files] == ["done"]
    assert [each.status for each in parts.ingest(("data.jsonl", line)).files] == ["unchanged"]
    assert len(parts.batches) == 2
