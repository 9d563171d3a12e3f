"""The two sides of a comparison, this service and a stock `chroma run`, with requests for the same work."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from benchmarks.clients import Connection, RefusedError, Work, request
from benchmarks.data import TOP_K, Documents, Query, section_id

COLLECTION = "benchmark"
PAGE = 50
MOST_AT_ONCE = 30_000
FACETS = ("source", "language", "thou", "half")
POLL_SECONDS = 0.05
START_SECONDS = STOP_SECONDS = 60.0
COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"


class Side(Protocol):
    """A service that is measured.

    `is_settled` says whether all added documents are in the index. `gather` is given the sections of the documents that
    the query finds: a side that needs them for a second request would know them by then. `wait` of `add` says what the
    answer waits for, where a side knows the difference. `ids` reads the answers of any
    work but `add`: the ids, in order, and the exact total where it was requested.
    """

    name: str
    url: str
    directory: Path

    def create(self) -> None: ...
    def is_settled(self) -> bool: ...
    def add(self, corpus: Documents, part: Sequence[int], *, wait: str = "index") -> Work: ...
    def delete_ids(self, ids: Sequence[str]) -> Work: ...
    def section(self, number: int) -> Work: ...
    def half_page(self, value: int) -> Work: ...
    def query(self, query: Query, field: str | None) -> Work: ...
    def gather(self, query: Query, sections: Sequence[str]) -> Work: ...
    def facets(self, documents: int) -> Work: ...
    def ids(self, answers: list[Any]) -> tuple[list[str], int | None]: ...


class OurSide:
    name = "rag-wrapper"

    def __init__(self, url: str, directory: Path) -> None:
        self.url, self.directory = url, directory
        self._documents = f"/collections/{COLLECTION}/documents"

    def create(self) -> None:
        _once(self.url, request("POST", "/collections", {"name": COLLECTION}))

    def is_settled(self) -> bool:
        return bool(_once(self.url, request("GET", "/health"))["index_lag"] == 0)

    def add(self, corpus: Documents, part: Sequence[int], *, wait: str = "index") -> Work:
        columns = zip(
            corpus.ids(part), corpus.texts(part), corpus.metadatas(part), corpus.embeddings[part], strict=True
        )
        documents = [
            {"id": each, "text": text, "metadata": metadata, "embedding": embedding}
            for each, text, metadata, embedding in columns
        ]
        return [request("POST", f"{self._documents}?wait={wait}", {"documents": documents})]

    def delete_ids(self, ids: Sequence[str]) -> Work:
        return [request("DELETE", self._documents, {"ids": ids})]

    def section(self, number: int) -> Work:
        return [self._page({"section_id": section_id(number)}, 100)]

    def half_page(self, value: int) -> Work:
        return [self._page({"half": value}, PAGE)]

    def query(self, query: Query, field: str | None) -> Work:
        body: dict[str, Any] = {"query_embedding": query.embedding, "top_k": TOP_K}
        if field is not None:
            body["where"] = {field: query.filters[field]}
        return [request("POST", f"/collections/{COLLECTION}/query", body)]

    def gather(self, query: Query, sections: Sequence[str]) -> Work:
        gather = {"by": "section_id", "order_by": ["chunk_index"]}
        body = {"query_embedding": query.embedding, "top_k": TOP_K, "gather": gather}
        return [request("POST", f"/collections/{COLLECTION}/query", body)]

    def facets(self, documents: int) -> Work:
        return [request("GET", f"/collections/{COLLECTION}/facets?fields={','.join(FACETS)}")]

    def rebuild(self) -> float:
        """Rebuild the index and return the seconds that it took."""
        index = f"/collections/{COLLECTION}/index"
        started = time.perf_counter()
        before = _once(self.url, request("POST", f"{index}/rebuild", {}))["rebuilds"]
        while _once(self.url, request("GET", index))["rebuilds"] == before:
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - started

    def ids(self, answers: list[Any]) -> tuple[list[str], int | None]:
        (answer,) = answers
        return [each["id"] for each in answer.get("documents") or answer.get("results") or []], answer.get("total")

    def _page(self, where: dict[str, Any], limit: int) -> bytes:
        return request("GET", f"{self._documents}?where={quote(orjson.dumps(where))}&limit={limit}")


class ChromaSide:
    """A stock Chroma server.

    Chroma has no count with a filter: a page with the total takes a second request for the ids of all matches. It has
    no facets either: this side reads the metadata of all documents instead, in pages, because Chroma fails beyond
    `MOST_AT_ONCE`.
    """

    name = "chroma run"

    def __init__(self, url: str, directory: Path) -> None:
        self.url, self.directory = url, directory
        self._collection = ""

    def create(self) -> None:
        body = {"name": COLLECTION, "configuration": {"hnsw": {"space": "cosine"}}, "get_or_create": True}
        self._collection = f"{COLLECTIONS}/{_once(self.url, request('POST', COLLECTIONS, body))['id']}"

    def is_settled(self) -> bool:
        return True

    def add(self, corpus: Documents, part: Sequence[int], *, wait: str = "index") -> Work:
        body = {
            "ids": corpus.ids(part),
            "embeddings": list(corpus.embeddings[part]),
            "documents": corpus.texts(part),
            "metadatas": corpus.metadatas(part),
        }
        return [request("POST", f"{self._collection}/add", body)]

    def delete_ids(self, ids: Sequence[str]) -> Work:
        return [request("POST", f"{self._collection}/delete", {"ids": ids})]

    def section(self, number: int) -> Work:
        return [self._get(where={"section_id": section_id(number)}, include=["documents", "metadatas"])]

    def half_page(self, value: int) -> Work:
        where = {"half": value}
        page = self._get(where=where, limit=PAGE, include=["documents", "metadatas"])
        return [page, self._get(where=where, include=[])]

    def query(self, query: Query, field: str | None) -> Work:
        body: dict[str, Any] = {
            "query_embeddings": [query.embedding],
            "n_results": TOP_K,
            "include": ["documents", "metadatas", "distances"],
        }
        if field is not None:
            body["where"] = {field: query.filters[field]}
        return [request("POST", f"{self._collection}/query", body)]

    def gather(self, query: Query, sections: Sequence[str]) -> Work:
        include = ["documents", "metadatas"]
        gets = [self._get(where={"section_id": section}, include=include) for section in sections]
        return [*self.query(query, None), *gets]

    def facets(self, documents: int) -> Work:
        pages = range(0, documents, MOST_AT_ONCE)
        return [self._get(limit=MOST_AT_ONCE, offset=offset, include=["metadatas"]) for offset in pages]

    def ids(self, answers: list[Any]) -> tuple[list[str], int | None]:
        found = answers[0]["ids"]
        if found and isinstance(found[0], list):
            found = found[0]
        return found, len(answers[1]["ids"]) if len(answers) > 1 else None

    def _get(self, **body: Any) -> bytes:
        return request("POST", f"{self._collection}/get", body)


@contextmanager
def chroma_run(directory: Path, *, wait: bool = True) -> Iterator[str]:
    """Run a stock Chroma server on a directory and a free port, as `chroma run` starts it, and yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    chroma = Path(sys.executable).with_name("chroma")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CHROMA_", "OTEL_"))}
    with (directory / "chroma.log").open("wb") as log:
        process = subprocess.Popen(
            [str(chroma), "run", "--path", str(directory / "data"), "--host", "127.0.0.1", "--port", str(port)],
            env={**environ, "ANONYMIZED_TELEMETRY": "False", "DO_NOT_TRACK": "1"},
            cwd=directory,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        if wait:
            _wait_until_up(url, process)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RefusedError(f"chroma run ended with code {process.returncode}")
        try:
            _once(url, request("GET", "/api/v2/heartbeat"))
            return
        except OSError:
            time.sleep(0.1)
    raise RefusedError("chroma run does not answer")


def _once(url: str, content: bytes) -> Any:
    connection = Connection(url)
    try:
        return connection.call(content)
    finally:
        connection.close()
