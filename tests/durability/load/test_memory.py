"""A worker's memory does not grow, however much is sent, requested or deleted.

`RAG_SOAK_LINES` says how many documents there are; the figures are printed.
"""

import itertools
import os
import random

import orjson
import pytest
import requests

from tests.durability.processes import forget_peak, peak_mb, workers
from tests.support.live import live_service

pytestmark = pytest.mark.executed

LINES = int(os.environ.get("RAG_SOAK_LINES", "12000"))
FEW_LINES = 5_000
DIMENSION = 8
MOST_GROWTH_MB = 40
MOST_MB = 300
ANSWER_SECONDS = 7_200


class Peaks:
    """Measures the workers' highest resident memory since the last measurement, in megabytes."""

    def __init__(self, service):
        self._service = service

    def take(self, what):
        found = []
        for pid in workers(self._service):
            found.append(peak_mb(pid))
            forget_peak(pid)
        print(f"{what}: {max(found)} MB")
        return max(found)


def _lines(start, stop):
    for number in range(start, stop):
        chance = random.Random(number)
        embedding = [chance.gauss(0, 1) for _ in range(DIMENSION)]
        metadata = {"number": number, "kind": number % 10, "name": f"name {number}"}
        document = {"id": f"document-{number}", "text": f"Text {number}.", "metadata": metadata, "embedding": embedding}
        yield orjson.dumps(document) + b"\n"


def _blocks(lines):
    return iter(lambda: b"".join(itertools.islice(lines, 1_000)), b"")


@pytest.mark.timeout(4 * 3_600)
def test_memory_is_bounded_on_every_route(tmp_path):
    with live_service(tmp_path, workers=1, client_wait_seconds=600) as service, requests.Session() as session:
        url = f"{service.url}/collections/many"
        assert session.post(f"{service.url}/collections", json={"name": "many"}).status_code == 201
        peaks = Peaks(service)

        def add(start, stop):
            answer = session.post(
                f"{url}/documents",
                data=_blocks(_lines(start, stop)),
                headers={"Content-Type": "application/x-ndjson"},
                timeout=ANSWER_SECONDS,
            )
            assert (answer.status_code // 100, answer.json()["created"]) == (2, stop - start)

        def export():
            with session.get(f"{url}/export", stream=True, timeout=ANSWER_SECONDS) as answer:
                return sum(chunk.count(b"\n") for chunk in answer.iter_content(1 << 16))

        def ask(path, **arguments):
            answer = session.get(url + path, params=arguments, timeout=ANSWER_SECONDS)
            assert answer.status_code == 200, answer.text[:300]
            return answer.json()

        add(0, FEW_LINES)
        assert export() == FEW_LINES
        few = peaks.take(f"{FEW_LINES} lines in and out")
        add(FEW_LINES, LINES)
        seen = [peaks.take(f"{LINES} lines in")]
        assert export() == LINES
        seen.append(peaks.take("export"))
        assert ask("/facets", fields="number,kind,name")["facets"]["name"]["distinct"] == LINES
        seen.append(peaks.take("facets"))
        assert ask("/metadata-values", field="name")["count"] == LINES
        seen.append(peaks.take("metadata-values"))
        for offset in (0, LINES - 1_000):
            page = ask("/documents", limit=1_000, offset=offset, order_by="-name", include="embedding")
            assert page["count"] == 1_000
        seen.append(peaks.take("pages"))
        gathered = session.post(
            f"{url}/gather", json={"by": "kind", "where": {"number": {"$lt": 1_000}}, "limit": 1_000}
        )
        assert len(gathered.json()["groups"]) == 10
        seen.append(peaks.take("gather"))
        body = {"query_embedding": [1.0] * DIMENSION, "top_k": 1_000, "where": {"kind": {"$ne": 3}}}
        assert len(session.post(f"{url}/query", json=body, timeout=ANSWER_SECONDS).json()["results"]) == 1_000
        seen.append(peaks.take("query"))
        everything = {"where": {"number": {"$gte": 0}}}
        answer = session.delete(f"{url}/documents?all=true", json=everything, timeout=ANSWER_SECONDS)
        assert answer.json()["count"] == LINES, answer.text[:300]
        seen.append(peaks.take("delete by filter"))
        assert max(seen) - few < MOST_GROWTH_MB if LINES <= 50_000 else max(seen) <= MOST_MB
