"""Files become chunks in a collection, also where it is re-embedded, or made by another writer, meanwhile."""

import json
from dataclasses import replace

import pytest

from providers.pinned_writes import PinsEmbeddings
from retrieval.chunking import Syntax
from retrieval.ingest.collection_writer import ATTEMPTS, CollectionWriter
from retrieval.ingest.drafts import SourceDocument, text_to_embed
from retrieval.ingest.identity import document_id
from retrieval.ingest.ingestion import ingest_document
from retrieval.ingest.profiles import chunking_of
from schemas.contracts.rule_documents import EmbeddingFailureError
from schemas.errors import ConflictError, InvalidInputError, UnavailableError
from schemas.settings import RetrievalSettings
from schemas.storage.reembedding import ReembeddedMeanwhileError
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.model_store import ModelProvider, ModelStore
from tests.retrieval.stored_folder import store_folder

GUIDE = "# Guide\n\nHow to start.\n\n## Install\n\nPut it there.\n\n## Use\n\nDo that.\n"


@pytest.fixture
def store():
    return ModelStore()


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        for name, content in files.items():
            path = tmp_path / "docs" / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else "\n".join(json.dumps(line) for line in content))
        return tmp_path / "docs"

    return write


def run(path, store, embed=None, **options):
    return store_folder(path, ModelProvider(store), embed or LetterEmbedding(), **options)


def counts(report):
    return report.created, report.updated, report.unchanged


def test_markdown_becomes_chunks_that_say_where_they_are_from_in_a_collection_that_knows_its_model(folder, store):
    report = run(folder(guide_md=GUIDE, sub__note_txt="A note."), store)
    assert (report.chunks, counts(report), report.errors) == (4, (4, 0, 0), [])
    install = next(store.documents("docs", {"section": "Guide > Install"}))
    assert install["text"] == "## Install\n\nPut it there."
    assert {key: value for key, value in install["metadata"].items() if key not in ("content_hash", "updated_at")} == {
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
    first = next(store.documents("docs", {"source": "docs/guide.md", "chunk_index": 0}))["metadata"]
    assert (first["chunk_count"], first["embedding_model"]) == (3, "letters-1")
    assert first["created_at"] == first["updated_at"]
    note = next(store.documents("docs", {"source": "docs/sub/note.txt"}))
    assert (note["metadata"]["section_id"], note["metadata"]["title"]) == ("docs/sub/note.txt", "note.txt")
    assert store.collection("docs")["metadata"] == {
        "embedding_provider": "letters",
        "embedding_model": "letters-1",
        "title_field": "title",
        "source_field": "source",
    }


def test_a_second_run_changes_and_embeds_nothing_and_what_others_add_to_it_is_no_change(folder, store):
    path = folder(guide_md=GUIDE, note_txt="A note.", data_jsonl=[{"id": "a", "text": "one"}, {"text": "two"}])
    run(path, store)
    for document in store.documents("docs", {"source": "docs/guide.md"}):
        document["metadata"]["reviewed"] = True
    before, writes, embed = dict(store.stored["docs"]), list(store.calls), LetterEmbedding()
    report = run(path, store, embed)
    assert counts(report) == (0, 0, 6)
    assert embed.embedded == []
    assert store.calls == writes
    assert store.stored["docs"] == before


def test_of_a_changed_file_only_new_words_are_embedded_and_a_text_that_only_moved_keeps_its_embedding(folder, store):
    run(folder(guide_md=GUIDE, note_txt="A note."), store)
    embed = LetterEmbedding()
    report = run(folder(guide_md=GUIDE.replace("## Install\n\nPut it there.", "## Set up\n\nNow.")), store, embed)
    assert counts(report) == (0, 1, 3)
    assert embed.embedded == ["Guide > Set up\n\n## Set up\n\nNow."]
    sections = [document["metadata"]["section"] for document in store.documents("docs", {"source": "docs/guide.md"})]
    assert sorted(sections) == ["Guide", "Guide > Set up", "Guide > Use"]
    run(folder(guide_md=GUIDE), store)
    embed = LetterEmbedding()
    run(folder(guide_md="Hello.\n\n" + GUIDE), store, embed)
    assert embed.embedded == ["Guide\n\nHello."]
    of_guide = store.documents("docs", {"source": "docs/guide.md"}, include=["embedding"])
    documents = sorted(of_guide, key=lambda d: d["metadata"]["chunk_index"])
    fresh = LetterEmbedding().embed([text_to_embed(d["text"], d["metadata"]) for d in documents])
    assert [document["embedding"] for document in documents] == fresh.tolist()


def test_a_files_name_is_its_title_and_a_text_that_was_embedded_with_it_is_embedded_again_once(folder, store):
    path, embed = folder(note_txt="A note.", plain_md="No heading."), LetterEmbedding()
    run(path, store, embed)
    assert set(embed.embedded) == {"A note.", "No heading."}
    assert {each["metadata"]["title"] for each in store.documents("docs")} == {"note.txt", "plain.md"}
    (path / "plain.md").unlink()
    [stored] = store.documents("docs", {"title": "note.txt"})
    stored = store.stored["docs"][stored["id"]]  # made to look as earlier releases stored it
    for name in ("title_is_file_name", "kind", "chunking", "given"):
        del stored["metadata"][name]
    stored["metadata"]["content_hash"] = "another"
    stored["embedding"] = LetterEmbedding().embed(["note\n\nA note."])[0].tolist()
    embed = LetterEmbedding()
    assert counts(run(path, store, embed)) == (0, 1, 0)
    assert embed.embedded == ["A note."]
    stored = store.stored["docs"][stored["id"]]
    assert stored["embedding"] == LetterEmbedding().embed(["A note."])[0].tolist()
    assert counts(run(path, store)) == (0, 0, 1)


def test_another_model_is_refused_with_both_names_before_embedding_and_so_is_another_dimension(folder, store):
    path = folder(guide_md=GUIDE)
    run(path, store)
    embed = LetterEmbedding("letters-2")
    with pytest.raises(ConflictError, match="was embedded with 'letters-1', not with 'letters-2'") as raised:
        run(path, store, embed)
    assert raised.value.details == {"stored": "letters-1", "given": "letters-2"}
    assert embed.embedded == []
    store.ensure_collection("narrow", {})
    store.add_documents("narrow", [{"id": "x", "text": "x", "metadata": {}, "embedding": [1.0, 2.0]}])
    with pytest.raises(ConflictError, match="holds embeddings of 2 dimensions, 'letters-1' makes 26: re-embed it"):
        run(path, store, collection="narrow")


def test_own_embeddings_are_stored_as_they_are_and_no_model_is_claimed(folder, store):
    path = folder(data_jsonl=[{"id": "a", "text": "one", "embedding": [1, 2]}])
    embed = LetterEmbedding()
    assert counts(run(path, store, embed)) == (1, 0, 0)
    assert counts(run(path, store, LetterEmbedding("letters-2"))) == (0, 0, 1)
    assert embed.embedded == []
    assert store.stored["docs"]["a"]["embedding"] == [1, 2]
    assert "embedding_model" not in store.collection("docs")["metadata"]
    assert counts(run(folder(data_jsonl=[{"id": "a", "text": "one", "embedding": [1, 3]}]), store)) == (1, 0, 0)


class Picky(LetterEmbedding):
    """Fails at texts with a word that it does not take."""

    def _embed(self, texts):
        if any(self.word in text for text in texts):
            raise self.error
        return super()._embed(texts)


@pytest.mark.parametrize(("kind", "code"), [(InvalidInputError, "x"), (UnavailableError, "text_not_embedded")])
def test_texts_that_cannot_be_embedded_are_named_and_do_not_stop_their_neighbours(folder, store, kind, code):
    embed = Picky()
    embed.word, embed.error = "bad", kind("this text fails", code="x", status=500)
    lines = [{"id": str(number), "text": "bad" if number in (7, 9) else f"text {number}"} for number in range(30)]
    report = run(folder(data_jsonl=lines, a_md=GUIDE.replace("Put", "Not bad: put"), b_md="good"), store, embed)
    assert [str(e) for e in report.errors] == [
        "docs/a.md: Chunk 2 (“## Install Not bad: put it there.”) cannot be embedded: this text fails",
        *(f"docs/data.jsonl:{line}: A text (“bad”) cannot be embedded: this text fails" for line in (8, 10)),
    ]
    assert (report.created, report.errors[0].code) == (29, code)
    embed.word = ""
    with pytest.raises(EmbeddingFailureError, match=r"^this text fails$"):
        run(folder(b_md="Not yet there.", c_md="Nor this."), store, embed)


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
