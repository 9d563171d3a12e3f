"""A small body that would become large takes no worker's memory, whether it comes alone or with others at once."""

import gzip
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.durability.processes import workers
from tests.support.live import eventually, live_service

MOST_MB = 350
MOST_GROWTH_MB = 100
AT_ONCE = 8
MANY = 10_000_000
JSON, NDJSON = "application/json", "application/x-ndjson"
WRAPPED = {
    "documents": b'{"documents":[' + b"{}," * MANY + b"{}]}",
    "lists": b'{"documents":[' + b"[]," * MANY + b"[]]}",
    "strings": b'{"documents":[' + b'"ab",' * (MANY // 2) + b"1]}",
    "depth": b'{"documents":' + b"[" * 1_000 + b"]" * 1_000 + b"," * MANY,
    "line": b'{"metadata":{"a":[' + b"{}," * MANY + b"{}]}}\n",
    "lines": b"{}\n" * (MANY // 100),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with live_service(tmp_path_factory.mktemp("bodies"), workers=1) as service:
        with service.session() as session:
            assert session.post(f"{service.url}/collections", json={"name": "own"}).status_code == 201
        yield service


class Memory:
    def __init__(self, service):
        (self._pid,) = workers(service)

    def forget_peak(self):
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")

    @property
    def peak_mb(self):
        return self._read("VmHWM")

    @property
    def now_mb(self):
        return self._read("VmRSS")

    def _read(self, name):
        return int(re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{self._pid}/status").read_text())[1]) >> 10


@pytest.mark.parametrize("kind", WRAPPED)
def test_a_small_gzip_body_takes_no_memory(service, kind):
    body = gzip.compress(WRAPPED[kind])
    assert len(body) < 100_000
    memory = Memory(service)
    before = memory.now_mb
    memory.forget_peak()
    media_type = NDJSON if kind.startswith("line") else JSON
    headers = {"Content-Type": media_type, "Content-Encoding": "gzip"}

    def send(_):
        with service.session() as session:
            return session.post(f"{service.url}/collections/own/documents", data=body, headers=headers, timeout=120)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for answer in pool.map(send, range(AT_ONCE)):
            assert answer.status_code in (400, 413), answer.text
    print(f"{kind}: {len(body)} bytes, {before} MB before, {memory.peak_mb} MB at most, {memory.now_mb} MB after")
    assert memory.peak_mb < MOST_MB
    eventually(lambda: memory.now_mb < before + MOST_GROWTH_MB)


def test_a_body_has_a_limit_of_documents_and_a_stream_has_none(service):
    document = b'{"text":"x","embedding":[1,0]}'
    url = f"{service.url}/collections/own/documents"
    with service.session() as session:
        body = b'{"documents":[' + b",".join([document] * 20_001) + b"]}"
        refused = session.post(url, data=body, headers={"Content-Type": JSON})
        assert (refused.status_code, refused.json()["code"]) == (413, "payload_too_large")
        assert refused.json()["details"] == {"field": "documents", "limit": 20_000}
        streamed = session.post(
            url, data=b"\n".join([document] * 20_001), headers={"Content-Type": NDJSON}, timeout=120
        )
        assert (streamed.status_code // 100, streamed.json()["count"]) == (2, 20_001)
        assert session.get(f"{url}/count").json()["count"] == 20_001
