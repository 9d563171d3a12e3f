"""`RAG_CHROMA_URL` puts the index in a Chroma server that somebody else runs, stops and starts."""

import signal

from tests.durability.workload import BruteForce, Writer, add, ask, create, documents, healed, nearest, running, written
from tests.support.live import eventually


def found_in_the_index(service, document):
    return nearest(service, "foreign", document["embedding"]) == ([document["id"]], "index")


def test_the_service_works_on_a_foreign_engine_and_survives_its_restarts(chroma_server, serve):
    service = serve(chroma_url=chroma_server.url, write_wait_seconds=2)
    given = documents(60, seed=1)
    create(service, "foreign", given, metadata={"title": "elsewhere"})
    engine = ask(service, "GET", "/health")["engine"]
    assert (engine["status"], engine["mode"]) == ("ready", "remote")
    assert not (service.data_dir / "chroma").exists()
    vector = given[5]["embedding"]
    assert nearest(service, "foreign", vector, 3) == (BruteForce(given).nearest(vector, 3), "index")

    chroma_server.stop(signal.SIGTERM)
    eventually(lambda: ask(service, "GET", "/health")["status"] == "degraded")
    late = documents(5, seed=2)
    assert add(service, "foreign", late, status=202)["indexed"] is False
    assert nearest(service, "foreign", late[2]["embedding"]) == ([late[2]["id"]], "scan")

    chroma_server.start()
    healed(service)
    eventually(lambda: found_in_the_index(service, late[2]))


def test_a_service_killed_during_writes_fills_an_engine_that_comes_back_empty(chroma_server, serve, tmp_path):
    service = serve(chroma_url=chroma_server.url)
    given = documents(60, seed=3)
    create(service, "foreign", given)
    writer = Writer(service, "foreign", 1)
    with running([writer.run]) as stopping:
        written([writer], 10, stopping)
        chroma_server.stop(signal.SIGKILL)
        (tmp_path / "elsewhere").rename(tmp_path / "lost")
        chroma_server.start()
        written([writer], 20, stopping, complaint=service.tail)
    assert not writer.refused
    healed(service)
    for document in [*given[:5], *list(writer.kept.values())[:20]]:
        eventually(lambda document=document: found_in_the_index(service, document))
