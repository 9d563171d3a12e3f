"""Many clients write and read at the same time, and each sees exactly what it may see."""

import orjson
import pytest

from tests.durability.workload import DIMENSION, Writer, ask, assert_nothing_is_lost, create, documents, healed, running
from tests.support.live import live_service

CLIENTS = 8
BATCH = 20


@pytest.fixture(scope="module", params=[1, 4], ids=["one-worker", "four-workers"])
def service(request, tmp_path_factory):
    if request.param == 1:
        yield request.getfixturevalue("live")
        return
    with live_service(tmp_path_factory.mktemp("clients"), workers=request.param) as service:
        yield service


def test_eight_clients_read_their_own_writes_and_counts_are_exact(service, collection, load_seconds):
    create(service, collection)
    writers = [Writer(service, collection, number, read_back=True) for number in range(CLIENTS)]
    with running(writer.run for writer in writers) as stopping:
        stopping.wait(load_seconds)
    assert not [refusal for writer in writers for refusal in writer.refused]
    assert not [violation for writer in writers for violation in writer.violations]
    assert not [writer.unanswered for writer in writers if writer.unanswered]
    assert sum(writer.indexed for writer in writers) == sum(writer.stored for writer in writers)
    healed(service)
    assert_nothing_is_lost(service, collection, writers)
    assert ask(service, "GET", f"/collections/{collection}")["count"] == sum(len(writer.kept) for writer in writers)


def test_a_reader_during_writes_sees_whole_requests_only(service, collection, load_seconds):
    create(service, collection)
    url = f"{service.url}/collections/{collection}/documents"
    torn, seen = [], set()
    markers = [f"m{number}" for number in range(4)]

    def write(stopping):
        version = 0
        with service.session() as session:
            while not stopping.is_set():
                version += 1
                marker = markers[version % len(markers)]
                batch = documents(BATCH, seed=version, marker=marker, version=version)
                if version % 3:
                    swap = {"replace_where": orjson.dumps({"marker": marker}).decode()}
                    answer = session.post(url, params=swap, json={"documents": batch})
                    assert answer.status_code == 201, answer.text
                else:
                    doomed = {"where": {"marker": marker}}
                    assert session.delete(url, json=doomed).status_code == 200

    def read(stopping):
        turn = 0
        with service.session() as session:
            while not stopping.is_set():
                turn += 1
                filters = orjson.dumps({"marker": markers[turn % len(markers)]}).decode()
                page = session.get(url, params={"where": filters, "limit": 1000}).json()
                versions = {document["metadata"]["version"] for document in page["documents"]}
                numbers = {document["metadata"]["number"] for document in page["documents"]}
                whole = (page["total"], page["count"], len(versions), len(numbers))
                seen.add(page["total"])
                if whole not in ((0, 0, 0, 0), (BATCH, BATCH, 1, BATCH)):
                    torn.append(whole)

    def query(stopping):
        with service.session() as session:
            while not stopping.is_set():
                body = {
                    "query_embedding": [1.0] + [0.0] * (DIMENSION - 1),
                    "top_k": BATCH * 2,
                    "where": {"marker": "m1"},
                }
                found = session.post(f"{url.removesuffix('/documents')}/query", json=body).json()
                versions = {match["metadata"]["version"] for match in found["results"]}
                if (len(found["results"]), len(versions)) not in ((0, 0), (BATCH, 1)):
                    torn.append((found["plan"], len(found["results"]), versions))

    with running([write, read, read, query]) as stopping:
        stopping.wait(load_seconds / 2)
    assert not torn
    assert seen == {0, BATCH}
