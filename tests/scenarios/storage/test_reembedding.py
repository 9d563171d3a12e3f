"""A collection gets the vectors of another model while it is used."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest
from werkzeug.serving import make_server

from providers.rag_wrapper.provider import RagWrapperProvider
from retrieval.ingest.loading import load
from retrieval.ingest.profiles import chunking_of
from retrieval.reading import DocumentReader
from schemas.errors import ConflictError
from schemas.settings import RetrievalSettings
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.scenarios.storage.reembedded import PATIENCE_SECONDS, add, complete, nearest, reembed, state
from tests.support.live import eventually
from tests.support.model_server import DIMENSION, as_json, vector
from tests.wrapper.web.line_bodies import Lines

OLD_DIMENSION = 3


def test_the_collection_is_switched_to_the_new_vectors_and_back(client, name, connection):
    before = client.get(f"/collections/{name}")
    answer = reembed(client, name, connection=connection)
    assert answer.status_code == 202, answer.json
    assert (answer.json["model"], answer.json["from_model"], answer.json["documents"]) == ("newer", "older", 5)
    complete(client, name)
    after = client.get(f"/collections/{name}")
    assert after.json["id"] == before.json["id"]
    assert after.headers["ETag"] != before.headers["ETag"]
    assert (after.json["count"], after.json["dimension"]) == (5, DIMENSION)
    assert after.json["metadata"] == {
        "embedding_provider": "openai",
        "embedding_model": "newer",
        "embedding_connection": connection,
        "title": "Handbook",
    }
    assert [nearest(client, name, f"Text {number}") for number in range(5)] == [f"d{number}" for number in range(5)]
    assert name in [each["name"] for each in client.get("/collections").json["collections"]]
    told = state(client, name)
    assert (told["old_vectors_kept"], told["can_go_back"], told["documents_done"]) == (True, True, 5)

    back = reembed(client, name, back=True)
    assert (back.status_code, back.json["can_go_back"]) == (200, False), back.json
    assert client.get(f"/collections/{name}").json["dimension"] == OLD_DIMENSION
    assert client.get(f"/collections/{name}").json["metadata"] == before.json["metadata"]

    dropped = client.delete(f"/collections/{name}/reembed")
    assert dropped.json == {"collection": name, "dropped_model": "newer", "model": "older"}
    assert client.delete(f"/collections/{name}/reembed").json["code"] == "reembedding_not_found"
    assert client.get(f"/collections/{name}/reembed").status_code == 404


def test_nothing_is_lost_that_is_written_while_the_model_does_not_answer(client, name, connection, models_up):
    models_up.is_down = True
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["error"], seconds=PATIENCE_SECONDS)
    assert state(client, name)["status"] == "running"
    add(client, name, 5, 6)
    client.delete(f"/collections/{name}/documents", json={"ids": ["d0"]})
    assert client.get(f"/collections/{name}").json["dimension"] == OLD_DIMENSION
    models_up.is_down = False
    complete(client, name)
    assert client.get(f"/collections/{name}").json["count"] == 6
    assert [nearest(client, name, f"Text {number}") for number in range(1, 7)] == [f"d{n}" for n in range(1, 7)]
    add_new = {"documents": [{"id": "new", "text": "New", "embedding": vector("New").tolist()}]}
    assert client.post(f"/collections/{name}/documents", json=add_new).status_code in (201, 202)
    refused = reembed(client, name, back=True)
    assert (refused.status_code, refused.json["code"]) == (409, "reembedding_no_way_back")
    kept = reembed(client, name, connection=connection)
    assert (kept.status_code, kept.json["code"]) == (409, "reembedding_old_vectors_kept")


def test_what_no_model_can_do_fails_with_a_sentence_and_goes_on_when_it_is_asked_again(client, name, connection):
    textless = {"documents": [{"id": "empty", "text": " ", "embedding": [1.0, 1.0, 1.0]}]}
    assert client.post(f"/collections/{name}/documents", json=textless).status_code in (201, 202)
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed", seconds=PATIENCE_SECONDS)
    assert "'empty' has no text" in state(client, name)["error"]
    client.delete(f"/collections/{name}/documents/empty")
    assert reembed(client, name, connection=connection).json["status"] == "running"
    complete(client, name)


def test_a_connection_that_is_gone_or_has_another_model_ends_it(client, name, connection, models_up):
    models_up.is_down = True
    reembed(client, name, connection=connection)
    config = {"url": f"{models_up.url}/v1", "model": "newest"}
    assert client.put(f"/api/connections/{connection}", json={"config": config}).status_code == 200
    eventually(lambda: state(client, name)["status"] == "failed", seconds=PATIENCE_SECONDS)
    assert "'newest'" in state(client, name)["error"]
    models_up.is_down = False
    assert reembed(client, name, connection=connection).json["model"] == "newest"
    complete(client, name)


@pytest.mark.parametrize(
    ("asked", "status", "code", "field"),
    [
        ({}, 400, "invalid_field", "connection"),
        ({"connection": " "}, 400, "invalid_field", "connection"),
        ({"connection": "default", "back": True}, 400, "invalid_field", "back"),
        ({"back": "yes"}, 400, "invalid_field", "back"),
        ({"connection": "nowhere"}, 404, "connection_not_found", None),
        ({"connection": "local"}, 409, "wrong_connection_type", None),
        ({"back": True}, 404, "reembedding_not_found", None),
    ],
)
def test_a_wrong_request_is_refused(client, name, asked, status, code, field):
    answer = reembed(client, name, **asked)
    assert (answer.status_code, answer.json["code"]) == (status, code), answer.json
    assert answer.json["details"].get("field") == field
    assert reembed(client, "nowhere", connection="default").json["code"] == "collection_not_found"


def test_a_deleted_collection_leaves_nothing(client, name, connection, models_up):
    models_up.is_down = True
    reembed(client, name, connection=connection)
    assert client.delete(f"/collections/{name}").status_code == 200
    assert reembed(client, name, connection=connection).status_code == 404
    assert client.get("/health").json["status"] == "healthy"


def test_a_vector_that_the_collection_cannot_have_is_told_by_its_own_name(client, name, connection, models_up):
    models_up.meanings["Text 3"] = [0.0]
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed", seconds=PATIENCE_SECONDS)
    assert f"the metric of collection '{name}' is cosine" in state(client, name)["error"]


def all_are_embedded_by_the_stub(client, name):
    asked = {"limit": 1000, "include": ["embedding"]}
    found = client.post(f"/collections/{name}/documents/search", json=asked).json["documents"]
    return [each["id"] for each in found if each["embedding"] != pytest.approx(vector(each["text"]).tolist())] == []


@pytest.mark.parametrize("path", ["documents", "import"])
def test_a_stream_of_old_vectors_ends_where_the_collection_was_switched(app, client, filled, connection, path):
    name = filled(DIMENSION)
    lines = [
        orjson.dumps({"id": f"n{n}", "text": f"New {n}", "embedding": [1.0] * DIMENSION}) + b"\n" for n in range(1_200)
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
    headers = {"X-Filename": "late.md", "Content-Type": "text/markdown"}
    told = client.post(f"/api/documents?collection={name}", data=b"# Late\n\nWords.", headers=headers)
    job = f"/api/jobs/{told.json['job']['id']}"
    eventually(lambda: client.get(job).json["status"] == "done", seconds=PATIENCE_SECONDS)
    assert [each["status"] for each in client.get(job).json["files"]] == ["done"], client.get(job).json
    assert client.get(f"/collections/{name}").json["count"] == 6
    assert all_are_embedded_by_the_stub(client, name)
    [chunk] = client.post(f"/collections/{name}/documents/search", json={"where": {"source": "late.md"}}).json[
        "documents"
    ]
    assert chunk["metadata"]["embedding_model"] == "newer"


def test_documents_tell_the_model_that_their_vectors_are_of_now(client, filled, connect, connection):
    name = filled(DIMENSION, embedding_connection=connect("older"))
    headers = {"X-Filename": "a.md", "Content-Type": "text/markdown"}
    told = client.post(f"/api/documents?collection={name}", data=b"# A\n\nWords.", headers=headers)
    job = f"/api/jobs/{told.json['job']['id']}"
    eventually(lambda: client.get(job).json["status"] == "done", seconds=PATIENCE_SECONDS)

    def models():
        found = client.get("/api/rag/documents", query_string={"collection": name}).json["documents"]
        return {each["embeddingModel"] for each in found if each["collection"] == name}

    assert models() == {"older"}
    reembed(client, name, connection=connection)
    complete(client, name)
    assert models() == {"newer"}
    client.patch(f"/collections/{name}/metadata", json={"metadata": {"embedding_model": None}})
    assert models() == {"older", None}


@pytest.mark.parametrize("media_type", ["application/json", "application/x-ndjson"])
def test_vectors_that_are_said_to_be_of_another_model_are_refused(client, name, media_type):
    document = {"id": "new", "text": "New", "embedding": [1.0, 0.0, 0.0]}
    body = orjson.dumps({"documents": [document]} if media_type == "application/json" else document)

    def answer(model):
        asked = {"embedding_model": model}
        return client.post(f"/collections/{name}/documents", query_string=asked, data=body, content_type=media_type)

    refused = answer("newer")
    assert (refused.status_code, refused.json["code"]) == (409, "embedding_model_differs"), refused.json
    assert client.get(f"/collections/{name}").json["count"] == 5
    assert answer("older").status_code in (201, 202)
    for unknown in (None, ["older"], {"of": "older"}):
        client.patch(f"/collections/{name}/metadata", json={"metadata": {"embedding_model": unknown}})
        assert answer("newer").status_code in (200, 201, 202)


@pytest.fixture
def url(app):
    """Where the service is asked over HTTP."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever)
        yield f"http://127.0.0.1:{server.port}"
        server.shutdown()
    server.server_close()


def test_a_load_by_the_old_model_ends_where_the_collection_was_switched(url, client, filled, connection, tmp_path):
    name, switches = filled(DIMENSION), []
    for file in ("a.md", "b.md"):
        (tmp_path / file).write_text(f"Words of {file}.")

    def switch(progress):
        if progress.source.endswith("b.md") and not switches:
            switches.append(reembed(client, name, connection=connection))
            complete(client, name)

    older = LetterEmbedding("older", dimension=DIMENSION)
    with RagWrapperProvider({"url": url}) as provider, DocumentReader() as reader:
        chunking = chunking_of(RetrievalSettings(), older)
        with pytest.raises(ConflictError, match="was embedded with 'newer', not with 'older'"):
            load(
                tmp_path,
                provider=provider,
                collection=name,
                embedding=older,
                chunking=chunking,
                reader=reader,
                on_progress=switch,
            )
    assert client.get(f"/collections/{name}").json["count"] == 6
    assert all_are_embedded_by_the_stub(client, name)
