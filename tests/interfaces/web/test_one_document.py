"""One document is one document, however it came: as a file, or sent as a text."""

import hashlib
import json
import uuid
from contextlib import closing

import pytest

from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.files import GivenFile
from retrieval.ingest.identity import document_id, text_document_id
from retrieval.ingest.profiles import chunking_of
from retrieval.reading import DocumentReader, kind_of
from schemas.access.callers import ANYBODY, acting_as
from schemas.contracts.rule_documents import RuleDocument
from schemas.settings import RetrievalSettings
from tests.retrieval.stored_folder import ingest_file, store_records

COLLECTION = "rag-documents"
GUIDE = "---\ntags: [setup, first]\nauthor: Ada\n---\n# Guide\n\nHow to start.\n\n## Install\n\nPut it there.\n"
PATH = "below/guide.md"


@pytest.fixture(autouse=True)
def _acting():
    """What is stored here is stored beside the service, for whoever runs it."""
    with acting_as(ANYBODY):
        yield


class Ways:
    """The ways in for one file of a folder whose name no other test uses."""

    def __init__(self, layers, client, root):
        self.name = root.name
        self.root = root
        self._client = client
        self._provider = layers.connections.open("local", "rag")
        self._embedding = layers.connections.open("default", "embedding")
        self._chunking = chunking_of(RetrievalSettings(), self._embedding)
        self._reader = DocumentReader()

    def write(self, text):
        (self.root / PATH).parent.mkdir(exist_ok=True)
        (self.root / PATH).write_text(text)
        return self

    def writer(self, collection=COLLECTION):
        return CollectionWriter(self._provider, collection, lambda info: self._embedding)

    def uploaded(self, **given):
        content = (self.root / PATH).read_bytes()
        file = GivenFile(f"{self.name}/{PATH}", content, kind_of(PATH), **given)
        return ingest_file(self.writer(), file, reader=self._reader, chunking=self._chunking)

    def ingested(self, path=PATH, **more):
        body = {"source": self.name, "path": path, "title": "Guide", "text": (self.root / PATH).read_text(), **more}
        answer = self._client.post("/api/rag/ingest", json=body)
        assert answer.status_code == 200, answer.json
        return answer.json

    def chunks(self, collection=COLLECTION):
        """Return the stored chunks of the file, whatever their spelling of its name."""
        where = {"source": {"$in": [self.name, f"{self.name}/{PATH}"]}}
        answer = self._client.post(f"/collections/{collection}/documents/search", json={"where": where, "limit": 1000})
        return sorted(answer.json["documents"], key=lambda each: each["metadata"]["chunk_index"])

    def documents(self):
        return {each["metadata"]["document_id"] for each in self.chunks()}

    @property
    def as_file(self):
        return document_id(f"{self.name}/{PATH}")


@pytest.fixture
def ways(app, client, tmp_path):
    root = tmp_path / f"docs-{uuid.uuid4().hex[:12]}"
    root.mkdir()
    return Ways(app.extensions["rag.layers"], client, root).write(GUIDE)


WAYS = ["uploaded", "ingested"]


@pytest.mark.parametrize("first", range(2), ids=WAYS)
def test_in_whatever_order_it_comes_there_is_one_document(ways, first):
    for way in (WAYS[first], WAYS[1 - first], WAYS[first]):
        getattr(ways, way)()
        own = text_document_id(ways.name, PATH) if way == "ingested" else ways.as_file
        assert ways.documents() == {own}
        assert all("author:" not in each["text"] for each in ways.chunks())
        first_chunk = ways.chunks()[0]["metadata"]
        assert (first_chunk["tags"], first_chunk["author"], first_chunk["kind"]) == (
            ["setup", "first"],
            "Ada",
            "markdown",
        )


@pytest.mark.parametrize("path", [PATH, f"/{PATH}"])
def test_a_text_is_the_file_with_or_without_a_slash_before_its_path(ways, path):
    ways.ingested(path)
    ways.uploaded()
    assert ways.documents() == {ways.as_file}
    ways.ingested(path)
    assert ways.documents() == {text_document_id(ways.name, path)}


def test_a_changed_file_replaces_what_another_way_stored(ways):
    ways.ingested()
    for number, way in enumerate(WAYS):
        getattr(ways.write(f"# Version {number}\n"), way)()
        assert [each["text"] for each in ways.chunks()] == [f"# Version {number}"]


def test_what_is_given_with_a_file_is_kept_and_a_change_of_it_is_one(ways):
    given = {"metadata": {"team": "ops"}, "tags": ("urgent",)}
    ways.uploaded(**given)
    first = ways.chunks()[0]["metadata"]
    assert (first["tags"], first["team"]) == (["urgent", "setup", "first"], "ops")
    assert first["hash"] == hashlib.sha256(GUIDE.encode()).hexdigest()
    assert ways.uploaded(**given).status == "unchanged"
    assert ways.uploaded().status == "unchanged"
    assert ways.uploaded(metadata={"team": "dev"}).status == "updated"
    first = ways.chunks()[0]["metadata"]
    assert (first["tags"], first["team"]) == (["setup", "first"], "dev")


def test_each_line_of_a_file_of_records_is_listed_shown_and_deleted(ways, client):
    lines = [
        {"_id": f"{ways.name}-{n}", "title": f"Line {n}", "text": "Of oats.", "metadata": {"n": n}} for n in (1, 2)
    ]
    lines[1]["metadata"] |= {"created_at": 1999, "hash": ["x"], "chunk_index": 7}
    (ways.root / "records.jsonl").write_text("\n".join(map(json.dumps, lines)))
    before = client.get("/api/rag/metrics").json["documents"]
    path = ways.root / "records.jsonl"
    store_records(ways.writer(), GivenFile(f"{ways.name}/records.jsonl", path, kind_of(path.name)))
    assert client.get("/api/rag/metrics").json["documents"] == before + 2
    asked = {"source": f"{ways.name}/records.jsonl"}
    page = client.get("/api/documents", query_string=asked).json
    assert [(each["id"], each["title"], each["chunks"]) for each in page["documents"]] == [
        (line["_id"], line["title"], 1) for line in lines
    ]
    assert (page["total"], {each["created_at"] for each in page["documents"]}) == (2, {None})
    first = client.get("/api/documents", query_string=asked | {"limit": 1}).json
    second = client.get("/api/documents", query_string=asked | {"limit": 1, "cursor": first["next_cursor"]}).json
    assert first["documents"] + second["documents"] == page["documents"]
    for each in page["documents"]:
        shown = client.get(f"/api/documents/{each['id']}?chunks=true").json
        assert [chunk["text"] for chunk in shown.pop("chunks")] == ["Of oats."]
        assert client.delete(f"/api/documents/{each['id']}").json["chunks"] == 1
    assert client.get("/api/documents", query_string=asked).json["total"] == 0


LONG_GUIDE = (
    "# Guide\n\nHow to start.\n\n## Install\n\n" + "Put it there. " * 1250 + "\n\n## Use\n\n" + "Do that. " * 1700
)
RULES = {"source": "guide.md", "doc_type": "ops", "last_update_date": "2026-01-31"}


def stored(client, name):
    body = {"include": ["embedding"], "limit": 1000, "order_by": ["chunk_index"]}
    found = client.post(f"/collections/{name}/documents/search", json=body).json["documents"]
    told = ("document_id", "section", "chunk_index", "start_line", "title")
    return [(each["id"], each["text"], each["embedding"], *(each["metadata"][name] for name in told)) for each in found]


@pytest.mark.slow
def test_a_client_a_program_and_a_file_make_the_same_chunks(app_of_models, collection):
    app = app_of_models(chats=False)
    client = app.test_client()
    names = [f"{collection}-{caller}" for caller in ("http", "program", "file")]
    layers = app.extensions["rag.layers"]

    document = {"filename": "guide.md", "content": LONG_GUIDE, "metadata": RULES}
    answer = client.post("/api/rag/documents:batch", json={"documents": [document], "collection": names[0]})
    assert (answer.status_code, answer.json["documents_failed"]) == (200, 0)
    layers.pipeline.ingest([RuleDocument("guide.md", LONG_GUIDE, RULES)], collection=names[1])
    embedding = layers.connections.open("default", "embedding")
    writer = CollectionWriter(layers.connections.open("local", "rag"), names[2], lambda info: embedding)
    with closing(DocumentReader()) as reader:
        file = GivenFile("guide.md", LONG_GUIDE.encode(), kind_of("guide.md"))
        done = ingest_file(
            writer, file, reader=reader, chunking=chunking_of(RetrievalSettings(chunking="whole"), embedding)
        )

    http, program, uploaded = (stored(client, name) for name in names)
    assert http == program == uploaded
    assert len(http) == done.chunks > 2
    assert {each[3] for each in http} == {document_id("guide.md")}
