"""`/api/collect` over HTTP: what is refused, and several workers."""

import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import orjson
import pytest

from tests.support.live import live_service


def test_no_match_is_null_and_a_failure_is_in_the_receipt(client):
    selected = [{"service": "local", "name": "there-is-none"}]
    answer = client.post("/api/collect", json={"userMessage": "hello", "selectedCollections": selected}).json
    assert (answer["result"], answer["data"]) == ("none", None)
    [receipt] = answer["receipt"]["collections"]
    assert (receipt["status"], receipt["error"]) == ("failed", "Collection 'there-is-none' not found")


@pytest.fixture
def embedding_server():
    """(its URL, the texts asked for): OpenAI's protocol on loopback, which waits for eight callers or a while."""
    asked = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                asked.extend(body["input"])
            rows = [{"index": n, "embedding": np.ones(8).tolist()} for n, _ in enumerate(body["input"])]
            content = orjson.dumps({"data": rows})
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_eight_identical_queries_to_two_workers_make_one_embedding_call(tmp_path, processes, embedding_server):
    url, asked = embedding_server
    settings = {"workers": 2, "embedding_provider": "openai", "embedding_url": url, "embedding_model": "stub"}
    with live_service(tmp_path, **settings) as service:
        with service.session() as session:
            names = [f"collection-{number}" for number in range(5)]
            for name in names:
                session.post(f"{service.url}/collections", json={"name": name}, timeout=30)
        selected = [{"service": "local", "name": name} for name in names]

        def ask(_):
            with service.session() as own:
                body = {"userMessage": "the same question", "selectedCollections": selected}
                return own.post(f"{service.url}/api/collect", json=body, timeout=30).json()["receipt"]["embeddings"]

        with ThreadPoolExecutor(8) as pool:
            receipts = list(pool.map(ask, range(8)))
    assert asked.count("the same question") == 1  # the health check embeds a text of its own
    assert sum(receipt["generated"] for receipt in receipts) == 1
    assert sum(receipt["reused"] for receipt in receipts) == 8 * 5 - 1


def test_connections_made_through_one_worker_are_known_to_all_and_outlive_a_restart(tmp_path, processes):
    made = {"id": "books", "type": "rag", "provider": "chromadb", "config": {"url": "http://127.0.0.1:9"}}
    with live_service(tmp_path, workers=2) as service, service.session() as session:
        assert session.post(f"{service.url}/api/connections", json=made, timeout=30).status_code == 201
        for _ in range(8):
            with service.session() as own:
                assert own.get(f"{service.url}/api/connections/books", timeout=30).status_code == 200
    with live_service(tmp_path) as service, service.session() as session:
        assert session.get(f"{service.url}/api/connections/books", timeout=30).json()["config"] == made["config"]
