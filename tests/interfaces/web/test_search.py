"""`/api/search` over HTTP, with the embeddings of the service itself. What a question costs besides its answer: filters
parsed, connections opened, collections looked up, catalogue read, and embeddings made by several workers."""

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

HANDBOOK = {
    "backups": "Backups are kept for thirty days and encrypted at rest.",
    "restore": "Call restoreArchive() to bring back what was saved last night.",
    "coffee": "The coffee machine on the second floor is cleaned every Friday.",
    "holiday": "Employees have thirty days of holiday.",
}
OF_ANOTHER = "Collection '{}' holds embeddings of 'another', the query's would be of 'all-MiniLM-L6-v2'"


@pytest.fixture(scope="module")
def handbook(text_collection):
    return text_collection({name: (text, {"section": name[0], "lang": "en"}) for name, text in HANDBOOK.items()})


@pytest.fixture
def search(client, handbook):
    def ask(query, **more):
        answer = client.post("/api/search", json={"query": query, "collection": handbook, **more})
        assert answer.status_code == 200, answer.json
        return answer.json

    return ask


@pytest.fixture(scope="module")
def thai(text_collection):
    texts = {"backups": "สำรองข้อมูลทุกคืนเวลาตีสอง", "travel": "การเดินทางโดยรถไฟต้องได้รับอนุมัติ"}
    return text_collection({name: (text, {}) for name, text in texts.items()})


def ids(answer):
    return [each["doc_id"] for each in answer["results"]]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/rag/search", {}),
        ("/api/rag/retrieve", {"context_key": "a:b", "min_relevance": 0}),
        ("/tools/rag_context_search", {}),
    ],
)
def test_a_collection_that_could_not_be_asked_is_told_from_those_that_were(client, handbook, filled, path, asked):
    strange = filled([{"text": "Backups", "embedding": [1, 0]}], metadata={"embedding_model": "another"})
    body = {"query": "How long do we keep backups?", "collections": [strange, handbook], **asked}
    answers = [client.post(path, json=body).json for _ in range(2)]
    for answer in answers:
        told = answer["receipt"]["collections"]
        assert told == {
            handbook: {"status": "asked"},
            strange: {"status": "left_out", "reason": OF_ANOTHER.format(strange)},
        }
    # Nor is the answer cached: the collection may be available the next time.
    assert "context_id" not in answers[0] or answers[0]["context_id"] != answers[1]["context_id"]
    if not path.startswith("/tools/"):  # which has the words to go by
        alone = client.post(path, json=body | {"collections": [strange]})
        assert (alone.status_code, alone.json["code"]) == (409, "embedding_mismatch")
        assert alone.json["message"] == OF_ANOTHER.format(strange)


def test_null_equals_absent(search):
    nothing = dict.fromkeys(["limit", "oracles", "weights", "where", "explain", "gather"])
    for absent in ({}, nothing, {"weights": {"semantic": None}}):
        assert ids(search("coffee", **absent)) == ["coffee"], absent


def test_options_reach_the_engine(search):
    assert ids(search("restore archive", oracles=["lexical"])) == ["restore"]
    assert ids(search("thirty days", limit=1, oracles="lexical", where={"section": "h"})) == ["holiday"]
    answer = search(
        "thirty days", limit=1, explain=["coffee", "nobody"], gather={"by": "lang", "order_by": ["section"]}
    )
    assert [each["doc_id"] for each in answer["explanations"]] == ["coffee", "nobody"]
    [group] = answer["groups"]
    assert (group["key"], group["rank"], group["total"], group["complete"]) == ("en", 1, 4, True)
    assert [each["id"] for each in group["documents"] if each["hit"]] == ids(answer)
    assert "explanations" not in search("coffee")


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"collection": "there-is-none"}, "collection_not_found", "collections"),
        ({"collections": ["*", "there-is-none"]}, "collection_not_found", "collections"),
        ({"rerank": ""}, "connection_not_found", "rerank"),
    ],
)
def test_what_is_not_there_is_refused_by_field(client, change, code, field):
    answer = client.post("/api/search", json={"query": "hello", **change})
    assert (answer.status_code, answer.json["code"], answer.json["details"]["field"]) == (404, code, field)


def test_a_refusal_tells_the_place_of_what_is_missing_and_the_names_that_there_are(client, handbook):
    answer = client.post("/api/search", json={"query": "hello", "collections": ["a*", handbook, "there-is-none"]})
    assert answer.json["details"] == {"collection": "there-is-none", "field": "collections", "index": 2}
    answer = client.post("/api/search", json={"query": "hello", "oracles": ["psychic"]}).json
    assert (answer["code"], answer["details"]["allowed"]) == ("unknown_oracle", ["semantic", "lexical", "persona"])


def test_a_collection_of_other_vectors_is_still_found_by_words(client, filled):
    name = filled([{"id": "a", "text": "about zebras", "embedding": [1.0, 2.0]}])
    answer = client.post("/api/search", json={"query": "zebras", "collection": name}).json
    assert ids(answer) == ["a"]
    assert answer["receipt"]["oracles"]["semantic"]["status"] == "failed"
    alone = client.post("/api/search", json={"query": "zebras", "collection": name, "oracles": ["semantic"]})
    assert (alone.status_code, alone.json["code"]) == (409, "embedding_mismatch")


def test_a_question_that_the_model_cannot_read_is_answered_by_words_alone(search, thai):
    """All texts of a script without a known letter have the same vector: nearness says nothing there."""
    for nonsense in ("🎉", "∑∫∂", "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ", "x" * 200):
        for fields in ({}, {"min_relevance": 0.5}, {"min_relevance": 0}, {"oracles": ["semantic"]}):
            assert search(nonsense, collection=thai, **fields)["results"] == [], (nonsense, fields)
    answer = search("สำรองข้อมูลเมื่อไร", collection=thai)
    assert answer["results"][0]["doc_id"] == "backups"
    assert {(*each["sources"], each["relevance"]) for each in answer["results"]} == {("lexical", None)}
    assert "cannot read the question" in answer["receipt"]["oracles"]["semantic"]["left_out"][thai]


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
