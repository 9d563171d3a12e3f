"""`RAG_CHROMA_URL` puts the index in a Chroma server that somebody else runs, stops and starts."""

import signal

from tests.durability.workload import BruteForce, Writer, create, documents, healed, running
from tests.support.live import eventually


def _query(session, service, vector):
    body = {"query_embedding": vector, "top_k": 3}
    return session.post(f"{service.url}/collections/foreign/query", json=body, timeout=15).json()


def test_the_service_works_on_a_foreign_engine_and_survives_its_restarts(chroma_server, serve):
    service = serve(chroma_url=chroma_server.url, write_wait_seconds=2)
    given = documents(60, seed=1)
    create(service, "foreign", given, metadata={"title": "elsewhere"})
    with service.session() as session:
        report = session.get(f"{service.url}/health", timeout=15).json()
        assert (report["engine"]["status"], report["engine"]["mode"]) == ("ready", "remote")
        assert not (service.data_dir / "chroma").exists()
        found = _query(session, service, given[5]["embedding"])
        assert [each["id"] for each in found["results"]] == BruteForce(given).nearest(given[5]["embedding"], 3)
        assert found["plan"] == "index"

        chroma_server.stop(signal.SIGTERM)
        eventually(lambda: session.get(f"{service.url}/health").json()["status"] == "degraded")
        late = documents(5, seed=2)
        added = session.post(f"{service.url}/collections/foreign/documents", json={"documents": late}, timeout=15)
        assert (added.status_code, added.json()["indexed"]) == (202, False)
        found = _query(session, service, late[2]["embedding"])
        assert (found["results"][0]["id"], found["plan"]) == (late[2]["id"], "scan")

        chroma_server.start()
        healed(service)
        found = eventually(
            lambda: (answer := _query(session, service, late[2]["embedding"]))["plan"] == "index" and answer,
        )
        assert found["results"][0]["id"] == late[2]["id"]


def test_a_service_killed_during_writes_fills_an_engine_that_comes_back_empty(chroma_server, serve, tmp_path):
    service = serve(chroma_url=chroma_server.url)
    given = documents(60, seed=3)
    create(service, "foreign", given)
    writer = Writer(service, "foreign", 1)
    with running([writer.run]) as stopping:
        eventually(lambda: stopping.is_set() or writer.stored > 10)
        chroma_server.stop(signal.SIGKILL)
        (tmp_path / "elsewhere").rename(tmp_path / "lost")
        chroma_server.start()
        eventually(lambda: stopping.is_set() or writer.stored > 30, complaint=service.tail)
    assert not writer.refused
    healed(service)
    with service.session() as session:
        for document in [*given[:5], *list(writer.kept.values())[:20]]:
            found = eventually(
                lambda document=document: (
                    (answer := _query(session, service, document["embedding"]))["plan"] == "index" and answer
                ),
            )
            assert found["results"][0]["id"] == document["id"]
