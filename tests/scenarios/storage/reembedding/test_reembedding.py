"""A collection gets the vectors of another model while it is used: why it is not switched is said in a sentence, and
what is erased of it is gone from the vectors that stand beside it, too, and nothing else is."""

import itertools

import pytest

from tests.scenarios.databases import ON_BOTH
from tests.scenarios.storage.reembedding.conftest import OLD_DIMENSION, add, complete, nearest, reembed, state, upload
from tests.support.live import eventually
from tests.support.model_server import DIMENSION, as_json, openai_answer, vector
from wrapper.catalog.names.beside import with_beside
from wrapper.catalog.rows import named

REFUSED = as_json({"error": {"message": "too long"}}, 400)


@ON_BOTH
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


@pytest.mark.slow
@ON_BOTH
def test_nothing_is_lost_that_is_written_while_the_model_does_not_answer(client, name, connection, models_up):
    models_up.is_down = True
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["error"])
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


@pytest.mark.slow
def test_a_connection_that_is_gone_or_has_another_model_and_a_vector_that_cannot_be_end_it(
    client, name, connection, models_up
):
    models_up.meanings["Text 3"] = [0.0]
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    assert f"the metric of collection '{name}' is cosine" in state(client, name)["error"]
    del models_up.meanings["Text 3"]
    models_up.is_down = True
    reembed(client, name, connection=connection)
    config = {"url": f"{models_up.url}/v1", "model": "newest"}
    assert client.put(f"/api/connections/{connection}", json={"config": config}).status_code == 200
    eventually(lambda: state(client, name)["status"] == "failed")
    assert "'newest'" in state(client, name)["error"]
    models_up.is_down = False
    assert reembed(client, name, connection=connection).json["model"] == "newest"
    complete(client, name)


@pytest.mark.slow
def test_documents_tell_the_model_that_their_vectors_are_of_now(client, filled, connect, connection):
    name = filled(DIMENSION, embedding_connection=connect("older"))
    upload(client, name, "a.md")

    def models():
        found = client.get("/api/rag/documents", query_string={"collection": name}).json["documents"]
        return {each["embeddingModel"] for each in found if each["collection"] == name}

    assert models() == {"older"}
    reembed(client, name, connection=connection)
    complete(client, name)
    assert models() == {"newer"}
    client.patch(f"/collections/{name}/metadata", json={"metadata": {"embedding_model": None}})
    assert models() == {"older", None}


# Why it is not switched.


@pytest.mark.slow
def test_a_collection_written_faster_than_it_is_embedded_is_told(app, client, name, connection, models_up, monkeypatch):
    beside, numbers = app.test_client(), itertools.count(5)

    def embedded_while_written(body):
        if any("Text" in text for text in body["input"]):
            add(beside, name, next(numbers))
        return openai_answer(body)

    with monkeypatch.context() as patch:
        patch.setitem(models_up.routes, "/v1/embeddings", embedded_while_written)
        reembed(client, name, connection=connection)
        error = eventually(lambda: state(client, name)["error"])
        assert "written faster than it is embedded" in error
        done = state(client, name)["documents_done"]
        eventually(lambda: state(client, name)["documents_done"] > done)
        assert state(client, name)["status"] == "running"
    complete(client, name)
    assert state(client, name)["error"] is None


@pytest.fixture
def refuse(models_up, monkeypatch):
    """`refuse(is_refused)`: the stub refuses requests whose texts are, and the list of these numbers grows by each."""

    def refuse(is_refused, **options):
        asked = []

        def answer(body):
            asked.append(len(body["input"]))
            return REFUSED if is_refused(body["input"]) else openai_answer(body, **options)

        monkeypatch.setitem(models_up.routes, "/v1/embeddings", answer)
        return asked

    return refuse


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["no text", "refused", "zeros"])
def test_what_cannot_be_embedded_is_named_until_it_is_erased_and_what_is_left_goes_on_when_asked_again(
    app, client, name, connection, refuse, fault
):
    add(client, name, *range(5, 150))
    textless = {"documents": [{"id": "ada@example.org", "text": " ", "embedding": [1, 1, 1]}]}
    doomed = "ada@example.org" if fault == "no text" else "d41"
    if fault == "no text":
        assert client.post(f"/collections/{name}/documents", json=textless).status_code in (201, 202)
    zeros = {"Text 41": [0]} if fault == "zeros" else {}
    asked = refuse(lambda texts: fault == "refused" and "Text 41" in texts, meanings=zeros)
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    error = state(client, name)["error"]
    if fault == "no text":
        assert f"'{doomed}' has no text" in error
    else:
        deed = "cannot be stored: " if zeros else f"is refused by connection '{connection}': "
        assert error.startswith(f"Document '{doomed}' (“Text 41”) {deed}")
        assert zeros or error.endswith("(HTTP 400): too long")
        assert len(asked) <= 4 + 2 * 5  # the hundred, by 32, and the halves in which the text is
    assert client.post("/api/erase", json={"collection": name, "document": doomed}).status_code == 200
    assert doomed not in state(client, name)["error"]
    with app.extensions["rag.service"].catalog.read() as transaction:
        assert not [row for row in transaction.rows("SELECT metadata FROM collections") if doomed in row[0]]
    assert reembed(client, name, connection=connection).json["status"] == "running"
    complete(client, name)


@pytest.mark.slow
def test_no_document_is_blamed_for_what_every_one_is_refused_for_and_many_at_once_go_in_parts(
    client, name, connect, refuse
):
    connection = connect("modest")  # whose largest call is remembered
    asked = refuse(lambda texts: True)
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    assert state(client, name)["error"] == "The embedding service 'openai' refuses the request (HTTP 400): too long"
    assert len(asked) <= 7
    refuse(lambda texts: len(texts) > 3)
    reembed(client, name, connection=connection)
    complete(client, name)


@pytest.mark.slow
def test_a_model_whose_dimension_changes_ends_it_and_the_next_one_has_the_new_dimension(
    client, name, connection, models_up, monkeypatch
):
    def changed(body):
        data = [{"index": index, "embedding": [1.0] * 12} for index, _ in enumerate(body["input"])]
        return as_json({"data": data, "model": "newer"})

    def changes(body):
        monkeypatch.setitem(models_up.routes, "/v1/embeddings", changed)
        return openai_answer(body)

    add(client, name, *range(5, 150))
    models_up.script[:] = [*[openai_answer] * 3, changes]
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["status"] == "failed")
    said = state(client, name)
    assert said["documents_done"] == 100
    assert "of dimension 12" in said["error"]
    assert str(DIMENSION) in said["error"]
    assert client.delete(f"/collections/{name}/reembed").status_code == 200
    config = {"url": f"{models_up.url}/v1", "model": "newer", "batch_size": 20}
    assert client.put(f"/api/connections/{connection}", json={"config": config}).status_code == 200
    assert reembed(client, name, connection=connection).status_code == 202
    complete(client, name)
    assert client.get(f"/collections/{name}").json["dimension"] == 12


# What is erased meanwhile.


def former_documents(erased):
    return [each["removed"] for each in erased.json["receipt"]["files"] if each["place"] == "former documents"]


def texts_of(app, name, text):
    """Return how often a text stands in a collection and beside it."""
    with app.extensions["rag.service"].catalog.read() as transaction:
        keys = [each.key for each in with_beside(transaction, named(transaction, name))]
        counted = "SELECT count(*) FROM documents WHERE text = ? AND collection_key = ?"
        return sum(transaction.row(counted, (text, key))[0] for key in keys)


@pytest.mark.slow
def test_what_is_erased_while_vectors_are_made_is_made_no_more_and_what_matched_once_is_made_anew(
    app, client, name, connection, models_up
):
    add(client, name, *range(5, 150))
    models_up.script[:] = [openai_answer] * 4
    models_up.script.append(lambda body: setattr(models_up, "is_down", True) or openai_answer(body))
    reembed(client, name, connection=connection)
    eventually(lambda: state(client, name)["documents_done"] == 100)
    assert client.patch(f"/collections/{name}/documents/d1", json={"metadata": {"n": 1000}}).status_code in (200, 202)
    erased = client.post("/api/erase", json={"collection": name, "where": {"n": {"$in": [1, 3]}}})
    assert erased.status_code == 200, erased.json
    assert [texts_of(app, name, f"Text {number}") for number in (1, 3, 4)] == [1, 0, 2]
    models_up.reset()
    complete(client, name)
    assert client.get(f"/collections/{name}").json["count"] == 149
    assert [nearest(client, name, f"Text {number}") for number in (0, 1, 2, 4)] == ["d0", "d1", "d2", "d4"]


@pytest.mark.slow
@ON_BOTH
def test_what_is_erased_is_gone_from_the_vectors_beside_which_alone_lose_what_matched_once(
    app, client, name, connection
):
    reembed(client, name, connection=connection)
    complete(client, name)
    for number, now in ((1, 10), (2, 20)):
        answer = client.patch(f"/collections/{name}/documents/d{number}", json={"metadata": {"n": now}})
        assert answer.status_code in (200, 202)
    client.delete(f"/collections/{name}/documents/d4")
    erased = client.post("/api/erase", json={"collection": name, "where": {"n": {"$in": [1, 3, 4]}}})
    assert erased.status_code == 200, erased.json
    assert erased.json["receipt"]["chunks"] == 2  # d3, and d4 as the old vectors had it
    assert former_documents(erased) == [1]  # d1
    assert [texts_of(app, name, f"Text {number}") for number in (0, 1, 3, 4)] == [2, 1, 0, 0]
    left = client.get(f"/collections/{name}/documents").json["documents"]
    assert [each["id"] for each in left] == ["d0", "d1", "d2"]
    again = client.post("/api/erase", json={"collection": name, "where": {"n": 2}})
    assert again.status_code == 200, again.json
    assert (again.json["receipt"]["chunks"], former_documents(again)) == (0, [1])
    assert client.get(f"/collections/{name}").json["count"] == 3


@pytest.mark.slow
def test_a_former_chunk_is_erased_with_its_former_document_alone(client, name, connection):
    """Nor does that take the chunk that is another document's by now."""
    chunks = [
        {"id": f"{of}#0", "text": "A chunk", "embedding": [1, 1, 1], "metadata": {"document_id": of}}
        for of in ("a", "gone")
    ]
    assert client.post(f"/collections/{name}/documents", json={"documents": chunks}).status_code in (201, 202)
    reembed(client, name, connection=connection)
    complete(client, name)
    moved = client.patch(f"/collections/{name}/documents/a%230", json={"metadata": {"document_id": "b"}})
    assert moved.status_code in (200, 202), moved.json
    erased = client.post("/api/erase", json={"collection": name, "document": "a"})
    assert erased.status_code == 200, erased.json
    assert (erased.json["receipt"]["chunks"], former_documents(erased)) == (0, [1])
    assert client.get(f"/collections/{name}/documents/a%230").json["metadata"] == {"document_id": "b"}
    assert client.delete(f"/collections/{name}/documents/gone%230").status_code == 200
    refused = client.post("/api/erase", json={"collection": name, "document": "gone#0"})
    assert (refused.status_code, refused.json["code"]) == (400, "chunk_of_document")


@pytest.mark.slow
@pytest.mark.parametrize("told", ["planned for May", {"status": "running", "error": "of a user"}, None])
def test_metadata_of_a_user_are_not_taken_for_how_far_the_vectors_are(client, filled, connection, told):
    name = filled(3, reembedding=told)
    for count, document in ((4, "d3"), (3, "d2")):
        erased = client.post("/api/erase", json={"collection": name, "document": document})
        assert erased.status_code == 200, erased.json
        after = client.get(f"/collections/{name}").json
        assert (after["count"], after["metadata"]["reembedding"]) == (count, told)
        reembed(client, name, connection=connection)
        complete(client, name)
