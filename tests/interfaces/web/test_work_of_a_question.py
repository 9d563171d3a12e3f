"""What a question costs besides its answer: filters parsed, connections opened, collections looked up, catalogue read, and
embeddings made by several workers."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import schemas.where
from providers.local import LocalProvider
from registry.connections import Connections
from registry.placeholders.resolving import Placeholders
from tests.support.live import PATIENCE_SECONDS, live_service
from wrapper.catalog.catalog import Catalog

ORACLES = ("semantic", "lexical", "persona")
THREADS = (*ORACLES, "collect")
"""What the names of threads begin with that work for requests."""
QUERY = "How long are backups kept?"
NAMES = ("work-backups", "work-coffee", "work-holiday")
TEXTS = ("Backups are kept for thirty days.", "The coffee machine is cleaned every Friday.")


@pytest.fixture(scope="module")
def library(text_collection):
    for name in NAMES:
        text_collection({f"d{number}": (text, {"n": number}) for number, text in enumerate(TEXTS)}, name)


@pytest.fixture
def work(monkeypatch):
    """`with work() as done:` counts by name what is done meanwhile for requests, by whatever thread."""
    done, counting = Counter(), threading.Event()
    asking = threading.current_thread()

    def count(cls, method, name):
        asked = getattr(cls, method)

        def counted(self, *args, **kwargs):
            thread = threading.current_thread()
            if counting.is_set() and (thread is asking or thread.name.startswith(THREADS)):
                done[name(args) if callable(name) else name] += 1
            return asked(self, *args, **kwargs)

        monkeypatch.setattr(cls, method, counted)

    count(schemas.where._Parser, "__init__", "filters parsed")
    count(Connections, "live", lambda args: f"{args[0]} opened")
    count(Placeholders, "resolve", "placeholders resolved")
    count(LocalProvider, "collection", "looked up")
    count(LocalProvider, "collections_named", "looked up")
    count(LocalProvider, "collections", "listed")
    count(Catalog, "read", "catalogue read")

    @contextmanager
    def counting_work():
        done.clear()
        counting.set()
        yield done
        counting.clear()

    return counting_work


@pytest.fixture
def ask(client, library):
    def post(path, **body):
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.json
        return answer.json

    return post


def test_a_search_of_three_collections_does_each_thing_once(ask, work):
    with work() as done:
        found = ask("/api/search", query=QUERY, collections=NAMES, where={"n": 0})
    assert {each["collection"] for each in found["results"]} == {*NAMES}
    assert {each["chunk_id"] for each in found["results"]} == {"d0"}
    assert done == {
        "filters parsed": 1,
        "local opened": 1,
        "default opened": 1,  # it embeds the question
        "placeholders resolved": 2,  # once for each connection
        "looked up": 1,
        "catalogue read": 7,  # a look at the collections, and an answer of each to each of two oracles
    }


def test_collections_of_a_pattern_are_listed_once(ask, work):
    with work() as done:
        found = ask("/api/search", query=QUERY, collections=["work-*"], where={"n": 0})
    assert {each["collection"] for each in found["results"]} == {*NAMES}
    assert (done["filters parsed"], done["local opened"]) == (1, 1)
    assert (done["listed"], done["looked up"], done["catalogue read"]) == (1, 0, 7)


def test_a_retrieval_parses_its_filter_once(ask, work):
    with work() as done:
        ask("/api/rag/retrieve", query=QUERY, context_key="work", collections=NAMES, where={"n": 0}, min_relevance=0)
    # An answer that is kept is looked for first.
    assert (done["filters parsed"], done["local opened"], done["looked up"], done["catalogue read"]) == (1, 1, 1, 5)


def test_what_takes_no_filter_of_the_grammar_parses_none(ask, work):
    with work() as done:
        ask("/api/rag/search", query=QUERY, collections=NAMES, filters={"source": "wiki", "tags": ["a", "b"]})
    assert (done["filters parsed"], done["local opened"], done["looked up"]) == (0, 1, 1)


def test_collecting_parses_no_filter_and_looks_each_collection_up_once(ask, work):
    with work() as done:
        selected = [{"service": "local", "name": name} for name in NAMES]
        ask("/api/collect", userMessage=QUERY, selectedCollections=selected)
    assert (done["filters parsed"], done["looked up"], done["catalogue read"]) == (0, 3, 6)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("collecting")


@pytest.fixture(scope="module")
def service(directory, processes, models):
    """A service of two workers, whose embeddings are the stub's."""
    settings = {"embedding_provider": "openai", "embedding_url": f"{models.url}/v1", "embedding_model": "stub"}
    with live_service(directory, workers=2, **settings) as service:
        yield service


def test_eight_identical_queries_to_two_workers_make_one_embedding_call(service, models):
    with service.session() as session:
        names = [f"collection-{number}" for number in range(5)]
        for name in names:
            session.post(f"{service.url}/collections", json={"name": name}, timeout=PATIENCE_SECONDS)
    selected = [{"service": "local", "name": name} for name in names]

    def ask(_):
        with service.session() as own:
            body = {"userMessage": "the same question", "selectedCollections": selected}
            answer = own.post(f"{service.url}/api/collect", json=body, timeout=PATIENCE_SECONDS)
            return answer.json()["receipt"]["embeddings"]

    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(ask, range(8)))
    asked = [text for each in models.requests for text in each.body["input"]]
    assert asked.count("the same question") == 1  # the health check embeds a text of its own
    assert sum(receipt["generated"] for receipt in receipts) == 1
    assert sum(receipt["reused"] for receipt in receipts) == 8 * 5 - 1


def test_connections_made_through_one_worker_are_known_to_all_and_outlive_a_restart(service, directory):
    made = {"id": "books", "type": "rag", "provider": "chromadb", "config": {"url": "http://127.0.0.1:9"}}
    with service.session() as session:
        assert session.post(f"{service.url}/api/connections", json=made, timeout=PATIENCE_SECONDS).status_code == 201
    for _ in range(8):
        with service.session() as own:
            shown = own.get(f"{service.url}/api/connections/books", timeout=PATIENCE_SECONDS)
            assert shown.status_code == 200
    service.stop()
    with live_service(directory) as again, again.session() as session:
        shown = session.get(f"{again.url}/api/connections/books", timeout=PATIENCE_SECONDS)
        assert shown.json()["config"] == made["config"]
