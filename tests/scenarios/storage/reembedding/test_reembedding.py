"""A collection gets the vectors of another model while it is used."""

import pytest

from tests.scenarios.databases import ON_BOTH
from tests.scenarios.storage.reembedding.conftest import OLD_DIMENSION, add, complete, nearest, reembed, state, upload
from tests.support.live import eventually
from tests.support.model_server import DIMENSION, vector


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
