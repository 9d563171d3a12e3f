"""A small server on loopback that speaks the protocols of reranking services, and answers otherwise on request."""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_TEI_TEXTS = 32


def score(query, text):
    """Return the share of the question's words that a text has."""
    words = set(re.findall(r"\w+", query.lower()))
    return len(words & set(re.findall(r"\w+", text.lower()))) / len(words)


def cohere_answer(body):
    """Answer as Cohere, Jina and vLLM do: best first, under `results`."""
    scored = [
        {"index": index, "relevance_score": score(body["query"], text)} for index, text in enumerate(body["documents"])
    ]
    best = sorted(scored, key=lambda each: -each["relevance_score"])[: body.get("top_n")]
    return 200, {"id": "r-1", "model": body["model"], "results": best, "usage": {"total_tokens": 7}}


def tei_answer(body):
    """Answer as Text Embeddings Inference does: a bare list, best first, and no more texts than it takes."""
    if len(body["texts"]) > MOST_TEI_TEXTS:
        told = f"batch size {len(body['texts'])} > maximum allowed batch size {MOST_TEI_TEXTS}"
        return 422, {"error": told, "error_type": "Validation"}
    scored = [{"index": index, "score": score(body["query"], text)} for index, text in enumerate(body["texts"])]
    return 200, sorted(scored, key=lambda each: -each["score"])


ROUTES = {"/v1/rerank": cohere_answer, "/v2/rerank": cohere_answer, "/rerank": tei_answer}


class RerankServer:
    """First sends the (status, answer) pairs in `script`, then the protocols' own answers. `requests` are the (path,
    authorization, body) that came. While `held` is set, it keeps callers waiting."""

    def __init__(self):
        self.requests, self.script = [], []
        self.held = threading.Event()
        self.over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append((self.path, self.headers.get("Authorization"), body))
                if server.held.is_set():
                    server.over.wait(30)
                    return
                status, answer = server.script.pop(0) if server.script else ROUTES[self.path](body)
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def stop(self):
        self.over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@contextmanager
def rerank_server():
    server = RerankServer()
    try:
        yield server
    finally:
        server.stop()
