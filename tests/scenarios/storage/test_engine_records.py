"""Of what the engine does not get, nothing is in its files; of what it had, nothing stays there."""

import pytest

from schemas.settings import AccessSettings
from tests.support.apps import running_app
from tests.support.commands import files_holding
from tests.support.live import eventually
from wrapper.service import TEXTS_IN_ENGINE

pytestmark = pytest.mark.slow


def test_what_the_engine_had_goes_with_the_rebuild_and_another_word_rebuilds_nothing(app, client, filled, collection):
    secret, place = f"zq{collection[-8:]}", f"/collections/{collection}"

    def document(number):
        told = {"of": secret, "number": number}
        return {"id": str(number), "text": f"The {secret} plan", "metadata": told, "embedding": [1.0, float(number)]}

    def engine_files():
        return files_holding(app.extensions["rag.service"].settings.data_dir / "chroma", secret)

    def rebuild(records):
        before = client.get(f"{place}/index").json["rebuilds"]
        answer = client.post(f"{place}/index/rebuild", query_string={"records": records})
        assert answer.status_code == 202, answer.json
        eventually(lambda: client.get(f"{place}/index").json["rebuilds"] > before)
        assert client.get(f"{place}/index").json["records"] == records

    filled([document(number) for number in range(20)])
    assert engine_files()
    answer = client.post(f"{place}/index/rebuild", query_string={"records": "lean"})
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_field")
    assert answer.json["details"] == {"field": "records", "allowed": ["full", "vectors"]}
    index = client.get(f"{place}/index").json
    assert (index["records"], index["rebuilds"], index["rebuild"]) == ("full", 0, None)

    rebuild("vectors")
    eventually(lambda: not engine_files())
    assert client.post(f"{place}/documents", json={"documents": [document(20)]}).status_code == 201
    query = {"query_embedding": [1.0, 7.0], "top_k": 1, "where": {"of": secret}}
    [found] = client.post(f"{place}/query", json=query).json["results"]
    assert (found["id"], found["text"]) == ("7", f"The {secret} plan")
    assert client.post(f"{place}/text-search", json={"query": secret}).json["total"] == 21
    assert engine_files() == []

    rebuild("full")
    assert engine_files()


def test_an_engine_of_our_own_gets_no_texts_of_new_collections_once_there_are_keys(tmp_path):
    with running_app(tmp_path, access=AccessSettings()) as app:
        client, headers = app.test_client(), {}

        def fill(name):
            document = {"id": "a", "text": f"what is {name}", "metadata": {"of": name}, "embedding": [1.0, 2.0]}
            assert client.post("/collections", json={"name": name}, headers=headers).status_code == 201
            added = client.post(f"/collections/{name}/documents", json={"documents": [document]}, headers=headers)
            assert added.json["indexed"]
            return client.get(f"/collections/{name}/index", headers=headers).json["records"]

        assert fill("before") == "full"
        assert "notices" not in client.get("/health").json
        made = client.post("/api/keys", json={"name": "admin", "scopes": ["admin"]})
        headers = {"Authorization": f"Bearer {made.json['key']}"}
        eventually(lambda: client.get("/collections").status_code == 401)
        assert fill("afterwards") == "vectors"
        assert files_holding(tmp_path / "chroma", "what is afterwards") == []
        [notice] = client.get("/health", headers=headers).json["notices"]
        assert notice == TEXTS_IN_ENGINE.format(1)
        rebuild = "/collections/before/index/rebuild?records=vectors"
        assert client.post(rebuild, headers=headers).status_code == 202
        eventually(lambda: "notices" not in client.get("/health", headers=headers).json)
        eventually(lambda: not files_holding(tmp_path / "chroma", "what is before"))
