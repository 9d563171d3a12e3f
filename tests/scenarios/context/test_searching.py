"""Contract *context*, over HTTP: results, the fallback chain, statistics and health."""

from datetime import UTC, datetime

import pytest

from retrieval.context.items import UNKNOWN_TIME
from schemas.tool_schemas import read_tool_schemas
from tests.scenarios.context.conftest import HEALTH, INDEX, JACKPOT, RETRY, SEARCH, SIX_KEYS, STATS, THRESHOLD, TIMEOUT
from tests.support.live import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.usefixtures("closed_breaker")


class TestSearching:
    def test_a_result_is_as_the_contract_describes_it(self, index, search, models_up, session_id):
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

    def test_a_score_below_zero_is_zero_and_total_indexed_counts_chunks(self, index, search, models_up):
        models_up.meanings = {"opposite": [1.0, 0.0], "Selenium": [-1.0, 0.0]}
        index(TIMEOUT)
        assert [each["score"] for each in search("opposite")["results"]] == [0.0]
        before = search("anything")["totalIndexed"]
        done = index(" ".join(f"word{number}" for number in range(2000)))
        assert search("anything")["totalIndexed"] == before + done["chunksIndexed"]

    def test_the_best_results_come_first_up_to_the_limit_with_relevance_beside_the_score(
        self, index, search, models_up
    ):
        models_up.meanings = {"asked": [1.0, 0.0], "near": [0.9, 0.4359], "middle": [0.7, 0.7141], "far": [0.5, 0.866]}
        for word in ("far", "near", "middle"):
            index(f"The {word} one.")
        found = [each["content"] for each in search("asked")["results"]]
        assert found == ["The near one.", "The middle one.", "The far one."]
        assert [each["content"] for each in search("asked", limit=2)["results"]] == found[:2]
        for _ in range(2):  # the second time from the cache
            results = search("asked")["results"]
            assert [each["relevance"] for each in results] == pytest.approx([0.9, 0.7, 0.5], abs=1e-3)
        (found,) = search("asked", min_relevance=0.8)["results"]
        assert found["content"] == "The near one."

    @pytest.mark.parametrize("name", ["category", "game", "contentType", "sessionId"])
    def test_filters_select_documents(self, call, session_id, name):
        value, other = {"category": ("casino", "bugfix"), "contentType": ("code", "chat")}.get(
            name, (f"{session_id}-mine", f"{session_id}-yours")
        )
        for content, told in (("wanted", {name: value}), ("unwanted", {name: other}), ("without", {})):
            placed = told if name in ("contentType", "sessionId") else {"metadata": told}
            call(INDEX, content=f"{session_id} {content}", source=session_id, **placed)
        found = call(SEARCH, query=f"{session_id} wanted", limit=20, **{name: value})["results"]
        assert [each["content"] for each in found if session_id in each["content"]] == [f"{session_id} wanted"]

    def test_documents_stored_under_the_other_contracts_are_found_too(self, client, call, models_up, session_id):
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

    def test_the_other_contracts_find_indexed_documents(self, client, call, models_up, session_id):
        models_up.meanings = {session_id: [1.0, 0.0]}
        call(INDEX, content=f"About {session_id}.")
        asked = {"query": session_id, "context_key": "a:b", "min_relevance": 0.99}
        for path, results, text in (
            ("/api/search", "results", "content"),
            ("/api/rag/search", "results", "text"),
            ("/api/rag/retrieve", "document_chunks", "text"),
        ):
            found = client.post(path, json=asked if "retrieve" in path else {"query": session_id}).json[results]
            assert f"About {session_id}." in [each[text] for each in found], path

    def test_the_answer_parses_into_the_classes_of_the_csharp_client(self, call, index, search):
        """When a collection was asked, the answer also holds the receipt, which clients of the contract ignore. To JSON
        Schema 3.0 is an integer, to C# it is none."""
        index()
        answer = search("retry")
        assert set(answer) - {"receipt"} == SIX_KEYS
        for tool, said in ((SEARCH, answer), (STATS, call(STATS))):
            fields = read_tool_schemas(tool).output["properties"]
            integers = {name: said[name] for name, told in fields.items() if told.get("type") == "integer"}
            assert len(integers) >= 2
            assert {type(value) for value in integers.values()} == {int}, integers
        assert all(isinstance(count, int) for count in call(STATS)["queriesByAgent"].values())


class TestFallback:
    """The fallback chain, §5."""

    def test_an_answer_of_level_one_is_not_a_fallback_even_when_it_is_empty(self, index, search):
        for is_found in (False, True):
            answer = search("retry")
            assert bool(answer["results"]) == is_found
            assert (answer["fallback"], answer["fallbackLevel"], answer["circuitBreakerOpen"]) == (False, 1, False)
            index()

    @pytest.mark.slow
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
        levels = {search(f"zebra {number}")["fallbackLevel"] for number in range(THRESHOLD + 1)}
        assert levels == {2}, "it is no failure for the breaker"
        found = [each["content"] for each in search("zebra")["results"]]
        assert found == ["The zebra is an animal of Africa.", "First of all, something else."]


class TestStatistics:
    """The statistics, §6 and RagStats."""

    @pytest.mark.slow
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
        eventually(lambda: search("retry logic")["results"] == first["results"] and hits() > before)
        index(JACKPOT)
        before = hits()
        search("retry logic")
        assert hits() == before

    def test_the_range_is_a_day_by_default_and_one_of_a_list(self, call):
        assert [call(STATS)["timeRange"], call(STATS, timeRange="30d")["timeRange"]] == ["24h", "30d"]
        for wrong in ("2h", "", 24, ["1h"]):
            assert call(STATS, status=400, timeRange=wrong)["details"]["field"] == "timeRange", wrong


class TestHealth:
    @pytest.mark.slow
    def test_health_is_healthy_when_every_part_is_and_one_that_is_down_is_named_with_200(self, call, client, refusing):
        eventually(lambda: call(HEALTH)["healthy"])
        answer = call(HEALTH)
        assert (answer["healthy"], answer["status"], answer["circuitBreakerOpen"]) == (True, "healthy", False)
        parts = [answer[name] for name in ("storage", "vectorStore", "embedding", "textSearch")]
        assert all(part["healthy"] and part["latencyMs"] < 1e3 * PATIENCE_SECONDS for part in parts)
        assert answer["indexedDocuments"] == call(STATS)["totalDocuments"]
        said = client.get("/health").json
        assert (said["healthy"], said["circuitBreakerOpen"]) == (True, False)
        refusing()
        eventually(lambda: not call(HEALTH)["healthy"])
        answer = call(HEALTH)
        assert (answer["healthy"], answer["status"]) == (False, "degraded")
        assert answer["embedding"]["healthy"] is False
        assert answer["embedding"]["error"]
        assert answer["storage"]["healthy"] is True
