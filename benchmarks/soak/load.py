"""The clients of a soak, each of which does one kind of work over and over on data that does not grow."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
import requests

DOCUMENTS, BATCH = 4_000, 50
DIMENSION = 128
FILES = 30
TIMEOUT_SECONDS = 120.0
AFTERMATH_SECONDS = 5.0
"""How long after a kill a failure is put down to it."""
TOPICS = ("backups", "travel", "gardens", "rivers", "invoices", "otters", "bridges", "weather")
PAUSE_SECONDS = 0.05


class Outage:
    """The time in which something is killed and comes back. Failures of requests that overlap it are excused."""

    def __init__(self) -> None:
        self._began, self._ended, self._is_now = 0.0, float("-inf"), False

    def __enter__(self) -> None:
        self._began, self._is_now = time.monotonic(), True

    def __exit__(self, *_: object) -> None:
        self._ended, self._is_now = time.monotonic(), False

    def overlaps(self, began: float) -> bool:
        return self._is_now or began < self._ended + AFTERMATH_SECONDS


@dataclass
class Counts:
    done: Counter[str] = field(default_factory=Counter)
    excused: int = 0
    kills: int = 0
    failed: list[str] = field(default_factory=list)


class Load:
    """The work, shared by the clients until `ends_at`."""

    def __init__(self, url: str, outage: Outage, counts: Counts, ends_at: float) -> None:
        self.url, self.outage, self.counts, self._ends_at = url, outage, counts, ends_at
        self._lock = threading.Lock()
        self._acknowledged: dict[str, int] = {}
        self._maybe: dict[str, set[int]] = {}

    def prepare(self) -> None:
        requests.post(f"{self.url}/collections", json={"name": "ring"}, timeout=TIMEOUT_SECONDS).raise_for_status()

    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at

    def ask(self, kind: str, method: str, path: str, **more: Any) -> requests.Response | None:
        """Return the answer, None for a failure that a kill explains."""
        began = time.monotonic()
        try:
            answer = requests.request(method, self.url + path, timeout=TIMEOUT_SECONDS, **more)
            if answer.status_code < 400:
                with self._lock:
                    self.counts.done[kind] += 1
                return answer
            said = f"{kind}: {answer.status_code} {answer.text[:200]}"
        except requests.RequestException as error:
            said = f"{kind}: {error}"
        with self._lock:
            if self.outage.overlaps(began):
                self.counts.excused += 1
            else:
                self.counts.failed.append(said)
        return None

    def write(self, generator: random.Random, version: int) -> None:
        """Write a batch of the ring anew, and remember what was acknowledged."""
        first = generator.randrange(DOCUMENTS // BATCH) * BATCH
        ids = [f"doc-{number}" for number in range(first, first + BATCH)]
        documents = [
            {
                "id": each,
                "text": f"{generator.choice(TOPICS)} {version} " + "words " * 40,
                "metadata": {"version": version, "topic": generator.choice(TOPICS), "batch": first},
                "embedding": [generator.gauss(0, 1) for _ in range(DIMENSION)],
            }
            for each in ids
        ]
        for each in ids:
            self._maybe.setdefault(each, set()).add(version)
        if self.ask("write", "POST", "/collections/ring/documents", json={"documents": documents}) is not None:
            for each in ids:
                self._acknowledged[each], self._maybe[each] = version, set()

    def lost(self) -> list[str]:
        """Return what was acknowledged and is not there, or is older than that."""
        stored = {}
        with requests.get(f"{self.url}/collections/ring/export", stream=True, timeout=TIMEOUT_SECONDS) as export:
            for line in export.iter_lines():
                told = orjson.loads(line)
                if "id" in told:
                    stored[told["id"]] = told["metadata"]["version"]
        return [
            f"{each}: version {version} was acknowledged, {stored.get(each)} is stored"
            for each, version in self._acknowledged.items()
            if stored.get(each) != version and stored.get(each) not in self._maybe[each]
        ]


Client = Callable[[Load, int], None]


def writer(load: Load, number: int) -> None:
    generator, version = random.Random(number), 0
    while not load.is_over():
        version += 1
        load.write(generator, version)
        time.sleep(PAUSE_SECONDS)


def reader(load: Load, number: int) -> None:
    generator = random.Random(number)
    while not load.is_over():
        topic = generator.choice(TOPICS)
        load.ask("filtered page", "GET", f'/collections/ring/documents?where={{"topic":"{topic}"}}&limit=20')
        query = {
            "query_embedding": [generator.gauss(0, 1) for _ in range(DIMENSION)],
            "where": {"topic": topic} if generator.random() < 0.5 else None,
        }
        load.ask("vector query", "POST", "/collections/ring/query", json=query)
        load.ask("words", "POST", "/collections/ring/text-search", json={"query": topic, "top_k": 5})
        time.sleep(PAUSE_SECONDS)


def asker(load: Load, number: int) -> None:
    generator = random.Random(number)
    while not load.is_over():
        question = f"What is said of {generator.choice(TOPICS)} in note {generator.randrange(200)}?"
        load.ask("search", "POST", "/api/search", json={"query": question, "limit": 5})
        load.ask("page", "GET", "/console/ask", params={"q": question}, headers={"Accept": "text/html"})
        chat = {"message": question, "useRag": True, "stream": True, "conversationId": f"soak-{number}"}
        load.ask("chat", "POST", "/api/chat", json=chat)
        if generator.random() < 0.05:
            load.ask("forget chat", "DELETE", f"/api/chat/soak-{number}")
        time.sleep(PAUSE_SECONDS)


def uploader(load: Load, number: int) -> None:
    generator, version = random.Random(number), 0
    while not load.is_over():
        version += 1
        name = f"note-{generator.randrange(FILES)}.md"
        text = f"# {name}\n\n" + "\n\n".join(f"{generator.choice(TOPICS)} of version {version}." for _ in range(12))
        sent = load.ask("upload", "POST", "/api/documents", files={"file": (name, text.encode(), "text/markdown")})
        if sent is not None:
            _follow(load, sent.json()["job"]["id"])
        load.ask("documents", "GET", "/api/documents?limit=20")
        time.sleep(1.0)


def exporter(load: Load, number: int) -> None:
    while not load.is_over():
        with suppress(requests.RequestException):
            load.ask("export", "GET", "/collections/ring/export")
        load.ask("metrics", "GET", "/metrics")
        time.sleep(10.0)


def _follow(load: Load, job_id: str) -> None:
    while not load.is_over():
        job = load.ask("job", "GET", f"/api/jobs/{job_id}")
        if job is not None and job.json()["finished_at"] is not None:
            return
        time.sleep(0.5)


CLIENTS: tuple[Client, ...] = (writer, reader, reader, asker, uploader, exporter)
