"""A question of one or two words, asked of the project's own documents, is answered by a passage and not by a heading."""

import re
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
QUESTIONS = """reliability|promised|backups|metrics|reverse proxy|disk full|front matter|HNSW parameters|rate limits|encodings|embedding service
reciprocal rank fusion|audit log|RAG_CHUNKING|watched folder|bookmarks|graceful restart|erasure|PostgreSQL|reranking"""


@pytest.mark.slow
def test_the_first_passage_for_a_short_question_says_something(filled, client):
    chunking, passages = chunking_of(RetrievalSettings(), LetterEmbedding()), []
    with closing(DocumentReader()) as reader:
        for path in (DOCUMENTATION.parent / "README.md", *(DOCUMENTATION / f"{page}.md" for page in PAGES)):
            file = GivenFile(f"docs/{path.name}", path, kind_named("markdown"))
            read = reader.read(path, file.kind, name=path.name)
            passages += drafts_of(source_document(file, read, chunking=chunking), "letters-1")[0]
    below = ["".join(line for line in each.text.splitlines() if line[:1] != "#").split() for each in passages]
    assert min(map(len, below)) > 1, "no passage is a heading"
    texts = enumerate(text_to_embed(each.text, each.metadata) for each in passages)
    name = filled([{"id": str(place), "text": text, "embedding": [1.0]} for place, text in texts])
    questions = re.findall(r"[^|\n]+", QUESTIONS)
    assert len(questions) == 20
    for question in questions:
        found = client.post(f"/collections/{name}/text-search", json={"query": question}).json
        first, *_ = found["results"] or [None]
        assert first is not None, question
        assert len(below[int(first["id"])]) > 1, question
