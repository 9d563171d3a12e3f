"""Files that were uploaded can be downloaded, where the operator wants that, and cannot harm who does."""

import io

import pytest
from flask.testing import FlaskClient

from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.settings import AccessSettings, RetrievalSettings
from tests.support.live import eventually
from wrapper.access.authentication import FRESH_SECONDS, Authentication
from wrapper.access.stored_keys import StoredKeys
from wrapper.web.callers import AnswerBrokenOffError

PAGE = "<html><head><title>Büro</title></head><body><h1>Büro</h1><p>Öffnet um acht.</p><script>alert(1)</script></body></html>"


@pytest.fixture(scope="module")
def app(app_of_models):
    return app_of_models(chats=False, retrieval=RetrievalSettings(keep_originals=True))


@pytest.fixture
def uploaded(client):
    """`uploaded(name, content)`: the stored document of a file."""

    def upload(name, content):
        answer = client.post("/api/documents", data={"file": (io.BytesIO(content), name)})
        place = f"/api/jobs/{answer.json['job']['id']}"
        eventually(lambda: client.get(place).json["status"] == "done", complaint=lambda: client.get(place).text)
        [document] = client.get("/api/documents", query_string={"source": name}).json["documents"]
        return document

    return upload


@pytest.mark.parametrize(
    ("name", "content", "media_type", "saved_as"),
    [
        ("web/Büro.html", PAGE.encode(), "text/html", "filename=Buro.html; filename*=UTF-8''B%C3%BCro.html"),
        ("code/a.py", b"print('a')\n", "text/plain", "filename=a.py"),
        ("notes/a;b c.md", b"# A\n\nText.", "text/markdown", 'filename="a;b c.md"'),
        ("日本.txt", "夜".encode() * 9, "text/plain", "filename=.txt; filename*=UTF-8''%E6%97%A5%E6%9C%AC.txt"),
    ],
)
def test_an_original_is_saved_and_never_shown(client, uploaded, name, content, media_type, saved_as):
    document = uploaded(name, content)
    assert document["has_original"]
    original = client.get(f"/api/documents/{document['id']}/original", buffered=True)
    assert (original.status_code, original.data) == (200, content)
    told = {"Content-Type": media_type, "Content-Disposition": f"attachment; {saved_as}"}
    told |= {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
    assert {name: original.headers[name] for name in told} == told


@pytest.mark.parametrize("source", ["a\r\nSet-Cookie: b=1", "../../etc/passwd", "\u202egpj.exe", "x" * 5_000, "", 7])
def test_whatever_became_of_its_name_an_original_is_saved_under_a_name(client, uploaded, source):
    document = uploaded("odd.md", b"# Odd\n\nName.")
    place = f"/collections/{document['collection']}/documents"
    where = f'{{"document_id": "{document["id"]}"}}'
    [chunk] = client.get(place, query_string={"where": where, "include": "embedding"}).json["documents"]
    chunk["metadata"] |= {"source": source, "path": source}
    assert client.post(place, json={"documents": [chunk]}).status_code == 201
    original = client.get(f"/api/documents/{document['id']}/original", buffered=True)
    assert (original.status_code, original.data) == (200, b"# Odd\n\nName.")
    disposition = original.headers["Content-Disposition"]
    assert disposition.startswith("attachment")
    assert not set("/\r\n") & set(disposition.partition("filename=")[2].partition(";")[0])
    assert "Set-Cookie" not in original.headers
    client.delete(f"/api/documents/{document['id']}")


@pytest.mark.slow
def test_a_download_is_a_request_under_way_and_ends_with_its_key(app, client, uploaded, monkeypatch):
    document = uploaded("much.txt", b"much\n" * 100_000)
    stored = StoredKeys(app.extensions["rag.service"].catalog)
    seconds = [0.0]
    access = Authentication(AccessSettings(access="keys"), "127.0.0.1", stored, clock=lambda: seconds[0])
    monkeypatch.setitem(app.extensions, "rag.access", access)
    key, text = stored.create("reader", Grant(frozenset({Scope.READ}), limits=Limits(concurrent=1)))
    reader, path = FlaskClient(app, app.response_class), f"/api/documents/{document['id']}/original"
    headers = {"Authorization": f"Bearer {text}"}
    download = reader.get(path, headers=headers)
    parts = iter(download.response)
    assert next(parts).startswith(b"much\n")
    assert reader.get(path, headers=headers).status_code == 429
    stored.revoke(key.id)
    seconds[0] += FRESH_SECONDS
    with pytest.raises(AnswerBrokenOffError):
        list(parts)
    download.close()
    assert reader.get(path, headers=headers).json["code"] == "key_revoked"
