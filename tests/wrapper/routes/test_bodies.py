"""Bodies in: their media type, encoding and size; request lines."""

import gzip
import json

import pytest

DOCUMENT = {"id": "a", "text": "one", "metadata": {"page": 1}, "embedding": [1.0, 0.0]}
BODY = json.dumps({"documents": [DOCUMENT]}).encode()

WITH_BODY = [
    ("POST", "/collections", False),
    ("PUT", "/metadata", True),
    ("PATCH", "/metadata", True),
    ("POST", "/documents", True),
    ("DELETE", "/documents", True),
    ("PATCH", "/documents/a", True),
    ("POST", "/documents/search", True),
    ("POST", "/query", True),
    ("POST", "/query", False),
    ("POST", "/gather", True),
    ("POST", "/text-search", True),
]


@pytest.fixture(scope="module")
def name(shared_collection):
    return shared_collection([DOCUMENT])


@pytest.fixture(params=WITH_BODY, ids=[f"{method} {'…' * inside}{route}" for method, route, inside in WITH_BODY])
def send(request, client, name, unchanged):
    """Send a body to each route that reads one; the collection must not change."""
    method, route, inside = request.param

    def send(data, **options):
        with unchanged(name):
            return client.open(f"/collections/{name}{route}" if inside else route, method=method, data=data, **options)

    return send


@pytest.mark.parametrize(
    "data", [b"{", b"nonsense", b'{"a": NaN}', b'{"a": 1}}', b"\xff\xfe", b"[1,]", b'"\\ud800"', b"\x00"]
)
def test_what_is_no_json_is_refused_with_its_place(send, data):
    answer = send(data, content_type="application/json")
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_json")
    assert set(answer.json["details"]) == {"line", "column"}


@pytest.mark.parametrize("data", [b"[]", b"7", b'"x"', b"null", b"true", b"", b"{}", b'{"unknown": 1}'])
def test_json_without_what_is_needed_is_no_defect(send, data):
    assert send(data, content_type="application/json").status_code in (200, 400)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x", ""]
)
def test_another_media_type_is_refused(send, content_type):
    answer = send(BODY, content_type=content_type)
    assert (answer.status_code, answer.json["code"]) == (415, "unsupported_media_type")
    assert answer.json["details"]["allowed"][0] == "application/json"


def test_an_unknown_encoding_is_refused(send):
    answer = send(BODY, content_type="application/json", headers={"Content-Encoding": "br"})
    assert (answer.status_code, answer.json["code"]) == (415, "unsupported_media_type")
    assert answer.json["details"] == {"allowed": ["gzip", "identity"]}


BAD_GZIP = {
    "no gzip": BODY,
    "nothing": b"",
    "cut short": gzip.compress(BODY)[:-4],
    "cut in the data": gzip.compress(BODY * 100)[:40],
    "garbage after it": gzip.compress(BODY) + b"garbage",
    "a wrong checksum": gzip.compress(BODY)[:-8] + b"\x00" * 8,
}


@pytest.mark.parametrize("data", BAD_GZIP.values(), ids=BAD_GZIP)
def test_bad_gzip_is_refused(send, data):
    answer = send(data, content_type="application/json", headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_gzip")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "identity", "x-gzip"][:3])
def test_a_body_may_be_gzip(client, filled, encoding):
    name = filled()
    data = gzip.compress(BODY) if encoding.lower() == "gzip" else BODY
    answer = client.post(
        f"/collections/{name}/documents",
        data=data,
        content_type="application/json",
        headers={"Content-Encoding": encoding},
    )
    assert (answer.status_code, answer.json["count"]) == (201, 1)


def test_a_gzip_body_may_have_several_members(client, filled):
    half = len(BODY) // 2
    answer = client.post(
        f"/collections/{filled()}/documents",
        data=gzip.compress(BODY[:half]) + gzip.compress(BODY[half:]),
        content_type="application/json",
        headers={"Content-Encoding": "gzip"},
    )
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "application/vnd.api+json", "APPLICATION/JSON"]
)
def test_spellings_of_json(client, filled, content_type):
    answer = client.post(f"/collections/{filled()}/documents", data=BODY, content_type=content_type)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "path", ["/collections", "/collections/x?y=", "/no-such-route?z=", "/collections/x/documents?where=", "/health?q="]
)
def test_a_request_line_beyond_32_kilobytes_is_refused(client, path):
    answer = client.get(path + "a" * 33_000) if "?" in path else client.get(f"{path}?{'a' * 33_000}")
    assert answer.status_code == 414
    assert "documents/search" in answer.json["message"]
    assert answer.json["details"] == {"limit_bytes": 32 * 1024}
