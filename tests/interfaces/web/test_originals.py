"""Files that were uploaded can be downloaded, where the operator wants that, and cannot harm who does. Parts of forms
arrive in whatever pieces they are sent."""

import io

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from interfaces.web.upload_parts import MAX_BUFFERED_BYTES, parts_of
from schemas.access.api_keys import Grant
from schemas.access.callers import Limits, Scope
from schemas.errors import InvalidInputError
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


BOUNDARY = "Boundary7"
BITS = [b"\r", b"\n", b"\r\n", b"-", b"--", b"--Boundary", b"\r\n--Bound", b"Boundary7", b"x", b"abc" * 9, b"\r\n\r\n"]
CONTENTS = st.lists(st.sampled_from(BITS), max_size=12).map(b"".join).filter(lambda each: b"--Boundary7" not in each)


def form(*contents, name=b"file", end=b"--Boundary7--\r\n"):
    parts = (
        b'--Boundary7\r\nContent-Disposition: form-data; name="%s"; filename="f%d.txt"\r\n\r\n%s\r\n'
        % (name, number, each)
        for number, each in enumerate(contents)
    )
    return b"".join(parts) + end


def read(body, size=65_536, most=9):
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return [(part.name, part.file_name, b"".join(part.pieces)) for part in parts_of(pieces, BOUNDARY, most=most)]


@given(st.lists(CONTENTS, min_size=1, max_size=3), st.data())
def test_any_content_in_any_pieces_arrives_as_it_was_sent(contents, data):
    body, pieces = form(*contents), []
    while body:
        size = data.draw(st.integers(1, 30))
        pieces.append(body[:size])
        body = body[size:]
    assert [b"".join(part.pieces) for part in parts_of(pieces, BOUNDARY, most=9)] == contents


def test_a_part_that_nobody_reads_is_passed_over():
    names = [part.file_name for part in parts_of([form(b"a" * 200_000, b"b")], BOUNDARY, most=9)]
    assert names == ["f0.txt", "f1.txt"]


def test_fields_and_files_are_told_apart():
    body = (
        b'--Boundary7\r\nContent-Disposition: form-data; name="tags"\r\n\r\na,b\r\n'
        b'--Boundary7\r\nContent-Disposition: form-data; name="file"; filename="\xc3\xa4/b.pdf"\r\n'
        b"Content-Type: Application/PDF; x=y\r\n\r\n%PDF\r\n--Boundary7--"
    )
    (field, file) = ((part.name, part.file_name, part.media_type) for part in parts_of([body], BOUNDARY, most=2))
    assert (field, file) == (("tags", None, ""), ("file", "ä/b.pdf", "application/pdf"))


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", None),
        (b"not a form", None),
        (b"--Boundary7", None),
        (b"x" * (MAX_BUFFERED_BYTES + 65_536), None),
        (b"--Boundary7\r\n" + b"X: " + b"y" * (MAX_BUFFERED_BYTES + 65_536), None),
        (form(b"a").replace(b"Content-Disposition", b"Content-Nothing"), None),
        (form(b"a").replace(b"f0", b"\xff"), 1),
        (form(b"a", b"bcd")[:-18], 2),
        (form(b"a", b"b", end=b""), 2),
        (form(b"a", end=b"--Another--"), 1),
    ],
)
def test_a_body_that_is_no_form_is_refused_with_its_part(body, part):
    with pytest.raises(InvalidInputError) as caught:
        read(body)
    assert caught.value.code == "invalid_multipart"
    assert caught.value.details.get("part") == part


@pytest.mark.parametrize("boundary", ["", "ü", "x" * 201])
def test_a_boundary_that_cannot_be_one_is_refused(boundary):
    with pytest.raises(InvalidInputError) as caught:
        list(parts_of([form(b"a")], boundary, most=9))
    assert caught.value.details["field"] == "Content-Type"
