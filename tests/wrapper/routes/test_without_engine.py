"""While the engine does not answer, writes are safe and say so, and reads and vector queries still work. What the answer to a
write waits for is the caller's choice, by `wait`, or else the operator's, by RAG_WRITE_WAIT.

A write that waited for the index would wait for an hour.
"""

import inspect
import itertools
import json
import select
import threading
from collections import Counter
from contextlib import closing, contextmanager
from itertools import product

import orjson
import pytest

import wrapper.service
from schemas.access.callers import Scope
from schemas.errors import UnavailableError
from schemas.storage import read_limits
from schemas.storage.leadership import FileLeadership
from schemas.storage.write_waits import COMMIT
from tests.support.live import PATIENCE_SECONDS, eventually
from tests.wrapper.routes.conftest import TWO_DOCUMENTS
from wrapper.catalog import catalog as catalog_module
from wrapper.catalog.catalog import Catalog
from wrapper.engine.client import EngineClient
from wrapper.indexing.bell import Bell
from wrapper.web import request_parts
from wrapper.web.bodies import NDJSON
from wrapper.web.parsing_budget import BLOCK_BYTES, WAIT_SECONDS, ArrivingBudget


@pytest.fixture
def client(open_client):
    with open_client() as client:
        yield client


@pytest.fixture
def url(client):
    assert client.post("/collections", json={"name": "abc"}).status_code == 201
    return "/collections/abc"


def test_a_repeat_without_a_key_is_not_indexed_before_its_original(client, url):
    for counted in ("created", "unchanged"):
        answer = client.post(f"{url}/documents", json={"documents": TWO_DOCUMENTS})
        assert (answer.status_code, answer.json["indexed"], answer.json[counted]) == (202, False, 2)


def test_vector_queries_scan_the_catalogue_and_say_so(client, url):
    client.post(f"{url}/documents", json={"documents": TWO_DOCUMENTS})
    for where in (None, {"page": {"$gte": 1}}):
        answer = client.post(f"{url}/query", json={"query_embedding": [0, 1], "where": where}).json
        assert [each["id"] for each in answer["results"]] == ["b", "a"]
        assert answer["plan"] == "scan"


def test_health_is_degraded_with_200(client, url):
    client.post(f"{url}/documents", json={"documents": TWO_DOCUMENTS})
    eventually(lambda: client.get("/health").json["engine"]["status"] == "unresponsive")
    answer = client.get("/health")
    assert (answer.status_code, answer.json["status"]) == (200, "degraded")
    assert (answer.json["engine"]["mode"], "age_seconds" in answer.json["engine"]) == ("remote", True)
    assert answer.json["catalog"] == {"status": "healthy", "kind": "sqlite"}
    assert answer.json["index_lag"] == 2
    assert client.get("/ready").status_code == 200


@pytest.mark.slow
def test_health_is_503_when_the_catalogue_is_away(client, tmp_path, monkeypatch):
    (tmp_path / "catalog.sqlite").write_bytes(b"this is no database" * 1_000)
    for end in ("-wal", "-shm"):
        (tmp_path / f"catalog.sqlite{end}").unlink(missing_ok=True)
    answer = client.get("/health")
    assert (answer.status_code, answer.json["status"]) == (503, "unhealthy")

    def fail(self):
        raise UnavailableError("The catalogue is unavailable")

    # A connection that has read the first pages may still answer from its cache.
    monkeypatch.setattr(Catalog, "read", fail)
    eventually(lambda: client.get("/ready").status_code == 503)
    assert client.get("/live").status_code == 200


def test_health_does_not_wait_for_the_engine(monkeypatch, open_client):
    asked, gate = threading.Event(), threading.Event()

    def hang(engine, timeout_seconds):
        asked.set()
        gate.wait()

    monkeypatch.setattr(EngineClient, "heartbeat", hang)
    with open_client() as client:
        try:
            assert asked.wait(PATIENCE_SECONDS)
            for path in ("/live", "/ready", "/health", "/metrics"):
                assert client.get(path).status_code == 200
        finally:
            gate.set()


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


@pytest.mark.slow
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


def test_a_request_may_wait_where_the_operator_lets_others_go(opened):
    with opened(write_wait=COMMIT, write_wait_seconds=0.0) as client:
        assert _ask(client, "add", "index").status_code == 202


def test_reads_know_no_wait(opened):
    with opened(**HOUR) as client:
        answer = client.get(f"{URL}/documents?wait=commit")
        assert answer.status_code == 200
        assert any("wait" in each for each in answer.json["warnings"])


@pytest.mark.parametrize("wait", ["commit", "index"])
def test_a_write_through_a_process_that_does_not_lead_rings_the_one_that_does(tmp_path, open_client, monkeypatch, wait):
    monkeypatch.setattr(wrapper.service, "shared_folder", lambda: tmp_path)
    leadership, leader = FileLeadership(tmp_path / "indexer.lock"), Bell(tmp_path / "indexer.bell")
    assert leadership.acquire()
    leader.listen()
    with open_client() as client, closing(leader):
        for path, body in (("", {"name": "abc"}), ("/abc/documents", {"documents": TWO_DOCUMENTS})):
            assert select.select([leader._heard], [], [], 0)[0] == []
            assert client.post(f"/collections{path}?wait={wait}", json=body).status_code in (201, 202)
            assert select.select([leader._heard], [], [], 0)[0], body
            leader.wait(0)
    leadership.release()


@pytest.mark.parametrize("path", ["documents", "import"])
def test_what_a_body_holds_while_it_arrives_is_counted(client, url, path):
    body = orjson.dumps({"id": "a", "text": "a" * BLOCK_BYTES, "embedding": [1, 0]})
    sent = {"data": body, "content_type": NDJSON} if path == "import" else {"json": {"documents": [orjson.loads(body)]}}
    seconds = itertools.count(step=WAIT_SECONDS)
    client.application.extensions["rag.arriving"] = budget = ArrivingBudget(BLOCK_BYTES, lambda: next(seconds))
    with budget.body() as other:
        other(2 * BLOCK_BYTES)
        answer = client.post(f"{url}/{path}", **sent)
        assert (answer.status_code, answer.json["code"]) == (503, "busy")
    assert client.post(f"{url}/{path}", **sent).status_code in (200, 201, 202)
    assert (budget._taken_bytes, budget._taken) == (0, {})


def test_a_request_leaves_its_thread_no_limit_of_reads_however_it_ends(client, url):
    client.application.extensions["rag.service"].store.following.stop_waiting()
    for path, status in (("x/documents", 404), ("abc/changes?since=1&wait=9", 200), ("abc/documents?limit=x", 400)):
        answer = client.get(f"/collections/{path}")
        assert (answer.status_code, answer.get_data() and read_limits.current()) == (status, None)
    with client.application.test_request_context("/collections/abc/documents"):
        for needs in (Scope.CHAT, Scope.READ):  # as in two lanes
            assert (request_parts.limit_reads(needs), read_limits.current() is None) == (None, False)
        request_parts.end_limit()
        assert read_limits.current() is None


def test_preparing_a_write_gives_way_to_the_one_under_way_at_each_document(client, url, monkeypatch):
    catalog = client.application.extensions["rag.service"].store._catalog
    monkeypatch.setattr(catalog_module, "GIVES_WAY_SECONDS", PATIENCE_SECONDS)

    def operation(_):
        waiting = threading.Thread(target=catalog.give_way)
        waiting.start()
        eventually(lambda: catalog._nobody_writes._cond._waiters)
        return waiting

    catalog.commit(operation).join(PATIENCE_SECONDS)
    given = []
    monkeypatch.setattr(catalog, "give_way", lambda: given.append(inspect.currentframe().f_back.f_code.co_name))
    client.post(f"{url}/documents", json={"documents": TWO_DOCUMENTS})
    client.patch(f"{url}/documents", json={"where": {}, "metadata": {"title": "b"}})
    assert Counter(given) == {"prepare_documents": 2, "_merge": 2, "segment_of": 4}
