"""Seed 000, "RAG Context Layer", over HTTP: its tools, schemas, fallback chain and metrics, rule by rule."""

import threading
import uuid
from datetime import UTC, datetime

import pytest
from jsonschema import Draft202012Validator

from retrieval.context.documents import UNKNOWN_TIME
from schemas.settings import RegistrySettings, RetrievalSettings
from schemas.tool_schemas import read_tool_schemas
from tests.support.apps import models_of, running_app
from tests.support.contract import Contract
from tests.support.live import eventually
from tests.support.model_server import Answer

SEARCH, INDEX = "rag_context_search", "rag_context_index"
HEALTH, STATS = "rag_context_health", "rag_context_stats"
SIX_KEYS = {"results", "latency", "fallback", "fallbackLevel", "circuitBreakerOpen", "totalIndexed"}
RETRY = "MongoDB connections should use retry logic with exponential backoff. Max retries: 5."
JACKPOT = "FireKirin jackpot threshold is set at $500. Major jackpot at $250."
TIMEOUT = "Selenium WebDriver timeout should be 30 seconds for page loads."
THRESHOLD = 5

# The classes of seed 000 §8 as a C# client reads them, by the names System.Text.Json finds in camel case.
CSHARP = {
    "RagSearchResult": {
        "results": list,
        "latency": float,
        "fallback": bool,
        "fallbackLevel": int,
        "circuitBreakerOpen": bool,
        "totalIndexed": int,
    },
    "RagStats": {
        "totalDocuments": int,
        "totalQueries": int,
        "avgLatency": float,
        "p95Latency": float,
        "p99Latency": float,
        "cacheHitRate": float,
        "fallbackRate": float,
        "queriesByAgent": dict,
    },
}


def parses(answer, fields):
    """As C# would read it: a double may be written as an integer, an int must be one, and a bool is neither."""
    for name, kind in fields.items():
        value = answer[name]
        wanted = (int, float) if kind is float else kind
        assert isinstance(value, wanted), (name, value)
        assert isinstance(value, bool) == (kind is bool), (name, value)


@pytest.fixture(scope="module")
def served(tmp_path_factory, models):
    """The service with the stub as its embedding service, which no other test disturbs."""
    settings = models_of(models, chats=False)
    with running_app(
        tmp_path_factory.mktemp("context"),
        registry=settings,
        retrieval=RetrievalSettings(breaker_threshold=THRESHOLD, context_vector_seconds=2.0),
    ) as app:
        yield app


@pytest.fixture
def models_up(models):
    yield models
    models.is_down = False
    models.script.clear()
    models.meanings.clear()


@pytest.fixture
def refusing(models):
    """`refusing()`: from now on the embedding service refuses, which nobody tries again as a broken connection."""
    usual = models.routes["/v1/embeddings"]

    def refuse():
        models.routes["/v1/embeddings"] = lambda body: Answer(401, b"{}", {"Content-Type": "application/json"})

    yield refuse
    models.routes["/v1/embeddings"] = usual


@pytest.fixture
def client(served, models_up):
    """Of a service whose breaker is closed."""
    served.extensions["rag.layers"].context.breaker.succeeded()
    return served.test_client()


@pytest.fixture
def call(client):
    """`call(tool, **arguments)`: the answer, which the schema that the tool serves describes."""

    def send(tool, /, *, status=200, **arguments):
        answer = client.post(f"/tools/{tool}", json=arguments)
        assert answer.status_code == status, answer.json
        if status == 200:
            Draft202012Validator(read_tool_schemas(tool).output).validate(answer.json)
        return answer.json

    return send


@pytest.fixture
def session_id():
    return f"s-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def index(call, session_id):
    def send(content=RETRY, **arguments):
        return call(INDEX, content=content, **{"sessionId": session_id, "source": "tests", **arguments})

    return send


@pytest.fixture
def search(call, session_id):
    def send(query, **arguments):
        return call(SEARCH, query=query, **{"sessionId": session_id, **arguments})

    return send


class TestTransport:
    """§2."""

    def test_tools_are_listed_with_their_schemas(self, client):
        listed = client.get("/tools").json["tools"]
        assert [tool["name"] for tool in listed] == [SEARCH, INDEX, HEALTH, STATS]
        for tool in listed:
            assert tool["description"]
            Draft202012Validator.check_schema(tool["inputSchema"])
            Draft202012Validator.check_schema(tool["outputSchema"])

    def test_the_search_takes_what_the_seed_says(self, client):
        listed = client.get("/tools").json["tools"]
        given = next(tool["inputSchema"] for tool in listed if tool["name"] == SEARCH)
        fields = given["properties"]
        assert given["required"] == ["query"]
        assert set(fields) == {"query", "limit", "category", "sessionId", "contentType", "game", "agent", "collections"}
        assert (fields["query"]["minLength"], fields["query"]["maxLength"]) == (1, 1000)
        assert (fields["limit"]["minimum"], fields["limit"]["maximum"], fields["limit"]["default"]) == (1, 20, 5)
        assert fields["category"]["enum"] == ["strategy", "bugfix", "architecture", "casino"]
        assert fields["contentType"]["enum"] == ["chat", "decision", "code", "documentation"]

    def test_the_description_of_the_service_says_the_same(self):
        contract = Contract.load()
        for name, tool in (("ContextFound", SEARCH), ("ContextIndexed", INDEX), ("ContextStats", STATS)):
            said = dict(contract.at(("components", "schemas", name)))
            said.pop("examples")
            warnings = contract.at(("components", "schemas", name, "properties", "warnings"))
            said["properties"] = {**said["properties"], "warnings": warnings}
            served = {key: value for key, value in read_tool_schemas(tool).output.items() if key != "$schema"}
            assert said == served

    def test_a_tool_that_is_not_there(self, client):
        for send in (client.post, client.get):
            answer = send("/tools/rag_nothing")
            assert (answer.status_code, answer.json["error"]) == (404, "Tool rag_nothing not found")
            assert answer.json["fallback"] is False

    def test_the_request_of_the_csharp_client_with_its_nulls(self, call, index, session_id):
        index()
        answer = call(
            SEARCH,
            query="retry logic",
            limit=5,
            category=None,
            sessionId=session_id,
            contentType=None,
            game=None,
            agent=None,
        )
        assert [each["content"] for each in answer["results"]] == [RETRY]

    def test_arguments_by_name_as_mcp_writes_them(self, client, index, session_id):
        index()
        arguments = {"query": "retry logic", "sessionId": session_id}
        for body in ({"name": SEARCH, "arguments": arguments}, {"arguments": arguments}):
            answer = client.post(f"/tools/{SEARCH}", json=body)
            assert [each["content"] for each in answer.json["results"]] == [RETRY]
        assert client.post(f"/tools/{STATS}", json={"name": STATS, "arguments": None}).status_code == 200

    @pytest.mark.parametrize(
        ("body", "field"),
        [({"name": INDEX, "arguments": {"query": "x"}}, "name"), ({"arguments": ["x"]}, "arguments")],
    )
    def test_a_call_of_another_tool_or_shape_is_refused(self, client, body, field):
        answer = client.post(f"/tools/{SEARCH}", json=body)
        assert (answer.status_code, answer.json["details"]["field"]) == (400, field)

    @pytest.mark.parametrize("body", [b"[]", b'"x"', b"7", b"null", b"{"])
    def test_a_body_that_is_no_object_is_refused(self, client, body):
        for tool in (SEARCH, HEALTH):
            answer = client.post(f"/tools/{tool}", data=body, content_type="application/json")
            assert (answer.status_code, answer.json["fallback"]) == (400, False)

    def test_tools_that_read_are_called_with_get_too(self, client, index, session_id):
        index()
        asked = {"query": "retry logic", "limit": "1", "sessionId": session_id}
        assert len(client.get(f"/tools/{SEARCH}", query_string=asked).json["results"]) == 1
        assert client.get(f"/tools/{STATS}?timeRange=7d").json["timeRange"] == "7d"
        assert client.get(f"/tools/{STATS}?timeRange=2h").status_code == 400
        answer = client.get(f"/tools/{INDEX}?content=x")
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")

    def test_health_says_healthy(self, client):
        assert client.get("/health").json["healthy"] is True
        assert client.get("/health").json["circuitBreakerOpen"] is False


class TestArguments:
    """§4."""

    @pytest.mark.parametrize(
        ("arguments", "field", "sentence"),
        [
            ({}, "query", "query is required"),
            ({"query": None}, "query", "query is required"),
            ({"query": ""}, "query", "query must be a text of 1 to 1000 characters that is not blank"),
            ({"query": " \n"}, "query", "query must be a text of 1 to 1000 characters that is not blank"),
            ({"query": "x" * 1001}, "query", "query must be a text of 1 to 1000 characters that is not blank"),
            ({"query": 7}, "query", "query must be a text of 1 to 1000 characters that is not blank"),
            ({"query": "x", "limit": 0}, "limit", "limit must be at least 1"),
            ({"query": "x", "limit": 21}, "limit", "limit must be at most 20"),
            ({"query": "x", "limit": "5"}, "limit", "limit must be an integer"),
            ({"query": "x", "limit": True}, "limit", "limit must be an integer"),
            ({"query": "x", "category": "sports"}, "category", None),
            ({"query": "x", "contentType": "mail"}, "contentType", None),
            ({"query": "x", "game": ["FireKirin"]}, "game", "game must be a string"),
        ],
    )
    def test_a_wrong_argument_of_a_search_is_named_and_counts_for_nothing(self, call, arguments, field, sentence):
        before = call(STATS)["totalQueries"]
        answer = call(SEARCH, status=400, **arguments)
        assert answer["details"]["field"] == field
        assert answer["error"] == answer["message"] == (sentence or answer["message"])
        assert answer["fallback"] is False
        assert call(STATS)["totalQueries"] == before
        assert call(HEALTH)["circuitBreakerOpen"] is False

    def test_limits_of_both_ends_are_taken(self, search):
        assert search("x" * 1000, limit=20)["fallbackLevel"] == 1
        assert search("x", limit=1)["fallbackLevel"] == 1

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [
            ({}, "content"),
            ({"content": "  "}, "content"),
            ({"content": "x", "contentType": "mail"}, "contentType"),
            ({"content": "x", "metadata": []}, "metadata"),
            ({"content": "x", "metadata": {"category": "sports"}}, "metadata.category"),
            ({"content": "x", "metadata": {"tags": ["a", 1]}}, "metadata.tags.1"),
            ({"content": "x", "metadata": {"tags": "a"}}, "metadata.tags"),
        ],
    )
    def test_a_wrong_argument_of_indexing_is_named(self, call, arguments, field):
        assert call(INDEX, status=400, **arguments)["details"]["field"] == field

    def test_the_lists_are_the_operators(self, tmp_path, models):
        settings = RegistrySettings(embedding_provider="openai", embedding_url=f"{models.url}/v1", embedding_model="s")
        own = RetrievalSettings(context_categories=("law", "tax"), context_content_types=("mail",))
        with running_app(tmp_path, registry=settings, retrieval=own) as app:
            client = app.test_client()
            search, index, *_ = client.get("/tools").json["tools"]
            assert search["inputSchema"]["properties"]["category"]["enum"] == ["law", "tax"]
            assert index["inputSchema"]["properties"]["metadata"]["properties"]["category"]["enum"] == ["law", "tax"]
            assert index["inputSchema"]["properties"]["contentType"]["enum"] == ["mail"]
            assert client.post(f"/tools/{SEARCH}", json={"query": "x", "category": "casino"}).status_code == 400
            assert client.post(f"/tools/{SEARCH}", json={"query": "x", "category": "law"}).status_code == 200


class TestIndexing:
    def test_the_answer_names_what_was_stored(self, client, index):
        answer = index()
        assert (answer["success"], answer["chunksIndexed"]) == (True, 1)
        stored = client.get(f"/collections/rag-context/documents/{answer['vectorIds'][0]}").json
        assert (stored["text"], stored["metadata"]["document_id"]) == (RETRY, answer["documentId"])

    def test_the_same_content_twice_is_one_document(self, call, index, search):
        before = call(STATS)["totalDocuments"]
        first, second = index(), index()
        assert first["vectorIds"] == second["vectorIds"]
        assert first["documentId"] == second["documentId"]
        assert call(STATS)["totalDocuments"] == before + 1
        assert len(search("retry logic")["results"]) == 1

    def test_the_same_content_with_other_metadata_is_brought_up_to_date(self, index, search):
        first = index(metadata={"category": "bugfix"})
        assert index(metadata={"category": "architecture"})["documentId"] == first["documentId"]
        assert [each["metadata"]["category"] for each in search("retry logic")["results"]] == ["architecture"]

    def test_another_session_or_source_is_another_document(self, index):
        documents = {index()["documentId"], index(sessionId="another")["documentId"], index(source="b")["documentId"]}
        assert len(documents) == 3

    @pytest.mark.parametrize(("kind", "at_most"), [("documentation", 512), ("code", 256)])
    def test_long_texts_become_chunks(self, index, client, kind, at_most):
        lines = [f"print('line {number}')" for number in range(400)]
        answer = index("\n".join(lines), contentType=kind)
        assert answer["chunksIndexed"] == len(answer["vectorIds"]) > 1
        where = {"document_id": answer["documentId"]}
        asked = {"where": where, "order_by": "chunk_index", "limit": 100}
        found = client.post("/collections/rag-context/documents/search", json=asked).json["documents"]
        # A token of cl100k_base is a few characters, here five or so.
        assert all(len(each["text"]) < at_most * 6 for each in found)
        assert max(len(each["text"]) for each in found) > at_most * 2
        assert all(line in "\n".join(each["text"] for each in found) for line in lines)

    def test_an_embedding_service_that_fails_is_an_honest_error(self, call, index, search, models_up, session_id):
        models_up.is_down = True
        arguments = {"content": JACKPOT, "sessionId": session_id, "source": "tests"}
        answer = call(INDEX, status=503, **arguments)
        assert answer["fallback"] is True
        assert answer["error"] == answer["message"]
        models_up.is_down = False
        assert search("jackpot")["results"] == []
        assert call(INDEX, **arguments)["success"] is True

    def test_the_agent_may_be_named_beside_the_metadata(self, index, search):
        index(agent="oracle", metadata={"tags": ["a"]})
        assert search("retry")["results"][0]["metadata"]["agent"] == "oracle"

    def test_what_metadata_holds_besides_is_kept_and_cannot_pose_as_the_rest(self, index, search, session_id):
        index(metadata={"ticket": {"id": 7}, "source": "elsewhere", "document_id": "x", "sessionId": "y", "game": None})
        found = search("retry")["results"][0]
        assert (found["source"], found["metadata"]["ticket"]) == ("tests", {"id": 7})
        assert found["metadata"]["sessionId"] == session_id
        assert "game" not in found["metadata"]


class TestSearching:
    def test_the_answer_always_has_six_keys(self, search):
        """And the receipt, where a collection was asked, which the seed's clients pass over."""
        assert set(search("anything")) - {"receipt"} == SIX_KEYS

    def test_a_result_is_as_the_seed_describes_it(self, index, search, models_up, session_id):
        models_up.meanings = {"amount": [1.0, 0.0], "FireKirin": [0.8, 0.6]}
        told = {"agent": "ann", "tags": ["jackpot"], "category": "casino", "game": "FireKirin", "decisionId": "D-1"}
        done = index(JACKPOT, contentType="documentation", metadata=told)
        (found,) = search("jackpot amount")["results"]
        assert (found["content"], found["source"]) == (JACKPOT, "tests")
        assert found["score"] == pytest.approx(0.8, abs=1e-3)
        about = {"sessionId": session_id, "contentType": "documentation", "documentId": done["documentId"]}
        [chunk_id] = done["vectorIds"]
        place = {"chunkIndex": 0, "collection": "rag-context", "chunkId": chunk_id}
        assert found["metadata"] == told | about | place
        assert found["timestamp"].endswith("Z")
        age = datetime.now(UTC) - datetime.fromisoformat(found["timestamp"])
        assert -1 < age.total_seconds() < 600

    def test_a_score_below_zero_is_zero(self, index, search, models_up):
        models_up.meanings = {"opposite": [1.0, 0.0], "Selenium": [-1.0, 0.0]}
        index(TIMEOUT)
        assert [each["score"] for each in search("opposite")["results"]] == [0.0]

    def test_the_best_come_first_and_no_more_than_asked_for(self, index, search, models_up):
        models_up.meanings = {"asked": [1.0, 0.0], "near": [0.9, 0.4359], "middle": [0.7, 0.7141], "far": [0.5, 0.866]}
        for word in ("far", "near", "middle"):
            index(f"The {word} one.")
        assert [each["content"] for each in search("asked")["results"]] == [
            "The near one.",
            "The middle one.",
            "The far one.",
        ]
        assert [each["content"] for each in search("asked", limit=2)["results"]] == ["The near one.", "The middle one."]

    @pytest.mark.parametrize(
        ("name", "value", "other"),
        [
            ("category", "casino", "bugfix"),
            ("game", "FireKirin", "OrionStars"),
            ("contentType", "code", "chat"),
            ("sessionId", "mine", "yours"),
        ],
    )
    def test_filters(self, call, session_id, name, value, other):
        top_level = {"contentType", "sessionId"}

        def put(content, given):
            placed = {name: given} if name in top_level else {"metadata": {name: given}}
            call(INDEX, content=f"{session_id} {content}", source=session_id, **placed)

        value, other = (f"{session_id}-{each}" if name in ("game", "sessionId") else each for each in (value, other))
        put("wanted", value)
        put("unwanted", other)
        call(INDEX, content=f"{session_id} without", source=session_id)
        found = call(SEARCH, query=f"{session_id} wanted", limit=20, **{name: value})["results"]
        assert [each["content"] for each in found if session_id in each["content"]] == [f"{session_id} wanted"]

    def test_what_the_other_contracts_stored_is_found_too(self, client, call, models_up, session_id):
        models_up.meanings = {session_id: [1.0, 0.0]}
        document = {"source": "wiki", "path": f"/{session_id}", "title": session_id, "text": "By the other contract."}
        assert client.post("/api/rag/ingest", json=document).status_code == 200
        rule = {"source": "book", "doc_type": "faq", "last_update_date": "2026-01-01"}
        batch = {
            "documents": [{"filename": f"{session_id}.md", "content": f"# {session_id}\n\nA rule.", "metadata": rule}]
        }
        assert client.post("/api/rag/documents:batch", json=batch).status_code == 200
        call(INDEX, content=f"By {session_id}.", source="tools")
        found = call(SEARCH, query=session_id, limit=20)["results"]
        assert {each["source"] for each in found if each["score"] > 0.99} == {"wiki", "book", "tools"}
        assert all(each["timestamp"] != UNKNOWN_TIME for each in found)

    def test_what_is_indexed_the_other_contracts_find(self, client, call, models_up, session_id):
        models_up.meanings = {session_id: [1.0, 0.0]}
        call(INDEX, content=f"About {session_id}.")
        asked = {"query": session_id, "context_key": "a:b", "min_relevance": 0.99}
        found = {
            "search": [
                each["content"] for each in client.post("/api/search", json={"query": session_id}).json["results"]
            ],
            "rag": [
                each["text"] for each in client.post("/api/rag/search", json={"query": session_id}).json["results"]
            ],
            "retrieve": [each["text"] for each in client.post("/api/rag/retrieve", json=asked).json["document_chunks"]],
        }
        assert all(f"About {session_id}." in texts for texts in found.values()), found

    def test_total_indexed_counts_chunks(self, index, search):
        before = search("anything")["totalIndexed"]
        done = index(" ".join(f"word{number}" for number in range(2000)))
        assert search("anything")["totalIndexed"] == before + done["chunksIndexed"]

    def test_the_answer_parses_into_the_classes_of_the_csharp_client(self, call, index, search):
        index()
        parses(search("retry"), CSHARP["RagSearchResult"])
        parses(call(STATS), CSHARP["RagStats"])
        assert all(isinstance(count, int) for count in call(STATS)["queriesByAgent"].values())


class TestFallback:
    """§5."""

    def test_level_one_is_no_fallback(self, index, search):
        index()
        answer = search("retry")
        assert (answer["fallback"], answer["fallbackLevel"], answer["circuitBreakerOpen"]) == (False, 1, False)

    def test_no_result_is_no_failure(self, search):
        answer = search("nothing is indexed here")
        assert (answer["results"], answer["fallback"], answer["fallbackLevel"]) == ([], False, 1)

    def test_level_two_goes_by_words_when_the_embeddings_fail(self, index, search, models_up, refusing):
        index(RETRY)
        index(JACKPOT, metadata={"game": "FireKirin"})
        models_up.is_down = True
        answer = search("exponential backoff")
        assert (answer["fallback"], answer["fallbackLevel"], answer["circuitBreakerOpen"]) == (True, 2, False)
        assert [each["content"] for each in answer["results"]] == [RETRY]
        assert answer["totalIndexed"] > 0
        assert all(0.0 <= each["score"] <= 1.0 for each in answer["results"])
        refusing()
        models_up.is_down = False
        assert [each["content"] for each in search("threshold", game="FireKirin")["results"]] == [JACKPOT]
        assert search("exponential backoff", game="FireKirin")["results"] == []

    def test_level_two_weighs_content_more_than_tags(self, index, search, refusing):
        index("First of all, something else.", metadata={"tags": ["zebra"]})
        index("The zebra is an animal of Africa.", metadata={"tags": ["animals"]})
        for number in range(8):
            index(f"Filler number {number} of this session.")
        refusing()
        found = [each["content"] for each in search("zebra")["results"]]
        assert found == ["The zebra is an animal of Africa.", "First of all, something else."]

    def test_level_two_is_no_failure_for_the_breaker(self, index, search, refusing):
        index()
        refusing()
        levels = [search(f"retry {number}")["fallbackLevel"] for number in range(THRESHOLD + 1)]
        assert levels == [2] * (THRESHOLD + 1)


class TestStatistics:
    """§6 and RagStats."""

    def test_searches_are_counted_by_agent_and_level(self, call, index, search, refusing, session_id):
        index()
        before = call(STATS, timeRange="1h")
        for _ in range(3):
            search("retry", agent=session_id)
        refusing()
        search("backoff", agent=session_id)
        search("backoff again")
        after = call(STATS, timeRange="1h")
        assert after["totalQueries"] == before["totalQueries"] + 5
        assert after["queriesByAgent"][session_id] == 4
        assert after["queriesByAgent"]["unknown"] > before["queriesByAgent"].get("unknown", 0)
        assert after["fallbackRate"] * after["totalQueries"] == pytest.approx(
            before["fallbackRate"] * before["totalQueries"] + 2
        )
        assert 0 < after["avgLatency"] <= after["p99Latency"]
        assert after["p95Latency"] <= after["p99Latency"]

    def test_the_same_question_again_is_a_cache_hit_until_something_is_indexed(self, call, index, search):
        def hits():
            answer = call(STATS)
            return round(answer["cacheHitRate"] * answer["totalQueries"])

        index()
        before = hits()
        first = search("retry logic")
        assert hits() == before
        eventually(lambda: search("retry logic")["results"] == first["results"] and hits() > before, seconds=10)
        index(JACKPOT)
        before = hits()
        search("retry logic")
        assert hits() == before

    @pytest.mark.parametrize("wrong", ["2h", "", 24, ["1h"]])
    def test_another_range_is_refused(self, call, wrong):
        assert call(STATS, status=400, timeRange=wrong)["details"]["field"] == "timeRange"

    def test_the_range_is_a_day_unless_said_otherwise(self, call):
        assert [call(STATS)["timeRange"], call(STATS, timeRange="30d")["timeRange"]] == ["24h", "30d"]

    def test_the_numbers_are_exact_under_parallel_searches(self, call, served, session_id):
        def work():
            client = served.test_client()
            for number in range(25):
                body = {"query": f"question {number % 5}", "sessionId": session_id, "agent": session_id}
                client.post(f"/tools/{SEARCH}", json=body)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert call(STATS)["queriesByAgent"][session_id] == 100


class TestHealth:
    def test_all_is_well(self, call):
        eventually(lambda: call(HEALTH)["healthy"], seconds=10)
        answer = call(HEALTH)
        assert (answer["healthy"], answer["status"], answer["circuitBreakerOpen"]) == (True, "healthy", False)
        parts = [answer[name] for name in ("storage", "vectorStore", "embedding", "textSearch")]
        assert all(part["healthy"] and part["latencyMs"] >= 0 for part in parts)
        assert answer["indexedDocuments"] == call(STATS)["totalDocuments"]

    def test_a_part_that_is_down_is_named_with_200(self, call, refusing):
        refusing()
        eventually(lambda: not call(HEALTH)["healthy"], seconds=10)
        answer = call(HEALTH)
        assert (answer["healthy"], answer["status"]) == (False, "degraded")
        assert answer["embedding"]["healthy"] is False
        assert answer["embedding"]["error"]
        assert answer["storage"]["healthy"] is True


def test_the_service_as_it_is_started_finds_by_meaning(live):
    """With the local model, in the words of the seed's pre-validation (§7)."""
    run = f"preval-test-{uuid.uuid4()}"
    with live.session() as session:
        assert session.get(f"{live.url}/health").json()["healthy"] is True
        for content, category, game in (
            (RETRY, "architecture", None),
            (JACKPOT, "casino", "FireKirin"),
            (TIMEOUT, "architecture", None),
        ):
            body = {
                "content": content,
                "contentType": "documentation",
                "sessionId": run,
                "source": "pre-validation",
                "metadata": {"category": category, "game": game},
            }
            assert session.post(f"{live.url}/tools/{INDEX}", json=body).status_code == 200
        for query, expected, about in (
            ("mongodb retry logic", "exponential backoff", {"category": "architecture"}),
            ("FireKirin jackpot amount", "$500", {"game": "FireKirin"}),
            ("selenium timeout duration", "30 seconds", {"category": "architecture"}),
        ):
            body = {"query": query, "limit": 3, "category": None, "game": None, **about}
            answer = session.post(f"{live.url}/tools/{SEARCH}", json=body).json()
            assert answer["fallbackLevel"] == 1
            assert expected in answer["results"][0]["content"]
