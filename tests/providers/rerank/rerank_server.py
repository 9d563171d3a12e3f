"""A small server on loopback that speaks the protocols of reranking services, and answers otherwise on request."""

import re
import threading
from contextlib import contextmanager

from tests.support.http_stub import running
from tests.support.live import PATIENCE_SECONDS

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
        self.url = ""

    def answer(self, method, target, headers, body):
        self.requests.append((target, headers.get("Authorization"), body))
        if self.held.is_set():
            self.over.wait(PATIENCE_SECONDS)
            return None
        status, answer = self.script.pop(0) if self.script else ROUTES[target](body)
        return status, {}, answer


@contextmanager
def rerank_server():
    with running(RerankServer()) as server:
        yield server
        server.over.set()
