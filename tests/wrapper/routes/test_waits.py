"""What the answer to a write waits for is the caller's choice, by `wait`, or else the operator's, by RAG_WRITE_WAIT.

The engine never answers here, so a write that waited for the index would wait for an hour.
"""

import json
from contextlib import contextmanager
from itertools import product

import pytest

from schemas.storage.write_waits import COMMIT

HOUR = {"write_wait_seconds": 3600.0}
URL = "/collections/abc"
FIRST = {"id": "a", "text": "one", "metadata": {"page": 1}, "embedding": [1.0, 0.0]}
SECOND = {"id": "b", "text": "two", "metadata": {"page": 2}, "embedding": [0.0, 1.0]}
LINES = {"data": json.dumps(SECOND), "content_type": "application/x-ndjson"}
WRITES = {
    "create": ("POST", "/collections", {"json": {"name": "another"}}, (201, 201)),
    "metadata": ("PUT", f"{URL}/metadata", {"json": {"metadata": {"a": 1}}}, (200, 200)),
    "merged metadata": ("PATCH", f"{URL}/metadata", {"json": {"metadata": {"a": 1}}}, (200, 200)),
    "rename": ("PATCH", URL, {"json": {"name": "another"}}, (200, 200)),
    "copy": ("POST", f"{URL}/copy", {"json": {"name": "another"}}, (201, 202)),
    "add": ("POST", f"{URL}/documents", {"json": {"documents": [SECOND]}}, (201, 202)),
    "stream": ("POST", f"{URL}/documents", LINES, (201, 202)),
    "import": ("POST", f"{URL}/import", LINES, (200, 202)),
    "put": ("PUT", f"{URL}/documents/b", {"json": {"text": "two", "embedding": [0, 1]}}, (201, 202)),
    "patch": ("PATCH", f"{URL}/documents/a", {"json": {"text": "new"}}, (200, 202)),
    "patch all": ("PATCH", f"{URL}/documents", {"json": {"where": {}, "metadata": {"a": 1}}}, (200, 202)),
    "delete one": ("DELETE", f"{URL}/documents/a", {}, (200, 202)),
    "delete": ("DELETE", f"{URL}/documents", {"json": {"ids": ["a"]}}, (200, 202)),
    "empty": ("DELETE", f"{URL}/documents/all", {}, (200, 200)),
    "delete collection": ("DELETE", URL, {}, (200, 200)),
}
"""Each write, with the statuses of its answer when that did not wait for the index, and when it did in vain."""


@pytest.fixture
def opened(open_client):
    """`with opened(**settings) as client:` gives a client of a service with one document in one collection."""

    @contextmanager
    def opened(**settings):
        with open_client(**settings) as client:
            _begin(client)
            yield client

    return opened


def _begin(client):
    """Make the collection anew, with its one document."""
    for name in ("abc", "another"):
        client.delete(f"/collections/{name}?wait=commit")
    made = client.post("/collections?wait=commit", json={"name": "abc"})
    added = client.post(f"{URL}/documents?wait=commit", json={"documents": [FIRST]})
    assert (made.status_code, added.status_code) == (201, 201)


def _ask(client, write, wait=None):
    method, path, body, _ = WRITES[write]
    return client.open(path, method=method, query_string={} if wait is None else {"wait": wait}, **body)


@pytest.mark.parametrize(
    ("settings", "wait", "waits"),
    [(HOUR, "commit", False), ({"write_wait": COMMIT, **HOUR}, None, False), ({}, "index", True), ({}, None, True)],
    ids=["who need not wait", "who says nothing where none need wait", "who waits in vain", "who says nothing"],
)
def test_each_write_is_answered_as_its_caller_or_else_the_operator_wants(opened, settings, wait, waits):
    """As usual, without saying that the index has it, or with a status that says that waiting was in vain."""
    found = {}
    with opened(**settings) as client:
        for write in WRITES:
            _begin(client)
            answer = _ask(client, write, wait)
            found[write] = answer.status_code
            assert waits or answer.json.get("indexed", False) is False, write
    assert found == {write: WRITES[write][3][waits] for write in WRITES}


def test_anything_else_is_refused_and_nothing_is_done(opened):
    with opened(**HOUR) as client:
        before = client.get("/collections").json
        for write, wrong in product(WRITES, ("", "Commit", "1", "index,commit")):
            answer = _ask(client, write, wrong)
            assert (answer.status_code, answer.json["code"]) == (400, "invalid_field")
            assert answer.json["details"]["field"] == "wait"
            assert answer.json["details"]["allowed"] == ["index", "commit"]
        assert client.get("/collections").json == before


def test_a_misspelt_wait_is_refused_and_one_in_the_body_too(opened):
    with opened(**HOUR) as client:
        misspelt = client.post(f"{URL}/documents?wiat=commit", json={"documents": [SECOND]})
        in_body = client.post(f"{URL}/documents", json={"documents": [SECOND], "wait": "commit"})
        for answer in (misspelt, in_body):
            assert (answer.status_code, answer.json["code"]) == (400, "unknown_field")
        assert client.get(URL).json["count"] == 1


def test_a_request_may_wait_where_the_operator_lets_others_go(opened):
    with opened(write_wait=COMMIT, write_wait_seconds=0.0) as client:
        assert _ask(client, "add", "index").status_code == 202


def test_reads_know_no_wait(opened):
    with opened(**HOUR) as client:
        answer = client.get(f"{URL}/documents?wait=commit")
        assert answer.status_code == 200
        assert any("wait" in each for each in answer.json["warnings"])
