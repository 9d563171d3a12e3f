"""Of what the engine does not get, nothing is in its files; of what it had, nothing stays there."""

from __future__ import annotations

from tests.support.apps import running_app
from tests.support.commands import files_holding
from tests.support.live import eventually

SECRET = "zqsecret"
NAME = "held"


def add(client, *numbers):
    documents = [
        {
            "id": str(number),
            "text": f"The {SECRET} plan {number}",
            "metadata": {"of": SECRET, "number": number},
            "embedding": [1.0, float(number)],
        }
        for number in numbers
    ]
    assert client.post(f"/collections/{NAME}/documents", json={"documents": documents}).status_code == 201


def found(client, number):
    """Return what a query by vector, with a filter, and one by words find of a document."""
    query = {"query_embedding": [1.0, float(number)], "top_k": 1, "where": {"of": SECRET}}
    [by_vector] = client.post(f"/collections/{NAME}/query", json=query).json["results"]
    by_words = client.post(f"/collections/{NAME}/text-search", json={"query": f"plan {number}"}).json["results"]
    return by_vector["id"], by_vector["text"], by_words[0]["id"]


def engine_files(app):
    return files_holding(app.extensions["rag.service"].settings.data_dir / "chroma", SECRET)


def rebuild(client, **asked):
    before = client.get(f"/collections/{NAME}/index").json["rebuilds"]
    answer = client.post(f"/collections/{NAME}/index/rebuild", query_string=asked)
    assert answer.status_code == 202, answer.json
    eventually(lambda: client.get(f"/collections/{NAME}/index").json["rebuilds"] > before)
    return client.get(f"/collections/{NAME}/index").json["records"]


def test_what_the_engine_had_goes_with_the_rebuild_and_another_word_rebuilds_nothing(tmp_path, processes):
    with running_app(tmp_path / "data") as app:
        client = app.test_client()
        assert client.post("/collections", json={"name": NAME}).status_code == 201
        add(client, *range(20))
        assert client.get(f"/collections/{NAME}/index").json["records"] == "full"
        assert engine_files(app)
        answer = client.post(f"/collections/{NAME}/index/rebuild", query_string={"records": "lean"})
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_field")
        assert answer.json["details"] == {"field": "records", "allowed": ["full", "vectors"]}
        index = client.get(f"/collections/{NAME}/index").json
        assert (index["records"], index["rebuilds"], index["rebuild"]) == ("full", 0, None)
        assert rebuild(client, records="vectors") == "vectors"
        eventually(lambda: not engine_files(app))
        add(client, 20)
        assert found(client, 7) == ("7", f"The {SECRET} plan 7", "7")
        assert engine_files(app) == []
        assert rebuild(client, records="full") == "full"
        assert engine_files(app)
