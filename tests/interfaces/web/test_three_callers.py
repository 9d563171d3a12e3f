"""A document makes the same chunks under the same ids whether `load`, a client or a program brings it."""

from retrieval.ingest import profiles
from retrieval.ingest.identity import document_id
from retrieval.ingest.loading import load
from retrieval.reading import DocumentReader
from schemas.access.callers import ANYBODY, acting_as
from schemas.contracts.rule_documents import RuleDocument
from schemas.settings import RetrievalSettings

GUIDE = "# Guide\n\nHow to start.\n\n## Install\n\n" + "Put it there. " * 1250 + "\n\n## Use\n\n" + "Do that. " * 1700
METADATA = {"source": "guide.md", "doc_type": "ops", "last_update_date": "2026-01-31"}


def stored(client, name):
    body = {"include": ["embedding"], "limit": 1000, "order_by": ["chunk_index"]}
    found = client.post(f"/collections/{name}/documents/search", json=body).json["documents"]
    told = ("document_id", "section", "chunk_index", "start_line", "title")
    return [(each["id"], each["text"], each["embedding"], *(each["metadata"][name] for name in told)) for each in found]


def test_three_callers_make_the_same_chunks(app, client, collection, tmp_path):
    names = [f"{collection}-{caller}" for caller in ("http", "program", "load")]
    layers = app.extensions["rag.layers"]
    (tmp_path / "guide.md").write_text(GUIDE)

    document = {"filename": "guide.md", "content": GUIDE, "metadata": METADATA}
    answer = client.post("/api/rag/documents:batch", json={"documents": [document], "collection": names[0]})
    assert (answer.status_code, answer.json["documents_failed"]) == (200, 0)
    with acting_as(ANYBODY):
        layers.pipeline.ingest([RuleDocument("guide.md", GUIDE, METADATA)], collection=names[1])
    embedding = layers.connections.open("default", "embedding")
    with acting_as(ANYBODY), DocumentReader() as reader:
        report = load(
            tmp_path,
            provider=layers.connections.open("local", "rag"),
            collection=names[2],
            embedding=embedding,
            chunking=profiles.chunking_of(RetrievalSettings(), embedding, profile="whole"),
            reader=reader,
            source_prefix="",
        )

    http, program, loaded = (stored(client, name) for name in names)
    assert http == program == loaded
    assert len(http) == report.chunks > 2
    assert {each[3] for each in http} == {document_id("guide.md")}
