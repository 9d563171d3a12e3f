"""A question of one or two words, asked of the project's own documents, is answered by a passage and not by a heading."""

from contextlib import closing

import pytest

from benchmarks.relevance.calibration import DOCUMENTATION
from retrieval.ingest.drafts import drafts_of, text_to_embed
from retrieval.ingest.files import GivenFile, source_document
from retrieval.ingest.profiles import chunking_of
from retrieval.reading import DocumentReader, kind_named
from schemas.settings import RetrievalSettings
from tests.retrieval.letter_embedding import LetterEmbedding

PAGES = ("concepts", "loading", "reading", "watching", "operations", "reliability", "engine", "settings", "quality")
QUESTIONS = """
    reliability|promised|backups|metrics|reverse proxy|disk full|front matter|HNSW parameters|rate limits|encodings
    embedding service|reciprocal rank fusion|audit log|RAG_CHUNKING|watched folder|bookmarks|graceful restart|erasure
    PostgreSQL|reranking
"""


@pytest.fixture(scope="module")
def passages():
    """The passages of ten documents."""
    chunking, drafts = chunking_of(RetrievalSettings(), LetterEmbedding()), []
    with closing(DocumentReader()) as reader:
        for path in (DOCUMENTATION.parent / "README.md", *(DOCUMENTATION / f"{page}.md" for page in PAGES)):
            file = GivenFile(f"docs/{path.name}", path, kind_named("markdown"))
            drafts += drafts_of(source_document(file, reader=reader, chunking=chunking), "letters-1")[0]
    return drafts


def says_something(text):
    below = [line for line in text.splitlines() if not line.startswith("#")]
    return len(" ".join(below).split()) > 1


def asked():
    return [each.strip() for line in QUESTIONS.split("\n") for each in line.split("|") if each.strip()]


@pytest.mark.slow
def test_the_first_passage_for_a_short_question_says_something(passages, filled, client):
    documents = [
        {"id": str(place), "text": text_to_embed(each.text, each.metadata), "embedding": [1.0]}
        for place, each in enumerate(passages)
    ]
    name = filled(documents)
    assert len(asked()) == 20
    for question in asked():
        found = client.post(f"/collections/{name}/text-search", json={"query": question}).json
        first, *_ = found["results"] or [None]
        assert first, question
        assert says_something(passages[int(first["id"])].text), (question, first)


def test_no_passage_of_the_documents_is_a_heading(passages):
    assert [each.text for each in passages if not says_something(each.text)] == []
