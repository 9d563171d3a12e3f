"""`RAG_CHROMA_URL` puts the index in a Chroma server that somebody else runs, stops and starts."""

import signal

from tests.durability.workload import Writer, ask, create, documents, healed, nearest, running, written
from tests.support.live import eventually


def found_in_the_index(service, document):
    return nearest(service, "foreign", document["embedding"]) == ([document["id"]], "index")


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
    assert ask(service, "GET", "/health")["engine"]["mode"] == "remote"
    assert not (service.data_dir / "chroma").exists()
    healed(service)
    for document in [*given[:5], *list(writer.kept.values())[:20]]:
        eventually(lambda document=document: found_in_the_index(service, document))
