"""The key of the settings, which may have any form, is in no answer and no line of the log, whoever sent it where."""

from urllib.parse import unquote

import pytest

from schemas.settings import RegistrySettings, RetrievalSettings
from tests.interfaces.access.conftest import app_with_keys, mcp
from tests.support.logs import logs_of
from wrapper.web.measured import MAX_LOGGED_CHARACTERS

ADMIN_KEY = "AnAdministratorsKeyOfAnyForm"
KEYS = [ADMIN_KEY, f"rw_ab12cd34_{'s' * 43}"]
HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut")
    with app_with_keys(folder, RegistrySettings(), RetrievalSettings(), api_key=ADMIN_KEY) as app:
        yield app


def test_answers_of_mcp_do_not_repeat_it(client):
    unknown = mcp(client, ADMIN_KEY, HEADERS)
    assert "Unknown tool: …" in unknown.json["error"]["message"]
    refused = mcp(client, "rag_query", HEADERS, query="what", collections=[f"of-{ADMIN_KEY}"])
    assert "Collection 'of-…' not found" in refused.json["result"]["content"][0]["text"]
    message = {"jsonrpc": "2.0", "id": 1, "method": f"tools/{ADMIN_KEY}"}
    by_the_library = client.post("/mcp", json=message, headers=HEADERS)
    assert by_the_library.json["error"]["data"] == "tools/…"
    for answer in (unknown, refused, by_the_library):
        assert ADMIN_KEY not in answer.text + str(answer.headers)


@pytest.mark.parametrize("key", KEYS)
def test_answers_do_not_repeat_what_is_escaped_more_than_once(client, key):
    escaped = f"{key[:2]}%25{ord(key[2]):02X}{key[3:]}"
    for path in (f"/collections/of-{escaped}", f"/{escaped}", f"/collections?{escaped}=1"):
        answer = client.get(path, headers=HEADERS)
        assert answer.status_code in (200, 404)
        assert "…" in answer.text
        assert key[-20:] not in unquote(answer.text)
    body = {"query": "what", "oracles": ["lexical"], f"of-{unquote(escaped)}": 1}
    assert key[-20:] not in unquote(client.post("/api/search", json=body, headers=HEADERS).text)


@pytest.mark.parametrize("key", KEYS)
def test_a_path_is_logged_without_it_also_where_it_is_cut(client, monkeypatch, key):
    entries = logs_of(monkeypatch, "wrapper.web.measured")
    client.get("/" + "x" * (MAX_LOGGED_CHARACTERS - 20) + key, headers=HEADERS)
    (path,) = (each["path"] for each in entries if each["event"] == "request")
    assert len(path) <= MAX_LOGGED_CHARACTERS
    assert path.endswith(("xx…", "xxrw_ab12cd34_…"))


PIECES = [f"rw_ab12cd34_{'sA1-' * 5}", f"rw%255Fab12cd34_{'sA1-' * 5}", f"rw%5Fab12cd34%5F{'s' * 43}"]


@pytest.mark.parametrize("sent", PIECES)
def test_no_piece_of_a_key_is_written_down_for_a_request_or_a_collection_that_is_not_found(client, lines, sent):
    answer = client.delete(f"/collections/of-{sent}", headers={**HEADERS, "X-Request-ID": f"of-{sent}"})
    [line] = lines()
    assert (answer.status_code, line["collection"]) == (404, "of-rw_ab12cd34_…")
    assert line["request_id"] == answer.headers["X-Request-ID"]
    assert "ab12cd34" not in answer.headers["X-Request-ID"]


def test_a_collection_that_is_found_is_called_by_its_name(client, lines):
    name = "rw_customer_Documents_2026"
    assert client.post("/collections", json={"name": name}, headers=HEADERS).status_code == 201
    assert client.get(f"/collections/{name}", headers=HEADERS).json["name"] == name
    assert lines()[0]["collection"] == name
