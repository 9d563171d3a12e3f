"""The index may be on the operator's own Chroma server behind TLS and a token.

Writes that it refuses wait, its database records which service owns it, and nobody learns the token.
"""

import json
import os
import signal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import requests

from tests.durability.workload import add, ask, create, documents, nearest
from tests.support.chroma import ChromaServer
from tests.support.live import PATIENCE_SECONDS, eventually, live_service, refused_start
from tests.support.tls_proxy import token_proxy
from wrapper.engine.client import SEARCH_WIDTHS, EngineClient
from wrapper.engine.server_access import EngineAccess
from wrapper.engine.tenant_claim import CATALOGUE, OWNER_MARK, EngineOwnedError, claim
from wrapper.indexing.engine_collections import NAME_TAKEN

TENANT, DATABASE = "acme", "handbooks"
ALL_METHODS = ["GET", "POST", "PUT", "DELETE"]
REDIRECT = {"Location": "https://elsewhere.example/api/v2"}
REFUSALS = {
    "401 to everything": (ALL_METHODS, 401, b"token expired", {}, "RAG_CHROMA_TOKEN"),
    "403 to writes": (["POST"], 403, b'{"error":"AuthError","message":"Forbidden"}', {}, "RAG_CHROMA_TENANT"),
    "quota for writes": (["POST"], 422, b'{"error":"QuotaError","message":"Quota exceeded: 300 records"}', {}, "quota"),
    "429 to writes": (["POST"], 429, b'{"error":"RateLimitError","message":"slower"}', {}, "fewer requests"),
    "redirect of everything": (ALL_METHODS, 301, b"", REDIRECT, "https://elsewhere.example"),
    "500 of a proxy": (["POST"], 500, b"<html>upstream fell over</html>", {}, "does not take requests now"),
}
"""The methods that the server refuses, its answer, and what the service says about it."""


@pytest.fixture(scope="module")
def chroma(tmp_path_factory):
    server = ChromaServer(tmp_path_factory.mktemp("chroma"))
    server.start()
    yield server
    server.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def proxy(chroma, tmp_path_factory):
    port = int(chroma.url.rpartition(":")[2])
    with token_proxy(port, tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


def _settings(proxy, **others):
    return {
        "chroma_url": proxy.url,
        "chroma_token": proxy.token,
        "chroma_tenant": TENANT,
        "chroma_database": DATABASE,
        "chroma_ca_file": proxy.ca_file,
        "write_wait_seconds": 1,
        "memory_vectors_mb": 0,
        "workers": 1,
        **others,
    }


@pytest.fixture(scope="module")
def service(proxy, tmp_path_factory):
    with live_service(tmp_path_factory.mktemp("service"), **_settings(proxy)) as service:
        yield service


def _in_chroma(chroma, name):
    base = f"{chroma.url}/api/v2/tenants/{TENANT}/databases/{DATABASE}/collections"
    found = requests.get(f"{base}/{name}", timeout=PATIENCE_SECONDS)
    if found.status_code == 404:
        return None
    return requests.get(f"{base}/{found.json()['id']}/count", timeout=PATIENCE_SECONDS).json()


def _health(service):
    return ask(service, "GET", "/health")


def _healthy(service):
    """Return the report once it says healthy. On a busy machine one check of the engine may take too long, so it is
    repeated."""
    return eventually(
        lambda: (report := _health(service))["status"] == "healthy" and report,
        complaint=lambda: json.dumps(_health(service)),
    )


def test_the_server_is_asked_with_the_token_in_its_tenant_and_database(chroma, proxy, service):
    create(service, "kept", documents(20, seed=1))
    assert _in_chroma(chroma, "kept") == 20
    assert all(path.startswith(f"/api/v2/tenants/{TENANT}/databases") for path in proxy.passed if "collections" in path)
    assert _healthy(service)["engine"]["status"] == "ready"


@pytest.mark.parametrize("kind", REFUSALS)
def test_refused_writes_wait_and_health_says_why(chroma, proxy, service, kind):
    methods, status, body, headers, sentence = REFUSALS[kind]
    name = f"refused-{status}"
    create(service, name, documents(3, seed=2))
    late = documents(4, seed=3)

    def told():
        report = _health(service)
        said = [report["engine"].get("message", "")]
        said += [each["reason"] for each in report.get("standing_still", ()) if each["collection"] == name]
        return report["status"] == "degraded" and any(sentence in each for each in said)

    with proxy.refusing(status, body, methods=methods, **headers):
        added = add(service, name, late, status=202)
        assert added["indexed"] is False
        assert "set_aside" not in added
        assert nearest(service, name, late[2]["embedding"])[0] == [late[2]["id"]]
        eventually(told, complaint=lambda: json.dumps(_health(service)))
    eventually(lambda: _in_chroma(chroma, name) == 7, complaint=service.tail)
    _healthy(service)
    assert ask(service, "GET", f"/collections/{name}/index")["standing_still"] is None


def test_a_document_too_large_for_the_server_is_set_aside_and_still_found(chroma, service):
    create(service, "sizes", documents(5, seed=4))
    large = documents(2, seed=5)
    large[1]["text"] = "too large " * 4_400_000
    added = add(service, "sizes", large, status=None)
    if added["indexed"] is False and "set_aside" not in added:
        # Setting it aside took longer than a write waits here, so the write is sent again.
        eventually(
            lambda: ask(service, "GET", "/collections/sizes/index")["set_aside"]["documents"], complaint=service.tail
        )
        added = add(service, "sizes", large, status=202)
    assert added["set_aside"] == [large[1]["id"]]
    assert _in_chroma(chroma, "sizes") == 6
    for document in large:
        query = {"query_embedding": document["embedding"], "top_k": 1, "include": []}
        found = ask(service, "POST", "/collections/sizes/query", json=query)
        assert found["results"][0]["id"] == document["id"]
    [first] = _healthy(service)["set_aside"]["first"]
    assert (first["collection"], first["id"]) == ("sizes", large[1]["id"])
    assert "413" in first["reason"]
    assert ask(service, "DELETE", "/collections/sizes/documents", json={"ids": [large[1]["id"]]})["count"] == 1
    assert "set_aside" not in _health(service)


def test_a_second_service_with_another_catalogue_is_refused_at_the_start(proxy, service, tmp_path):
    environ = {f"RAG_{name.upper()}": str(value) for name, value in _settings(proxy).items()}
    environ |= {"RAG_DATA_DIR": str(tmp_path / "second"), "PATH": os.environ["PATH"]}
    ended = refused_start(environ=environ, cwd=tmp_path)
    said = ended.stdout + ended.stderr
    assert ended.returncode != 0
    assert "rag-wrapper-owner" in said
    assert "RAG_CHROMA_DATABASE" in said
    assert proxy.token not in said


def test_only_one_of_two_services_that_claim_a_database_at_once_gets_it(chroma):
    for number in range(5):
        access, barrier = EngineAccess(tenant=TENANT, database=f"contested-{number}"), threading.Barrier(4)

        def contend(access=access, barrier=barrier):
            engine, catalogue = EngineClient(lambda: chroma.url, access=access), str(uuid.uuid4())
            barrier.wait(PATIENCE_SECONDS)
            try:
                claim(engine, catalogue)
                claim(engine, catalogue)
                return True
            except EngineOwnedError:
                return False
            finally:
                engine.close()

        with ThreadPoolExecutor(4) as pool:
            owns = [contender.result(PATIENCE_SECONDS) for contender in [pool.submit(contend) for _ in range(4)]]
        assert sorted(owns) == [False, False, False, True]


def test_an_engine_claimed_by_another_service_is_left_alone_until_it_is_ours_again(chroma, service):
    create(service, "ours", documents(3, seed=6))
    base = f"{chroma.url}/api/v2/tenants/{TENANT}/databases/{DATABASE}/collections"
    mark = requests.get(f"{base}/{OWNER_MARK}", timeout=PATIENCE_SECONDS).json()
    other = {"new_metadata": {**mark["metadata"], CATALOGUE: str(uuid.uuid4())}}
    assert requests.put(f"{base}/{mark['id']}", json=other, timeout=PATIENCE_SECONDS).status_code == 200
    health = eventually(lambda: (report := _health(service))["engine"]["status"] == "refusing" and report)
    assert OWNER_MARK in health["engine"]["message"]
    assert health["status"] == "degraded"
    ours = {"new_metadata": mark["metadata"]}
    assert requests.put(f"{base}/{mark['id']}", json=ours, timeout=PATIENCE_SECONDS).status_code == 200
    _healthy(service)


def test_foreign_collections_are_left_alone_until_adoption_is_allowed(chroma, tmp_path):
    """With `RAG_ADOPT=off`, foreign collections are not adopted, renamed or deleted, and our collections wait for names
    that are taken; then `on` adopts them."""
    access = EngineAccess(tenant=TENANT, database="shared")
    others = EngineClient(lambda: chroma.url, access=access, hnsw={})
    others.make_database()
    vectors = np.eye(3, dtype="f4")
    for name in ("theirs", "taken"):
        engine_id = others.create_collection(name, metric="l2", metadata={"owner": "others"})
        others.upsert(engine_id, ["a", "b", "c"], vectors, ["A", "B", "C"], [{"n": n} for n in range(3)], all_new=True)
    others.create_collection("hollow", metric="cosine", search_width=SEARCH_WIDTHS[0])
    before = _held(others)
    settings = {
        "chroma_url": chroma.url,
        "chroma_tenant": TENANT,
        "chroma_database": "shared",
        "write_wait_seconds": 1,
        "memory_vectors_mb": 0,
        "workers": 1,
    }
    given = documents(4, seed=7)
    with live_service(tmp_path, adopt="off", **settings) as service:
        create(service, "ours", given)
        for name in ("taken", "hollow"):
            create(service, name)
            assert add(service, name, given, status=202)["indexed"] is False
            state = eventually(
                lambda name=name: ask(service, "GET", f"/collections/{name}/index")["standing_still"],
                complaint=service.tail,
            )
            assert state["reason"] == NAME_TAKEN
            assert nearest(service, name, given[2]["embedding"]) == ([given[2]["id"]], "scan")
        assert {each["collection"] for each in _health(service)["standing_still"]} == {"taken", "hollow"}
        assert _names(service) == {"ours", "taken", "hollow"}
        # Deleting our collection of that name deletes no foreign one; we get the name at the next try after it becomes
        # free.
        ask(service, "DELETE", "/collections/hollow")
        eventually(lambda: _health(service)["index_lag"] <= 2, complaint=service.tail)
        assert {name: held for name, held in _held(others).items() if name in before} == before
        others.rename_collection(before["taken"][0].id, "moved")
        # Between getting its name and its documents, nothing stands still.
        eventually(
            lambda: (found := _health(service))["status"] == "healthy" and found["index_lag"] == 0,
            complaint=service.tail,
        )
        assert len(others.get(others.get_collection("taken").id).ids) == len(given)
    with live_service(tmp_path, adopt="on", **settings) as service:
        everybodys = {"ours", "taken", "theirs", "moved", "hollow"}
        eventually(
            lambda: _names(service) == everybodys and _health(service)["status"] == "healthy", complaint=service.tail
        )
        stored = ask(service, "GET", "/collections/theirs/documents/b")
        assert (stored["text"], stored["metadata"]) == ("B", {"n": 1})
    others.close()


def _held(engine):
    """Return what an engine holds except the owner's mark: by name (the collection, the ids of its records)."""
    return {
        each.name: (each, engine.get(each.id, include=()).ids)
        for each in engine.list_collections()
        if each.name != OWNER_MARK
    }


def _names(service):
    return {each["name"] for each in ask(service, "GET", "/collections")["collections"]}


def test_the_token_is_in_no_log_and_no_answer(proxy, service):
    assert proxy.token not in service.log.read_text()
    with service.session() as session:
        for path in ("/health", "/metrics", "/collections/kept/index"):
            assert proxy.token not in session.get(f"{service.url}{path}", timeout=PATIENCE_SECONDS).text
