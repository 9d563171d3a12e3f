"""Writers and readers that remember what they were told, and the checks of what must be true afterwards."""

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import requests

from tests.support.live import PATIENCE_SECONDS, LiveService, chroma_client, eventually
from tests.wrapper.audit.conftest import lines_of

DIMENSION = 16
PAUSE_SECONDS = 0.05
MISSED_BY_INDEX = 0.05
"""The share of documents that a vector index, which is approximate, may fail to find by their own vectors. The vectors of
these tests have seeds, but which of them become neighbours in the graph depends on the order in which writers are served."""
GATHERED_FROM_THE_CATALOGUE = {"scan", "exact"}


def documents(count, *, seed, **metadata):
    """Return `count` new documents with random unit vectors, in the form of a request."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [
        {
            "id": f"d-{uuid.uuid4().hex}",
            "text": f"document {number} of {seed}",
            "metadata": {"number": number, **metadata},
            "embedding": vector.tolist(),
        }
        for number, vector in enumerate(vectors)
    ]


def create(service, name, given=(), **fields):
    """Create a collection with these documents, all of which are in its index."""
    ask(service, "POST", "/collections", json={"name": name, **fields})
    for start in range(0, len(given), 500):
        if not add(service, name, given[start : start + 500], status=None)["indexed"]:
            eventually(lambda: _waiting_writes(service, name) == 0, complaint=service.tail)


def _waiting_writes(service, name):
    return ask(service, "GET", f"/collections/{name}/index")["waiting_writes"]


def add(service, name, given, *, status=201):
    return ask(service, "POST", f"/collections/{name}/documents", json={"documents": given}, status=status)


def ask(service, method, path, *, status=None, **how):
    """Return the answer as JSON; fail when it has another status than this, or is a refusal."""
    with service.session() as session:
        answer = session.request(method, f"{service.url}{path}", timeout=PATIENCE_SECONDS, **how)
    assert answer.status_code == status if status else answer.ok, (answer.status_code, answer.text)
    return answer.json()


def nearest(service, name, vector, top_k=1):
    """Return the ids of the nearest documents, nearest first, and the plan by which they were found."""
    found = ask(service, "POST", f"/collections/{name}/query", json={"query_embedding": vector, "top_k": top_k})
    return [each["id"] for each in found["results"]], found["plan"]


class BruteForce:
    """Finds the nearest of the given documents by computing the cosine for each of them."""

    def __init__(self, given):
        matrix = np.array([document["embedding"] for document in given], dtype=np.float64)
        self._matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        self._ids = [document["id"] for document in given]

    def nearest(self, vector, top_k):
        """Return the ids, nearest first."""
        wanted = np.asarray(vector, dtype=np.float64)
        distances = 1.0 - self._matrix @ (wanted / np.linalg.norm(wanted))
        return [self._ids[index] for index in np.argsort(distances, kind="stable")[:top_k]]


def percentile(seconds, share):
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass
class Writer:
    """One client that adds, replaces, patches and deletes documents of its own, one request after another.

    `kept` is what the service must have, `gone` what it must not have; ids whose last request got no answer are in
    neither. `refused` holds answers that were not a success.
    """

    service: LiveService
    collection: str
    number: int
    batch: int = 5
    read_back: bool = False
    kept: dict[str, dict] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    indexed: int = 0
    stored: int = 0
    step: int = 0
    request_ids: list[str] = field(default_factory=list)
    """The ids of the requests that were acknowledged."""

    def run(self, stopping: threading.Event) -> None:
        """Write until `stopping` is set; a later run continues where this one ended, so that no two documents share a
        vector."""
        generator = np.random.default_rng((self.number, self.step))
        session = self.service.session()
        while not stopping.is_set():
            self.step += 1
            choice = generator.random()
            try:
                if choice < 0.6 or len(self.kept) < self.batch:
                    self._add(session, documents(self.batch, seed=(self.number, self.step), writer=self.number))
                elif choice < 0.8:
                    self._replace(session, generator)
                elif choice < 0.9:
                    self._patch(session, generator)
                else:
                    self._delete(session, generator)
                if self.read_back:
                    self._read_back(session, generator)
            except requests.RequestException:
                session.close()
                stopping.wait(PAUSE_SECONDS)
                session = self.service.session()
        session.close()

    def _send(self, session, method, path, touched, **body):
        """Return whether the write was acknowledged; until it is answered, the state of the documents it touches is
        unknown."""
        self.unanswered.update(touched)
        request_id = uuid.uuid4().hex
        url = f"{self.service.url}/collections/{self.collection}{path}"
        headers = {"X-Request-ID": request_id}
        answer = session.request(method, url, json=body or None, headers=headers, timeout=PATIENCE_SECONDS)
        if answer.status_code not in (200, 201, 202):
            self.refused.append(f"{method} {path}: {answer.status_code} {answer.text}")
            return False
        self.unanswered.difference_update(touched)
        self.stored += 1
        self.request_ids.append(request_id)
        self.indexed += answer.status_code != 202
        return True

    def _add(self, session, batch):
        ids = [document["id"] for document in batch]
        if self._send(session, "POST", "/documents", ids, documents=batch):
            self.kept.update(zip(ids, batch, strict=True))

    def _known(self, generator, number=1):
        return [str(each) for each in generator.choice(sorted(self.kept), size=number, replace=False)]

    def _replace(self, session, generator):
        ids = self._known(generator, 2)
        changed = {f"key{self.step % 7}": self.step}
        batch = documents(2, seed=(self.number, self.step), writer=self.number, **changed)
        for document, document_id in zip(batch, ids, strict=True):
            document["id"] = document_id
            del self.kept[document_id]
        self._add(session, batch)

    def _patch(self, session, generator):
        (document_id,) = self._known(generator)
        before = self.kept.pop(document_id)
        text, patch = f"patched in step {self.step}", {"patched": self.step}
        if self._send(session, "PATCH", f"/documents/{document_id}", [document_id], text=text, metadata=patch):
            metadata = {**before["metadata"], **patch}
            self.kept[document_id] = {**before, "text": text, "metadata": metadata}

    def _delete(self, session, generator):
        (document_id,) = self._known(generator)
        del self.kept[document_id]
        if self._send(session, "DELETE", "/documents", [document_id], ids=[document_id]):
            self.gone.add(document_id)

    def _read_back(self, session, generator):
        """Check that acknowledged documents are found at once: by id, by filter and by their own vectors."""
        if not self.kept:
            return
        (document_id,) = self._known(generator)
        expected = self.kept[document_id]
        base = f"{self.service.url}/collections/{self.collection}"
        read = session.get(f"{base}/documents/{document_id}", timeout=PATIENCE_SECONDS)
        if read.status_code != 200 or read.json()["metadata"] != expected["metadata"]:
            self.violations.append(f"by id: {document_id} {read.status_code} {read.text}")
        query = {"query_embedding": expected["embedding"], "top_k": 1}
        found = session.post(f"{base}/query", json=query, timeout=PATIENCE_SECONDS)
        if found.status_code != 200 or [each["id"] for each in found.json()["results"]] != [document_id]:
            self.violations.append(f"by vector: {document_id} {found.status_code} {found.text[:500]}")
        mine = {"where": {"writer": self.number}, "limit": 1}
        counted = session.post(f"{base}/documents/search", json=mine, timeout=PATIENCE_SECONDS)
        least, most = len(self.kept), len(self.kept) + len(self.unanswered)
        if counted.status_code != 200 or not least <= counted.json()["total"] <= most:
            self.violations.append(f"count: {least}..{most} {counted.status_code} {counted.text[:300]}")


@dataclass
class Reader:
    """One client that asks for documents of a collection that nobody changes: by id, by filter and by vector.

    `latencies` are the seconds of answered requests, `cut` counts requests whose connection ended with a killed
    process, and `violations` holds answers that were wrong. `plans` has for each vector query the engine's process before
    it and after it, and the plan of its answer.
    """

    service: LiveService
    collection: str
    given: list[dict]
    latencies: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    plans: list[tuple[int | None, int | None, str]] = field(default_factory=list)
    cut: int = 0

    def run(self, stopping: threading.Event) -> None:
        session, step = self.service.session(), 0
        while not stopping.is_set():
            step += 1
            document = self.given[step * 7 % len(self.given)]
            try:
                began = time.monotonic()
                found = self._ask(session, step, document)
                self.latencies.append(time.monotonic() - began)
                if found != [document["id"]]:
                    self.violations.append(f"{document['id']}: {found}")
            except requests.RequestException:
                self.cut += 1
                session.close()
                stopping.wait(PAUSE_SECONDS)
                session = self.service.session()
        session.close()

    def _ask(self, session, step, document):
        base = f"{self.service.url}/collections/{self.collection}"
        if step % 3 == 0:
            answer = session.get(f"{base}/documents/{document['id']}", timeout=PATIENCE_SECONDS)
            return [answer.json().get("id")]
        if step % 3 == 1:
            body = {"where": {"number": document["metadata"]["number"]}}
            answer = session.post(f"{base}/documents/search", json=body, timeout=PATIENCE_SECONDS)
            return [each["id"] for each in answer.json().get("documents", ())]
        body, engine = {"query_embedding": document["embedding"], "top_k": 1}, self.service.engine_pid
        answer = session.post(f"{base}/query", json=body, timeout=PATIENCE_SECONDS).json()
        self.plans.append((engine, self.service.engine_pid, answer.get("plan")))
        return [each["id"] for each in answer.get("results", ())]


@contextmanager
def running(targets: Iterable[Callable[[threading.Event], None]]):
    """Run each in a thread for the length of the block; an exception in one of them fails the block."""
    stopping, failures = threading.Event(), []

    def guarded(target):
        try:
            target(stopping)
        except BaseException as error:
            failures.append(error)
            stopping.set()

    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield stopping
    finally:
        stopping.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
        if failures:
            raise failures[0]
    assert not any(thread.is_alive() for thread in threads)


def written(writers, more, stopping, *, complaint=str):
    """Return when these writers together had so many more writes acknowledged; at once when they are `stopping`, because
    one of them failed."""
    before = sum(writer.stored for writer in writers)
    eventually(lambda: stopping.is_set() or sum(each.stored for each in writers) > before + more, complaint=complaint)


def healed(service):
    """Return when the service is healthy, nothing waits for the index and a write reaches it."""
    eventually(lambda: _is_well(service), complaint=service.tail)
    name = f"healed-{uuid.uuid4().hex[:12]}"
    create(service, name, documents(1, seed=1))
    ask(service, "DELETE", f"/collections/{name}")


def _is_well(service):
    try:
        report = requests.get(f"{service.url}/health", timeout=PATIENCE_SECONDS).json()
    except requests.RequestException:
        return False
    return report["status"] == "healthy" and report["index_lag"] == 0


def assert_nothing_is_lost(service, collection, writers, *, queries=60, engine=None):
    """Assert that every acknowledged document is found by filter and comes first for its own vector, and that the
    engine equals the catalogue. The engine is the service's own, or the one to which the Chroma client `engine` is
    connected."""
    kept = {document_id: document for writer in writers for document_id, document in writer.kept.items()}
    gone = set().union(*(writer.gone for writer in writers))
    unanswered = set().union(*(writer.unanswered for writer in writers))
    base = f"{service.url}/collections/{collection}"
    with service.session() as session:
        stored = {document["id"]: document for document in all_documents(base)}
        missing = kept.keys() - stored.keys()
        assert not missing, f"{len(missing)} of {len(kept)} acknowledged documents are lost"
        assert not gone & stored.keys()
        assert stored.keys() - kept.keys() <= unanswered
        for document_id, document in kept.items():
            assert stored[document_id]["text"] == document["text"]
            assert stored[document_id]["metadata"] == document["metadata"]
        for writer in writers:
            found = session.post(f"{base}/documents/search", json={"where": {"writer": writer.number}})
            least = len(writer.kept)
            assert least <= found.json()["total"] <= least + len(writer.unanswered)
        asked = sorted(kept)[:: max(1, len(kept) // queries)]
        missed = [each for each in asked if not _comes_first(session, base, each, kept[each])]
        assert len(missed) <= MISSED_BY_INDEX * len(asked), missed
    assert_engine_equals_catalogue(service, collection, engine)


def assert_each_write_has_its_line(service, writers, *, killed=0):
    """Assert that the audit log has a line for each acknowledged write; `killed` are the workers that may have left half a
    line."""
    recorded = {line["request_id"] for line in lines_of(service.data_dir / "audit", killed=killed)}
    acknowledged = {each for writer in writers for each in writer.request_ids}
    assert acknowledged
    assert acknowledged <= recorded


def _comes_first(session, base, document_id, document):
    """Return whether a document comes first for its own vector. Assert that it does when distances are computed."""
    query = {"query_embedding": document["embedding"], "top_k": 1}
    found = session.post(f"{base}/query", json=query).json()
    if [each["id"] for each in found["results"]] == [document_id]:
        return True
    assert found["plan"].startswith("index"), found
    computed = session.post(f"{base}/query", json=query | {"where": document["metadata"]}).json()
    assert [each["id"] for each in computed["results"]] == [document_id], (found, computed)
    return False


def all_documents(base):
    """Return all documents, without a checked session, which would spend most of its time on pages this large."""
    cursor = None
    with requests.Session() as session:
        while True:
            body = {"limit": 1000, "include": ["embedding"], "cursor": cursor}
            answer = session.post(f"{base}/documents/search", json=body, timeout=PATIENCE_SECONDS)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            yield from page["documents"]
            cursor = page["next_cursor"]
            if cursor is None:
                return


def assert_engine_equals_catalogue(service, collection, engine=None):
    """Assert that Chroma's own client reads exactly the documents that the service answers."""
    stored = {each["id"]: each for each in all_documents(f"{service.url}/collections/{collection}")}
    with nullcontext(engine) if engine is not None else chroma_client(service.data_dir) as engine:
        held = engine.get_collection(collection, embedding_function=None).get(
            include=["documents", "metadatas", "embeddings"]
        )
        names = [each.name for each in engine.list_collections()]
    assert not [name for name in names if name.startswith("rebuild-")]
    assert sorted(held["ids"]) == sorted(stored)
    for number, document_id in enumerate(held["ids"]):
        document = stored[document_id]
        assert held["documents"][number] == document["text"]
        assert held["metadatas"][number] == document["metadata"]
        # Chroma scales cosine vectors back to their length, which costs the last bits.
        assert np.allclose(held["embeddings"][number], document["embedding"], rtol=1e-5, atol=1e-6)
