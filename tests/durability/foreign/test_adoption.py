"""Chroma directories and servers that other people made with 0.6 or 1.x are adopted and served."""

import shutil

import numpy as np
import pytest
import requests

from tests.durability.foreign.foreign_collections import DOCUMENTS, document, vectors
from tests.durability.foreign.old_chroma import OLD, NotInstalledError, install, write_directory
from tests.durability.workload import all_documents, ask, create, documents
from tests.support.live import PATIENCE_SECONDS, eventually, live_service
from wrapper.distances import exact_distances


@pytest.fixture(scope="session")
def old_chroma(request):
    """The folder that adds chromadb 0.6.3 to our environment; it is kept between test runs."""
    try:
        return install(request.config.cache.mkdir(f"chromadb-{OLD}"))
    except NotInstalledError as error:
        pytest.skip(f"chromadb {OLD} cannot be installed: {error}")


@pytest.fixture(scope="session")
def written_by_old(old_chroma, tmp_path_factory):
    return write_directory(tmp_path_factory.mktemp("old") / "chroma", old=old_chroma)


@pytest.fixture(scope="session")
def written_by_ours(tmp_path_factory):
    return write_directory(tmp_path_factory.mktemp("ours") / "chroma")


@pytest.fixture(scope="module", params=["old", "ours"])
def written(request):
    """Two Chroma directories, one written by chromadb 0.6.3 and one by the release that we use."""
    return request.getfixturevalue(f"written_by_{request.param}")


@pytest.fixture(scope="module")
def served(written, tmp_path_factory):
    """A service that has adopted such a directory. The first test reads all collections, then each test changes a
    collection of its own."""
    directory = tmp_path_factory.mktemp("served")
    shutil.copytree(written, directory / "data" / "chroma")
    with live_service(directory, memory_vectors_mb=0, exact_ms=0, recall=0) as service:
        yield service


@pytest.fixture
def bring(tmp_path):
    """`bring(directory)` puts a copy of a Chroma directory where the service looks for its own."""

    def copy(directory):
        shutil.copytree(directory, tmp_path / "data" / "chroma")

    return copy


def _collections(service):
    return {each["name"]: each for each in ask(service, "GET", "/collections")["collections"]}


def _said(service):
    """Return the log without the requests."""
    lines = service.log.read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if '"event":"request"' not in line][-40:])


def _adopted(service, *names):
    """Return all collections once they are present and complete and their indexes have been checked."""

    def complete():
        found = _collections(service)
        return set(names) <= found.keys() and not any("adopting" in each for each in found.values()) and found

    found = eventually(complete, complaint=lambda: _said(service))
    service.wait_until_healthy()
    return found


def _query(service, name, vector, top_k=10):
    """Return what is found once it comes from the index."""
    body = {"query_embedding": np.asarray(vector, dtype=float).tolist(), "top_k": top_k}

    def answered():
        answer = ask(service, "POST", f"/collections/{name}/query", json=body)
        return answer["plan"] == "index" and answer["results"]

    return eventually(answered, complaint=lambda: _said(service))


def _assert_nearest(service, name, metric, ids, stored, asked):
    expected = exact_distances(asked, stored, metric)
    nearest = np.argsort(expected, kind="stable")[:10]
    found = _query(service, name, asked)
    assert [each["id"] for each in found] == [ids[row] for row in nearest]
    assert np.allclose([each["distance"] for each in found], expected[nearest], rtol=1e-4, atol=1e-4)


def test_everything_is_served_as_it_was(served):
    service = served
    found = _adopted(service, "empty-one", "misleading", *(f"by-{metric}" for metric in DOCUMENTS))
    questions = np.random.default_rng(5).normal(size=(5, 8)).astype(np.float32)
    for metric, number in DOCUMENTS.items():
        name, given = f"by-{metric}", [document(metric, each) for each in range(number)]
        assert (found[name]["metric"], found[name]["count"], found[name]["dimension"]) == (metric, number, 8)
        shown = {key: value for key, value in found[name]["metadata"].items() if not key.startswith("hnsw:")}
        assert shown == {"owner": "somebody", "level": 1.5, "number": 3, "truth": True}
        held = list(all_documents(f"{service.url}/collections/{name}"))
        assert [(each["id"], each["text"], each["metadata"]) for each in held] == [
            (document_id, text or "", metadata or {}) for document_id, text, metadata in given
        ]
        stored = vectors(metric)
        assert np.allclose([each["embedding"] for each in held], stored, rtol=1e-5, atol=1e-5)
        for where, matches in (
            ({"b": True}, [each for each in given if each[2] and each[2]["b"]]),
            (
                {"n": {"$gte": 100}, "s": "日本語"},
                [e for e in given if e[2] and e[2]["n"] >= 100 and e[2]["n"] % 4 == 1],
            ),
            ({"f": {"$lt": 1.5}}, [each for each in given if each[2] and each[2]["f"] < 1.5]),
        ):
            body = {"where": where, "limit": 1000}
            answer = ask(service, "POST", f"/collections/{name}/documents/search", json=body)
            assert answer["total"] == len(matches)
            assert [each["id"] for each in answer["documents"]] == [each[0] for each in matches][:1000]
        for asked in questions:
            _assert_nearest(service, name, metric, [each[0] for each in given], stored, asked)
    assert (found["misleading"]["metric"], found["misleading"]["metadata"]) == ("cosine", {"version": 2})
    ids = [str(number) for number in range(200)]
    _assert_nearest(service, "misleading", "cosine", ids, vectors("ip", 200), questions[0])
    assert found["legacy"]["metric"] == "ip"
    _assert_nearest(service, "legacy", "ip", ids[:50], vectors("l2", 50), questions[1])
    assert (found["empty-one"]["count"], found["empty-one"]["dimension"], found["empty-one"]["metric"]) == (
        0,
        None,
        "ip",
    )
    held = {each["id"]: each for each in all_documents(f"{service.url}/collections/edited")}
    assert {each: (one["metadata"], one["embedding"]) for each, one in held.items()} == {
        "b": ({"v": 2}, [5.0, 5.0]),
        "c": ({"v": 1}, [1.0, 1.0]),
    }
    report = ask(service, "GET", "/health")
    assert "adopting" not in report
    assert "left_out" not in report
    shown = "rag_collections_adopting 0.0"
    eventually(lambda: shown in requests.get(f"{service.url}/metrics", timeout=PATIENCE_SECONDS).text)


def test_lists_uris_and_converted_values_are_served(written_by_ours, bring, serve):
    bring(written_by_ours)
    service = serve()
    _adopted(service, "with-lists")
    adopted = list(all_documents(f"{service.url}/collections/with-lists"))
    assert [each.get("uri") for each in adopted] == [None, None, "file:///z"]
    held = {each["id"]: each["metadata"] for each in adopted}
    assert held == {
        "x": {"tags": ["red", "blue"], "sizes": [1, 2]},
        "y": {"tags": ["red"], "huge": pytest.approx(2.0**70, rel=1e-12)},
        "z": {},
    }
    body = {"where": {"tags": {"$contains": "blue"}}}
    found = ask(service, "POST", "/collections/with-lists/documents/search", json=body)
    assert [each["id"] for each in found["documents"]] == ["x"]


def test_all_collections_are_adopted_again_without_the_catalogue(serve):
    service = serve()
    given = documents(1200, seed=2, nested={"deep": [1, None, {"x": "ü"}]}, tags=["a", "b"])
    create(service, "library", given, metadata={"owner": {"name": "x"}}, metric="l2")
    create(service, "nothing-in-it")
    before = _collections(service)
    held = list(all_documents(f"{service.url}/collections/library"))
    service.stop()
    for file in service.data_dir.glob("catalog.sqlite*"):
        file.unlink()
    service = serve()
    after = _adopted(service, "library", "nothing-in-it")
    for collections in (before, after):
        for each in collections.values():
            del each["revision"], each["id"]
    assert after == before
    assert list(all_documents(f"{service.url}/collections/library")) == held
    assert _query(service, "library", given[7]["embedding"], 1)[0]["id"] == given[7]["id"]
