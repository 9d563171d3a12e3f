"""A small body that would become large takes no worker's memory, whether it comes alone or with others at once."""

import gzip
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.durability.processes import forget_peak, peak_mb, resident_mb, workers
from tests.support.live import PATIENCE_SECONDS, eventually, live_service

pytestmark = pytest.mark.executed

MOST_MB = 350
MOST_GROWTH_MB = 100
AT_ONCE = 8
MANY = 10_000_000
JSON, NDJSON = "application/json", "application/x-ndjson"
WRAPPED = {
    "documents": (b'{"documents":[', b"{},", MANY, b"{}]}"),
    "lists": (b'{"documents":[', b"[],", MANY, b"[]]}"),
    "strings": (b'{"documents":[', b'"ab",', MANY // 2, b"1]}"),
    "depth": (b'{"documents":' + b"[" * 1_000 + b"]" * 1_000, b",", MANY, b""),
    "line": (b'{"metadata":{"a":[', b"{},", MANY, b"{}]}}\n"),
    "lines": (b"", b"{}\n", MANY // 100, b""),
}
"""What a body begins with, what is repeated in it and how often, and what it ends with."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with live_service(tmp_path_factory.mktemp("bodies"), workers=1) as service:
        with service.session() as session:
            assert session.post(f"{service.url}/collections", json={"name": "own"}).status_code == 201
        yield service


@pytest.mark.parametrize("kind", WRAPPED)
def test_a_small_gzip_body_takes_no_memory(service, kind):
    start, repeated, times, end = WRAPPED[kind]
    body = gzip.compress(start + repeated * times + end)
    assert len(body) < 100_000
    (worker,) = workers(service)
    before = resident_mb(worker)
    forget_peak(worker)
    media_type = NDJSON if kind.startswith("line") else JSON
    headers = {"Content-Type": media_type, "Content-Encoding": "gzip"}

    def send(_):
        with service.session() as session:
            return session.post(
                f"{service.url}/collections/own/documents", data=body, headers=headers, timeout=PATIENCE_SECONDS
            )

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for answer in pool.map(send, range(AT_ONCE)):
            assert answer.status_code in (400, 413), answer.text
    print(
        f"{kind}: {len(body)} bytes, {before} MB before, {peak_mb(worker)} MB at most, {resident_mb(worker)} MB after"
    )
    assert peak_mb(worker) < MOST_MB
    eventually(lambda: resident_mb(worker) < before + MOST_GROWTH_MB)


def test_a_body_has_a_limit_of_documents_and_a_stream_has_none(service):
    document = b'{"text":"x","embedding":[1,0]}'
    url = f"{service.url}/collections/own/documents"
    with service.session() as session:
        body = b'{"documents":[' + b",".join([document] * 20_001) + b"]}"
        refused = session.post(url, data=body, headers={"Content-Type": JSON})
        assert (refused.status_code, refused.json()["code"]) == (413, "payload_too_large")
        assert refused.json()["details"] == {"field": "documents", "limit": 20_000}
        streamed = session.post(
            url, data=b"\n".join([document] * 20_001), headers={"Content-Type": NDJSON}, timeout=PATIENCE_SECONDS
        )
        assert (streamed.status_code // 100, streamed.json()["count"]) == (2, 20_001)
        assert session.get(f"{url}/count").json()["count"] == 20_001
