"""Contract *context*, over HTTP: the tools, their arguments, and indexing."""

import pytest
from jsonschema import Draft202012Validator

from schemas.settings import RetrievalSettings
from schemas.tool_schemas import read_tool_schemas
from tests.scenarios.context.conftest import HEALTH, INDEX, JACKPOT, RETRY, SEARCH, STATS
from tests.support.contract import Contract
from tests.support.model_server import as_json

pytestmark = pytest.mark.usefixtures("closed_breaker")


class TestTransport:
    """The transport, §2."""

    def test_tools_are_listed_with_their_schemas_and_the_search_with_the_contracts_arguments(self, client):
        listed = client.get("/tools").json["tools"]
        assert [tool["name"] for tool in listed] == [SEARCH, INDEX, HEALTH, STATS]
        for tool in listed:
            assert tool["description"]
            Draft202012Validator.check_schema(tool["inputSchema"])
            Draft202012Validator.check_schema(tool["outputSchema"])
        given = next(tool["inputSchema"] for tool in listed if tool["name"] == SEARCH)
        fields = given["properties"]
        assert given["required"] == ["query"]
        contracts = {"query", "limit", "category", "sessionId", "contentType", "game", "agent", "collections"}
        assert set(fields) == contracts | {"min_relevance", "where"}
        assert (fields["query"]["minLength"], fields["query"]["maxLength"]) == (1, 1000)
        assert (fields["limit"]["minimum"], fields["limit"]["maximum"], fields["limit"]["default"]) == (1, 20, 5)
        assert fields["category"]["enum"] == ["strategy", "bugfix", "architecture", "casino"]
        assert fields["contentType"]["enum"] == ["chat", "decision", "code", "documentation"]

    def test_openapi_says_the_same_of_the_search(self):
        contract = Contract.load()
        for name, tool in (("ContextFound", SEARCH), ("ContextIndexed", INDEX), ("ContextStats", STATS)):
            said = dict(contract.at(("components", "schemas", name)))
            said.pop("examples")
            warnings = contract.at(("components", "schemas", name, "properties", "warnings"))
            said["properties"] = {**said["properties"], "warnings": warnings}
            served = {key: value for key, value in read_tool_schemas(tool).output.items() if key != "$schema"}
            assert said == served

    def test_an_unknown_tool_is_not_found_and_a_call_of_another_tool_or_shape_refused(self, client):
        for send in (client.post, client.get):
            answer = send("/tools/rag_nothing")
            assert (answer.status_code, answer.json["error"]) == (404, "Tool rag_nothing not found")
            assert answer.json["fallback"] is False
        for body, field in (
            ({"name": INDEX, "arguments": {"query": "x"}}, "name"),
            ({"arguments": ["x"]}, "arguments"),
        ):
            answer = client.post(f"/tools/{SEARCH}", json=body)
            assert (answer.status_code, answer.json["details"]["field"]) == (400, field)
        for body in (b"[]", b'"x"', b"7", b"null", b"{"):
            for tool in (SEARCH, HEALTH):
                answer = client.post(f"/tools/{tool}", data=body, content_type="application/json")
                assert (answer.status_code, answer.json["fallback"]) == (400, False), body

    def test_arguments_may_be_named_as_mcp_writes_them_and_be_null_as_csharp_does(
        self, client, call, index, session_id
    ):
        index()
        arguments = {"query": "retry logic", "sessionId": session_id}
        for body in ({"name": SEARCH, "arguments": arguments}, {"arguments": arguments}):
            answer = client.post(f"/tools/{SEARCH}", json=body)
            assert [each["content"] for each in answer.json["results"]] == [RETRY]
        assert client.post(f"/tools/{STATS}", json={"name": STATS, "arguments": None}).status_code == 200
        absent = dict.fromkeys(("category", "contentType", "game", "agent"))
        answer = call(SEARCH, query="retry logic", limit=5, sessionId=session_id, **absent)
        assert [each["content"] for each in answer["results"]] == [RETRY]

    def test_tools_that_only_read_may_be_called_with_get(self, client, index, session_id):
        index()
        asked = {"query": "retry logic", "limit": "1.0", "sessionId": session_id}
        assert len(client.get(f"/tools/{SEARCH}", query_string=asked).json["results"]) == 1
        assert client.get(f"/tools/{STATS}?timeRange=7d").json["timeRange"] == "7d"
        assert client.get(f"/tools/{STATS}?timeRange=2h").status_code == 400
        answer = client.get(f"/tools/{INDEX}?content=x")
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


class TestArguments:
    """The arguments, §4."""

    BLANK = "query must be a text of 1 to 1000 characters that is not blank"

    @pytest.mark.parametrize(
        ("arguments", "field", "sentence"),
        [
            ({}, "query", "query is required"),
            ({"query": None}, "query", "query is required"),
            ({"query": ""}, "query", BLANK),
            ({"query": " \n"}, "query", BLANK),
            ({"query": "x" * 1001}, "query", BLANK),
            ({"query": 7}, "query", BLANK),
            *(({"query": "x", each: 1}, each, None) for each in ("topK", "maxResults", "minScore", "filters")),
            ({"query": "x", "limit": 0}, "limit", "limit must be at least 1"),
            ({"query": "x", "limit": 21}, "limit", "limit must be at most 20"),
            ({"query": "x", "limit": "5"}, "limit", "limit must be an integer"),
            ({"query": "x", "limit": True}, "limit", "limit must be an integer"),
            ({"query": "x", "category": "sports"}, "category", None),
            ({"query": "x", "contentType": "mail"}, "contentType", None),
            ({"query": "x", "game": ["FireKirin"]}, "game", "game must be a string"),
        ],
    )
    def test_a_wrong_argument_of_a_search_is_named_and_the_call_is_not_counted(self, call, arguments, field, sentence):
        before = call(STATS)["totalQueries"]
        answer = call(SEARCH, status=400, **arguments)
        assert answer["details"]["field"] == field
        assert answer["error"] == answer["message"] == (sentence or answer["message"])
        assert answer["fallback"] is False
        assert call(STATS)["totalQueries"] == before
        for limit in (1, 20):
            assert call(SEARCH, query="x" * 1000, limit=limit)["fallbackLevel"] == 1
        assert call(HEALTH)["circuitBreakerOpen"] is False

    @pytest.mark.parametrize(
        ("arguments", "field"),
        [
            ({}, "content"),
            ({"content": "  "}, "content"),
            ({"content": "x", "contentType": "mail"}, "contentType"),
            *(({"content": "x", name: "y"}, name) for name in ("tags", "collection")),
            ({"content": "x", "metadata": []}, "metadata"),
            ({"content": "x", "metadata": {"category": "sports"}}, "metadata.category"),
            ({"content": "x", "metadata": {"tags": ["a", 1]}}, "metadata.tags.1"),
            ({"content": "x", "metadata": {"tags": "a"}}, "metadata.tags"),
        ],
    )
    def test_a_wrong_argument_of_indexing_is_named(self, call, arguments, field):
        assert call(INDEX, status=400, **arguments)["details"]["field"] == field

    @pytest.mark.slow
    def test_the_operator_chooses_the_lists(self, app_of_models):
        own = RetrievalSettings(context_categories=("law", "tax"), context_content_types=("mail",))
        client = app_of_models(chats=False, retrieval=own).test_client()
        search, index, *_ = client.get("/tools").json["tools"]
        assert search["inputSchema"]["properties"]["category"]["enum"] == ["law", "tax"]
        assert index["inputSchema"]["properties"]["metadata"]["properties"]["category"]["enum"] == ["law", "tax"]
        assert index["inputSchema"]["properties"]["contentType"]["enum"] == ["mail"]
        assert client.post(f"/tools/{SEARCH}", json={"query": "x", "category": "casino"}).status_code == 400
        assert client.post(f"/tools/{SEARCH}", json={"query": "x", "category": "law"}).status_code == 200


class TestIndexing:
    def test_the_answer_names_what_was_stored_and_the_same_content_twice_is_one_document(
        self, client, call, index, search
    ):
        before = call(STATS)["totalDocuments"]
        first, second = index(), index()
        assert (first["success"], first["chunksIndexed"]) == (True, 1)
        stored = client.get(f"/collections/rag-context/documents/{first['vectorIds'][0]}").json
        assert (stored["text"], stored["metadata"]["document_id"]) == (RETRY, first["documentId"])
        assert first["vectorIds"] == second["vectorIds"]
        assert first["documentId"] == second["documentId"]
        assert call(STATS)["totalDocuments"] == before + 1
        assert len(search("retry logic")["results"]) == 1

    def test_the_same_content_with_other_metadata_is_updated_and_of_another_session_or_source_another_document(
        self, index, search
    ):
        first = index(metadata={"category": "bugfix"})
        assert index(metadata={"category": "architecture"})["documentId"] == first["documentId"]
        assert [each["metadata"]["category"] for each in search("retry logic")["results"]] == ["architecture"]
        others = {index(sessionId="another")["documentId"], index(source="b")["documentId"]}
        assert len({first["documentId"], *others}) == 3

    @pytest.mark.parametrize(("kind", "at_most"), [("documentation", 512), ("code", 256)])
    def test_long_texts_become_chunks(self, index, client, kind, at_most):
        lines = [f"print('line {number}')" for number in range(400)]
        answer = index("\n".join(lines), contentType=kind)
        assert answer["chunksIndexed"] == len(answer["vectorIds"]) > 1
        where = {"document_id": answer["documentId"]}
        asked = {"where": where, "order_by": "chunk_index", "limit": 100}
        found = client.post("/collections/rag-context/documents/search", json=asked).json["documents"]
        # A token of cl100k_base has a few characters, here about five.
        assert all(len(each["text"]) < at_most * 6 for each in found)
        assert max(len(each["text"]) for each in found) > at_most * 2
        assert all(line in "\n".join(each["text"] for each in found) for line in lines)

    @pytest.mark.slow
    def test_a_failing_embedding_service_is_an_honest_error_and_a_text_that_it_refuses_is_named(
        self, call, index, search, models_up, monkeypatch, session_id
    ):
        models_up.is_down = True
        arguments = {"content": JACKPOT, "sessionId": session_id, "source": "tests"}
        answer = call(INDEX, status=503, **arguments)
        assert answer["fallback"] is True
        assert answer["error"] == answer["message"]
        models_up.is_down = False
        usual = models_up.routes["/v1/embeddings"]
        refuse = lambda body: as_json("No games", 400) if "jackpot" in str(body) else usual(body)  # noqa: E731
        with monkeypatch.context() as patch:
            patch.setitem(models_up.routes, "/v1/embeddings", refuse)
            answer = call(INDEX, status=400, **arguments)
        assert answer["message"].startswith(f"Chunk 1 (“{JACKPOT[:60].rstrip()}…”) cannot be embedded: The embedding")
        assert answer["message"].endswith(": No games; nothing of the document was stored")
        assert search("jackpot")["results"] == []
        assert call(INDEX, **arguments)["success"] is True

    def test_other_metadata_is_kept_and_cannot_replace_the_contracts_fields(self, index, search, session_id):
        """The agent may also be named beside the metadata."""
        forged = {"source": "elsewhere", "document_id": "x", "sessionId": "y", "game": None}
        index(agent="oracle", metadata={"ticket": {"id": 7}, **forged})
        found = search("retry")["results"][0]
        assert (found["source"], found["metadata"]["ticket"]) == ("tests", {"id": 7})
        assert (found["metadata"]["sessionId"], found["metadata"]["agent"]) == (session_id, "oracle")
        assert "game" not in found["metadata"]
