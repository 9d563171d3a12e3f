"""No collection gets vectors of another model than its own, whoever writes them while it is re-embedded."""

import orjson
import pytest

from providers import base
from providers.base import ProviderContext
from providers.local import LocalProvider
from providers.rag_wrapper.provider import RagWrapperProvider
from retrieval.ingest.collection_writer import CollectionWriter
from retrieval.ingest.drafts import Draft
from retrieval.ingest.identity import document_id
from schemas.access.callers import SERVICE, acting_as
from schemas.where import Equals
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.scenarios.storage.reembedding.conftest import (
    OLD_DIMENSION,
    all_are_embedded_by_the_stub,
    complete,
    reembed,
    upload,
)
from tests.support.model_server import DIMENSION, as_json
from tests.wrapper.web.line_bodies import Lines
from wrapper.web import line_streams

PAGE = 40
"""How many documents of a collection are read at once."""


@pytest.mark.parametrize("path", ["documents", "import"])
def test_a_stream_of_old_vectors_ends_where_the_collection_was_switched(
    app, client, filled, connection, monkeypatch, path
):
    monkeypatch.setattr(line_streams, "LINES_PER_TRANSACTION", 5)
    name = filled(DIMENSION)
    lines = [
        orjson.dumps({"id": f"n{n}", "text": f"New {n}", "embedding": [1.0] * DIMENSION}) + b"\n" for n in range(200)
    ]

    def switch():
        beside = app.test_client()
        assert reembed(beside, name, connection=connection).status_code == 202
        complete(beside, name)

    answer = client.post(
        f"/collections/{name}/{path}",
        input_stream=Lines(lines, switch),
        content_type="application/x-ndjson",
        content_length=sum(map(len, lines)),
    )
    assert (answer.status_code, answer.json["code"]) == (409, "reembedded_meanwhile"), answer.json
    assert "another model" in answer.json["error"]
    stored = client.get(f"/collections/{name}").json["count"]
    assert answer.json["details"]["count"] == stored - 5 > 0
    assert all_are_embedded_by_the_stub(client, name)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [DIMENSION, OLD_DIMENSION])
def test_an_upload_embedded_before_the_switch_is_embedded_again(
    app, client, filled, connect, connection, models_up, dimension
):
    name = filled(dimension, embedding_connection=connect("older"))

    def switched(body):
        beside = app.test_client()
        assert reembed(beside, name, connection=connection).status_code == 202
        complete(beside, name)
        data = [{"index": index, "embedding": [1.0] * dimension} for index, _ in enumerate(body["input"])]
        return as_json({"data": data, "model": "older"})

    models_up.script.append(switched)
    job = upload(client, name, "late.md")
    assert [each["status"] for each in job["files"]] == ["done"], job
    assert client.get(f"/collections/{name}").json["count"] == 6
    assert all_are_embedded_by_the_stub(client, name)
    late = {"where": {"source": "late.md"}}
    [chunk] = client.post(f"/collections/{name}/documents/search", json=late).json["documents"]
    assert chunk["metadata"]["embedding_model"] == "newer"


@pytest.mark.parametrize("route", ["documents", "lines of documents", "import", "PUT", "PATCH"])
def test_any_write_of_a_vector_that_is_said_to_be_of_another_model_is_refused(client, name, route):
    document = {"id": "d1", "text": "New", "embedding": [1.0, 0.0, 0.0]}
    place, lines = f"/collections/{name}", {"data": orjson.dumps(document), "content_type": "application/x-ndjson"}
    method, path, sent = {
        "documents": ("POST", "/documents", {"json": {"documents": [document]}}),
        "lines of documents": ("POST", "/documents", lines),
        "import": ("POST", "/import", lines),
        "PUT": ("PUT", "/documents/d1", {"json": {**document, "metadata": {}}}),
        "PATCH": ("PATCH", "/documents/d1", {"json": {"text": "New", "embedding": [1.0, 0.0, 0.0]}}),
    }[route]

    def answer(model):
        return client.open(f"{place}{path}", method=method, query_string={"embedding_model": model}, **sent)

    before = client.get(f"{place}/documents/d1").json
    for model in ("newer", ""):
        refused = answer(model)
        assert (refused.status_code, refused.json["code"]) == (409, "embedding_model_differs"), refused.json
        assert client.get(f"{place}/documents/d1").json == before
    stored = answer("older")
    assert stored.status_code in (200, 201, 202), stored.json
    assert "warnings" not in stored.json
    assert client.get(f"{place}/documents/d1").json["text"] == "New"
    client.patch(f"{place}/metadata", json={"metadata": {"embedding_model": None}})
    assert answer("").status_code in (200, 201, 202)


@pytest.fixture(params=["local", "of another service"])
def provider(request, app):
    """The collections as a writer in this process has them, and as one in another process has."""
    if request.param == "local":
        with acting_as(SERVICE):
            yield LocalProvider({}, ProviderContext(storage=app.extensions["rag.service"].callers_store))
        return
    with RagWrapperProvider({"url": request.getfixturevalue("url")}) as provider:
        yield provider


@pytest.mark.slow
def test_what_is_embedded_already_keeps_its_vector_when_the_collection_is_switched_forth_and_back(
    provider, client, filled, connection
):
    """The stored vectors are read while the other model's are shown, and written when these are not any more."""
    name = filled(DIMENSION)
    models = {model: LetterEmbedding(model, dimension=DIMENSION) for model in ("older", "newer")}

    def switch_back(embedding, texts):
        assert reembed(client, name, back=True).status_code == 200
        return embedding.embed(texts)

    reembed(client, name, connection=connection)
    complete(client, name)
    assert reembed(client, name, back=True).status_code == 200
    writer = CollectionWriter(provider, name, lambda info: models[info.metadata["embedding_model"]], switch_back)
    stored = writer.stored_by_id(["d0"])
    drafts = [Draft("d0", "Text 0", {"seen": True}), Draft("new", "New words", {})]
    assert reembed(client, name, connection=connection).json["model"] == "newer"
    writer.following(lambda: writer.write(drafts, writer.vectors(drafts, stored)))
    asked = {"ids": ["d0", "new"], "include": ["embedding"]}
    old, new = client.post(f"/collections/{name}/documents/search", json=asked).json["documents"]
    assert (old["metadata"], old["embedding"]) == ({"seen": True}, [1.0] * DIMENSION)
    assert new["embedding"] == models["older"].embed(["New words"])[0].tolist()


def test_what_is_stored_is_read_again_where_the_collection_is_switched_between_two_pages(
    provider, client, filled, connection, monkeypatch
):
    monkeypatch.setattr(base, "MAX_PAGE", PAGE)
    name, switches = filled(DIMENSION), []
    documents = [
        {
            "id": f"n{n}",
            "text": f"New {n}",
            "metadata": {"folder": "docs", "chunk_index": 0, "path": str(n), "document_id": document_id(f"docs/{n}")},
            "embedding": [1.0] * DIMENSION,
        }
        for n in range(PAGE + 1)
    ]
    assert client.post(f"/collections/{name}/documents", json={"documents": documents}).status_code in (201, 202)
    reembed(client, name, connection=connection)
    complete(client, name)
    assert reembed(client, name, back=True).status_code == 200
    writer = CollectionWriter(provider, name, lambda info: LetterEmbedding(info.metadata["embedding_model"]))
    page = type(provider).documents

    def switching(*args, **asked):
        found = page(*args, **asked)
        if not switches:
            switches.append(reembed(client, name, connection=connection))
        return found

    monkeypatch.setattr(type(provider), "documents", switching)
    assert len(writer.stored(Equals("folder", "docs"))) == PAGE + 1
    assert (len(switches), writer.embedding.model) == (1, "newer")
