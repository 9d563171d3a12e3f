"""Every tool called by the official client, which checks results against the tools' schemas, over both transports."""

import pytest
from jsonschema import Draft202012Validator

from interfaces.commands.local_tools import LocalTools
from interfaces.mcp.server import described
from interfaces.mcp.tools import mcp_tools
from schemas.settings import AccessSettings, RegistrySettings, RetrievalSettings, WrapperSettings
from tests.support.mcp_clients import called, over_http, over_stdio, text_of, within_bounds

OWN = {"rag_query", "rag_context", "rag_gather", "rag_collections"}
READING = OWN | {"rag_context_search", "rag_context_health", "rag_context_stats"}
WRITING = {"session_start", "session_note", "session_end", "rag_context_index"}


@pytest.fixture
def call(stored):
    """`call(tool, **arguments)`: the result of one call by a client of its own."""
    return lambda tool, **arguments: within_bounds(called, over_http(stored.url), tool, arguments)


def test_the_tools_of_a_directory_are_described_before_it_is_opened_as_they_are_after_that(app):
    opened = mcp_tools(app.extensions["rag.layers"])
    settings = (WrapperSettings(), RegistrySettings(), RetrievalSettings(), AccessSettings())
    before = LocalTools(*settings).tools
    assert [described(each) for each in before.values()] == [described(each) for each in opened.values()]


def test_tools_are_listed_with_schemas_titles_and_annotations(connect):
    async def listed():
        async with connect() as client:
            return client.instructions, (await client.list_tools()).tools

    instructions, tools = within_bounds(listed)
    assert "rag_query" in instructions
    by_name = {tool.name: tool for tool in tools}
    assert by_name.keys() == READING | WRITING
    for tool in tools:
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
        assert tool.title
        assert tool.title == tool.annotations.title
        assert tool.description
        assert not tool.annotations.open_world_hint
    assert all(by_name[name].annotations.read_only_hint for name in READING)
    assert not any(by_name[name].annotations.read_only_hint for name in WRITING)
    assert not any(by_name[name].annotations.destructive_hint for name in READING | WRITING)


def test_rag_query_fuses_what_the_oracles_find_and_obeys_its_arguments(call):
    result = call("rag_query", query="How long are backups kept?", limit=2.0)
    found = result.structured_content["results"]
    assert not result.is_error
    assert len(found) <= 2
    assert found[0]["sources"] == ["semantic", "lexical"]
    for said in (found[0]["content"], text_of(result)):
        assert "thirty days" in said
    assert found[0]["chunk_id"] in text_of(result)
    by_words = call("rag_query", query="coffee machine", oracles=["lexical"], collection="rag-documents")
    assert list(by_words.structured_content["receipt"]["oracles"]) == ["lexical"]
    assert "coffee machine" in by_words.structured_content["results"][0]["content"]
    nothing = text_of(call("rag_query", query="zebra", oracles=["lexical"], limit=None))
    assert nothing == "Nothing was found. Asked: rag-documents, rag-rules."


def test_rag_gather_reads_the_section_and_the_document_around_a_result(call):
    [hit] = call("rag_query", query="encrypted", oracles=["lexical"]).structured_content["results"]
    place = {"collection": hit["collection"], "chunk_id": hit["chunk_id"]}
    section, document = call("rag_gather", **place), call("rag_gather", **place, by="document", before=1e1)
    for result in (section, document):
        assert [each["id"] for each in result.structured_content["documents"] if each["hit"]] == [hit["chunk_id"]]
        assert result.structured_content["complete"]
        assert "must be encrypted" in text_of(result)
    assert document.structured_content["key"] == hit["doc_id"]


def test_an_error_of_a_tool_is_its_result_in_one_sentence(call):
    for name, arguments, sentence in (
        ("rag_query", {"query": "  "}, "query is empty: there is nothing to search with"),
        ("rag_query", {"query": "x", "collection": "there-is-none"}, "Collection 'there-is-none' not found"),
        ("session_note", {"note": " "}, "note must not be blank"),
        ("session_end", {"session_id": "no"}, "There is no session 'no'"),
    ):
        result = call(name, **arguments)
        assert (result.is_error, text_of(result), result.structured_content) == (True, sentence, None)


def test_the_command_asks_the_service_that_owns_the_directory_which_lists_its_collections(stored):
    result = within_bounds(called, over_stdio(data_dir=stored.data_dir), "rag_collections")
    counts = {each["name"]: each["count"] for each in result.structured_content["collections"]}
    assert counts["rag-rules"] == 1
    assert "rag-rules: 1 chunks" in text_of(result)


def test_a_session_is_held_by_a_client(call):
    session = {"session_id": call("session_start", name="of a client").structured_content["session_id"]}
    for turn in range(2):
        assert call("session_note", note=f"Turn {turn} is done.", **session).structured_content["note_id"]
    assert call("session_end", **session).structured_content["notes"] == 2
