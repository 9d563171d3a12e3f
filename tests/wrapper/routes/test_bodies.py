"""The media type, encoding and size of a body are checked, and so is the length of a request line; odd headers
and paths cause no failure; large answers are compressed for who takes that."""

import gzip
import json
import re
from itertools import product

import orjson
import pytest

from tests.support.contract import Contract

DOCUMENT = {"id": "a", "text": "one", "metadata": {"page": 1}, "embedding": [1.0, 0.0]}
BODY = json.dumps({"documents": [DOCUMENT]}).encode()

CONTRACT = Contract.load()


def _takes_json(path, method):
    try:
        return bool(CONTRACT.at(("paths", path, method.lower(), "requestBody", "content", "application/json")))
    except KeyError:
        return False


WITH_BODY = sorted(each for each in CONTRACT.described() if each[0] != "/mcp" and _takes_json(*each))
"""MCP is left out, because it has errors of its own for a body that is not JSON."""
NO_JSON = [b"{", b"nonsense", b'{"a": NaN}', b'{"a": 1}}', b"\xff\xfe", b"[1,]", b'"\\ud800"', b"\x00"]
INCOMPLETE = [b"[]", b"7", b'"x"', b"null", b"true", b"", b"{}", b'{"unknown": 1}']
NO_GZIP = {
    "no gzip": BODY,
    "nothing": b"",
    "cut short": gzip.compress(BODY)[:-4],
    "cut in the data": gzip.compress(BODY * 100)[:40],
    "garbage after it": gzip.compress(BODY) + b"garbage",
    "a wrong checksum": gzip.compress(BODY)[:-8] + b"\x00" * 8,
}


@pytest.fixture(scope="module")
def name(shared_collection):
    return shared_collection([DOCUMENT])


@pytest.fixture
def send(client, name, unchanged):
    """`send(data, …)` sends a body to a route that writes; the collection must not change."""

    def send(data, content_type="application/json", **options):
        with unchanged(name):
            return client.post(f"/collections/{name}/documents", data=data, content_type=content_type, **options)

    return send


@pytest.fixture
def send_to_each(client, name, unchanged):
    """`send_to_each(data, …)` returns (what was asked, the answer) of every route that takes JSON; the collection must
    not change."""
    given = {"name": name, "id": "a", "tool": "rag_context_stats"}

    def send(data, content_type="application/json", **options):
        answers = []
        with unchanged(name):
            for path, method in WITH_BODY:
                target = re.sub(r"\{(\w+)\}", lambda found: given.get(found[1], "nothing-there"), path)
                answer = client.open(target, method=method, data=data, content_type=content_type, **options)
                answers.append((f"{method} {target}", answer))
        return answers

    return send


@pytest.mark.parametrize("data", NO_JSON)
def test_a_body_that_is_not_json_is_refused_with_its_place(send, data):
    answer = send(data)
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_json")
    assert set(answer.json["details"]) == {"line", "column"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/index/rebuild"), ("POST", "/index/check"), ("DELETE", ""), ("DELETE", "/documents/all")],
)
def test_a_form_is_refused_even_where_no_body_is_read(client, filled, unchanged, method, path):
    name = filled()
    forms = ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "text/plain; json")
    for kind, data in product(forms, (b"", b"{}")):
        with unchanged(name):
            answer = client.open(f"/collections/{name}{path}", method=method, data=data, content_type=kind)
            assert (answer.status_code, answer.json["code"]) == (415, "unsupported_media_type"), (kind, data)


def test_a_body_is_checked_before_anything_is_done(client, filled):
    answer = client.post(f"/collections/{filled()}/import", data=b"{}", content_type="application/json")
    assert (answer.status_code, answer.json["details"]["allowed"]) == (415, ["application/x-ndjson"])
    answer = client.post("/mcp", data=b"{}", content_type="text/plain")
    assert (answer.status_code, answer.json["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("data", NO_GZIP.values(), ids=NO_GZIP)
def test_bad_gzip_is_refused(send, data):
    answer = send(data, headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json["code"]) == (400, "invalid_gzip")


@pytest.mark.parametrize(
    ("data", "headers", "status", "code"),
    [
        (NO_JSON[0], {}, 400, "invalid_json"),
        *((BODY, {"Content-Type": kind}, 415, "unsupported_media_type") for kind in ("text/plain", "x", "")),
        (BODY, {"Content-Encoding": "br"}, 415, "unsupported_media_type"),
        (NO_GZIP["cut short"], {"Content-Encoding": "gzip"}, 400, "invalid_gzip"),
    ],
    ids=["no JSON", "another type", "no type at all", "an empty type", "another encoding", "no gzip"],
)
def test_every_route_reads_its_body_alike(send_to_each, data, headers, status, code):
    content_type = headers.get("Content-Type", "application/json")
    for asked, answer in send_to_each(data, content_type, headers=headers):
        if content_type == "application/json" or "/api/v2/" not in asked:
            assert (answer.status_code, answer.json["code"]) == (status, code), asked


@pytest.mark.parametrize("data", INCOMPLETE)
def test_incomplete_json_causes_no_failure_on_any_route(send_to_each, data):
    for asked, answer in send_to_each(data):
        assert answer.status_code in (200, 400, 404), asked


@pytest.mark.parametrize(
    ("data", "encoding", "content_type"),
    [
        (BODY, "identity", "application/json"),
        (gzip.compress(BODY), "gzip", "application/json"),
        (gzip.compress(BODY), "GZIP", "application/json"),
        (gzip.compress(BODY[:9]) + gzip.compress(BODY[9:]), "gzip", "application/json"),
        (BODY, "identity", "application/json; charset=utf-8"),
        (BODY, "identity", "application/vnd.api+json"),
        (BODY, "identity", "APPLICATION/JSON"),
    ],
    ids=["plain", "gzip", "GZIP", "gzip of several members", "with a charset", "of a kind of JSON", "in capitals"],
)
def test_other_spellings_of_a_body_are_read(client, filled, data, encoding, content_type):
    url, headers = f"/collections/{filled()}/documents", {"Content-Encoding": encoding}
    answer = client.post(url, data=data, content_type=content_type, headers=headers)
    assert (answer.status_code, answer.json["count"]) == (201, 1)


@pytest.mark.parametrize(
    "path", ["/collections", "/collections/x?y=", "/no-such-route?z=", "/collections/x/documents?where=", "/health?q="]
)
def test_a_request_line_beyond_32_kilobytes_is_refused(client, path):
    answer = client.get(path + "a" * 33_000) if "?" in path else client.get(f"{path}?{'a' * 33_000}")
    assert answer.status_code == 414
    assert "documents/search" in answer.json["message"]
    assert answer.json["details"] == {"limit_bytes": 32 * 1024}


ODD_HEADERS = ["", '"', '"""', "W/", ",,,", "*, *", "x" * 5_000, "é", "null", 'W/W/"1"']
ODD_NAMES = ["%00", "%FF", "%F4%8F%BF%BF", "..", ".", "%2e%2e", "a" * 3_000, "%25", "*", "'", "{name}"]
OF_A_COLLECTION = ["documents", "documents/count", "documents/x", "facets?fields=a", "projection", "changes?wait=60"]


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match", "Idempotency-Key", "X-Request-ID", "Origin", "Accept"])
def test_odd_headers_cause_no_failure(client, filled, header):
    path = f"/collections/{filled([DOCUMENT])}/documents"
    for text, method in product(ODD_HEADERS, ("GET", "POST")):
        answer = client.open(path, method=method, json={"documents": [DOCUMENT]}, headers={header: text})
        assert answer.status_code < 500, (text, method)


def test_odd_names_in_paths_are_not_found(client):
    for segment, route in product(ODD_NAMES, OF_A_COLLECTION):
        assert client.get(f"/collections/{segment}/{route}").status_code == 404, (segment, route)


FAR = {"REMOTE_ADDR": "192.0.2.7"}


@pytest.fixture
def large(filled):
    return filled([{"id": f"{n}", "text": "word " * 100, "metadata": {}, "embedding": [1.0, 0.0]} for n in range(20)])


def test_a_large_answer_is_compressed_for_a_client_elsewhere_that_takes_it(client, large):
    path = f"/collections/{large}/documents"
    plain = client.get(path)
    answer = client.get(path, headers={"Accept-Encoding": "gzip, br"}, environ_overrides=FAR)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.get_data()) < len(plain.get_data()) / 5
    assert orjson.loads(gzip.decompress(answer.get_data())) == plain.json
    assert answer.headers["ETag"] == plain.headers["ETag"]
    assert "Accept-Encoding" in answer.headers["Vary"]


@pytest.mark.parametrize("accepted", ["", "br", "gzip;q=0", "identity"])
def test_it_is_not_for_a_client_that_does_not_take_it(client, large, accepted):
    answer = client.get(f"/collections/{large}/documents", headers={"Accept-Encoding": accepted}, environ_overrides=FAR)
    assert "Content-Encoding" not in answer.headers
    assert "Accept-Encoding" in answer.headers["Vary"]


def test_neither_small_answers_nor_streams_nor_those_to_this_machine_are_compressed(client, large):
    takes = {"Accept-Encoding": "gzip"}
    assert "Content-Encoding" not in client.get(f"/collections/{large}", headers=takes, environ_overrides=FAR).headers
    export = client.get(f"/collections/{large}/export", headers=takes, environ_overrides=FAR)
    assert "Content-Encoding" not in export.headers
    assert "Content-Encoding" not in client.get(f"/collections/{large}/documents", headers=takes).headers


def test_a_slash_at_the_end_changes_nothing(client, large):
    for path in ("/collections", f"/collections/{large}", f"/collections/{large}/documents", "/docs"):
        assert client.get(f"{path}/").get_data() == client.get(path).get_data()
    document = {"id": "a/", "text": "ends with one", "metadata": {}, "embedding": [1.0, 0.0]}
    client.post(f"/collections/{large}/documents/", json={"documents": [document]})
    assert client.get(f"/collections/{large}/documents/a/").json["text"] == "ends with one"
