"""Of what the engine does not get, nothing is in its files; of what it had, nothing stays there."""

import pytest

from schemas.settings import AccessSettings
from tests.support.apps import running_app
from tests.support.commands import files_holding
from tests.support.live import eventually
from wrapper.service import TEXTS_IN_ENGINE

pytestmark = pytest.mark.slow


def test_an_engine_of_our_own_gets_no_texts_once_there_are_keys_and_loses_those_it_had_by_a_rebuild(tmp_path):
    with running_app(tmp_path, access=AccessSettings()) as app:
        client, headers = app.test_client(), {}

        def ask(method, path, status, **body):
            answer = client.open(path, method=method, headers=headers, **body)
            assert answer.status_code == status, answer.json
            return answer.json

        def fill(name):
            document = {"id": "a", "text": f"what is {name}", "metadata": {"of": name}, "embedding": [1.0, 2.0]}
            ask("POST", "/collections", 201, json={"name": name})
            assert ask("POST", f"/collections/{name}/documents", 201, json={"documents": [document]})["indexed"]
            return ask("GET", f"/collections/{name}/index", 200)["records"]

        def rebuild(records):
            before = ask("GET", "/collections/before/index", 200)["rebuilds"]
            ask("POST", f"/collections/before/index/rebuild?records={records}", 202)
            eventually(lambda: ask("GET", "/collections/before/index", 200)["rebuilds"] > before)
            return ask("GET", "/collections/before/index", 200)["records"]

        def engine_files(word):
            return files_holding(tmp_path / "chroma", f"what is {word}")

        assert fill("before") == "full"
        assert engine_files("before")
        assert "notices" not in ask("GET", "/health", 200)
        refused = ask("POST", "/collections/before/index/rebuild?records=lean", 400)
        assert refused["details"] == {"field": "records", "allowed": ["full", "vectors"]}
        made = ask("POST", "/api/keys", 201, json={"name": "admin", "scopes": ["admin"]})
        headers = {"Authorization": f"Bearer {made['key']}"}
        eventually(lambda: client.get("/collections").status_code == 401)
        assert fill("afterwards") == "vectors"
        assert engine_files("afterwards") == []
        assert ask("GET", "/health", 200)["notices"] == [TEXTS_IN_ENGINE.format(1)]
        assert rebuild("vectors") == "vectors"
        eventually(lambda: not engine_files("before"))
        assert "notices" not in ask("GET", "/health", 200)
        query = {"query_embedding": [1.0, 2.0], "top_k": 1, "where": {"of": "before"}}
        assert ask("POST", "/collections/before/query", 200, json=query)["results"][0]["text"] == "what is before"
        assert rebuild("full") == "full"
        assert engine_files("before")
