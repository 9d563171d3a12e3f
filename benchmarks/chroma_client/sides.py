"""What one client of Chroma's own does to either server, the same calls for both."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import chromadb
import chromadb.errors
from chromadb.config import Settings

from benchmarks.clients import RefusedError
from benchmarks.data import TOP_K, Corpus, Query, section_id
from benchmarks.processes import proc_value
from interfaces.commands.scratch_service import processes_in
from schemas.errors import RagError

COLLECTION = "benchmark"
TEXTS: list[Any] = ["documents", "metadatas"]
ALL: list[Any] = ["documents", "metadatas", "embeddings"]
MOST_AT_ONCE = 30_000
"""What a stock server gives at once where it cannot give all."""

Call = Callable[[], Any]


def exit_code(run: Callable[[], object]) -> int:
    """Run a benchmark and return its exit code, 1 when it failed, which is told."""
    # Both servers and their directories must go with this process, also when it is ended by SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        run()
    except (RefusedError, RagError, OSError, chromadb.errors.ChromaError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return 1
    return 0


class ClientSide:
    """A server behind chromadb's `HttpClient`."""

    def __init__(self, name: str, url: str, directory: Path) -> None:
        self.name, self.directory = name, directory
        host, _, port = url.removeprefix("http://").partition(":")
        self._client = chromadb.HttpClient(host=host, port=int(port), settings=Settings(anonymized_telemetry=False))
        self._collection = self._client.get_or_create_collection(
            COLLECTION, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )
        self.pids = processes_in(directory)

    def add(self, corpus: Corpus, part: range) -> Call:
        given: dict[str, Any] = {
            "ids": corpus.ids(part),
            "embeddings": corpus.embeddings[part],
            "documents": corpus.texts(part),
            "metadatas": corpus.metadatas(part),
        }
        return lambda: self._collection.add(**given)

    def section(self, number: int) -> Call:
        where: dict[str, Any] = {"section_id": section_id(number)}
        return lambda: self._collection.get(where=where, include=TEXTS)

    def query(self, query: Query, field: str | None) -> Call:
        asked: dict[str, Any] = {"query_embeddings": [query.embedding], "n_results": TOP_K}
        if field is not None:
            asked["where"] = {field: query.filters[field]}
        return lambda: self._collection.query(**asked, include=[*TEXTS, "distances"])

    def with_text(self, condition: Any, limit: int | None) -> Call:
        """Get the documents whose text is so."""
        return lambda: self._collection.get(where_document=condition, limit=limit, include=TEXTS)

    def near_with_text(self, query: Query, condition: Any) -> Call:
        """Query the documents whose text is so."""
        asked: dict[str, Any] = {"query_embeddings": [query.embedding], "n_results": TOP_K}
        return lambda: self._collection.query(**asked, where_document=condition, include=[*TEXTS, "distances"])

    def everything(self, *, with_embeddings: bool) -> int:
        """Get all documents, and return how many requests it took: where a server cannot give all at once, pages."""
        include = ALL if with_embeddings else TEXTS
        try:
            self._collection.get(include=include)
        except chromadb.errors.ChromaError:
            pages = range(0, self._collection.count(), MOST_AT_ONCE)
            for offset in pages:
                self._collection.get(include=include, limit=MOST_AT_ONCE, offset=offset)
            return 1 + len(pages)
        return 1

    def forget_peaks(self) -> None:
        """Let the kernel note anew how much memory each process takes at most."""
        for pid in self.pids:
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    def resident_mb(self, *, peak: bool) -> float:
        """Return the memory of all processes together: now, or the sum of what each took at most since the peaks were
        forgotten."""
        name = "VmHWM" if peak else "VmRSS"
        return sum(float(proc_value(f"/proc/{pid}/status", name).split()[0]) for pid in self.pids) / 1024


def ids_of(answer: Any) -> list[str]:
    """Return the ids of a `get`, or of the only query of a `query`."""
    ids: list[Any] = answer["ids"]
    return ids[0] if ids and isinstance(ids[0], list) else ids
