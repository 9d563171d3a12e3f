"""Answers within what clients take, and arguments and lines as language models and their clients write them."""

import orjson
import pytest

from interfaces.mcp.bounds import BYTES_OF_TOKEN, MAX_TOKENS, around_hit, bounded, unquoted
from interfaces.mcp.messages import ids_of
from interfaces.mcp.texts import readable
from schemas.configuration import faults
from schemas.records import Document, Group
from schemas.tool_schemas import read_tool_schemas
from schemas.wire.search import gathered_group

MOST = MAX_TOKENS * BYTES_OF_TOKEN
RECEIPT = {"oracles": {}, "fusion": "rrf", "collections": {}}
HIT = {"doc_id": "d", "collection": "c", "chunk_id": "i", "relevance": 0.5, "provenance": {}, "metadata": {}}
LISTED = {"count": 1, "metric": "cosine", "dimension": 2, "metadata": {"of": "x" * 200}}
LARGE = {
    "rag_query": {"results": [HIT | {"content": "日本語 " * 2_000} for _ in range(100)], "receipt": RECEIPT},
    "rag_collections": {"collections": [LISTED | {"name": f"c{number:04}"} for number in range(1_000)]},
    "rag_context": {"context": "one line\n" * 9_000, "sources": [{"title": "x" * 99}] * 900, "receipt": RECEIPT},
    "rag_context_search": {"results": [{"content": "x" * 4_000} for _ in range(20)]},
}


@pytest.mark.parametrize("name", LARGE)
def test_an_answer_is_bounded_and_says_how_to_go_on(name):
    found = bounded(name, LARGE[name])
    assert len(orjson.dumps(found)) <= MOST
    assert len(readable(name, found).encode()) <= MOST * 1.1
    assert found["warnings"]
    assert found["warnings"][-1] in readable(name, found)
    small = {**LARGE[name], **{field: value[:1] for field, value in LARGE[name].items() if isinstance(value, list)}}
    assert bounded(name, small, 100_000) == small
    if name == "rag_collections":
        assert f"after {found['collections'][-1]['name']} lists on" in found["warnings"][-1]


@pytest.mark.parametrize(("hit", "first", "last"), [(0, 1, 30), (500, 486, 515), (999, 971, 1000)])
def test_what_is_nearest_to_a_result_is_gathered_with_where_to_read_on(hit, first, last):
    documents = [Document(f"id{number}", "word " * 20, '{"page": 1, "source": "a"}', number) for number in range(1_000)]
    group = Group("k", 1, documents, tuple(range(1, 1_001)), frozenset({f"id{hit}"}), 1_000)
    found, said = around_hit(group, 2_200)
    assert (found.places[0], found.places[-1]) == pytest.approx((first, last), abs=1)
    assert ("reads on" in said[0], "before 100" in said[0]) == (hit < 999, hit > 0)
    told = gathered_group("c", "document", found, said)
    assert not faults(told, read_tool_schemas("rag_gather").output)
    assert len(orjson.dumps(told)) <= 2_200 * BYTES_OF_TOKEN * 1.1
    long = Document("id", "日本 " * 20_000, "{}", 2)
    found, said = around_hit(Group("k", 1, [documents[1], long], (1, 2), frozenset({"id"}), 2), 1_000)
    assert (len(found.text.encode()) <= 3_010, found.places, "max_tokens" in said[0]) == (True, (2,), True)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"limit": "3", "min_relevance": " 0.5"}, {"limit": 3, "min_relevance": 0.5}),
        (
            {"collections": '["a", "b"]', "where": '{"kind": "pdf"}'},
            {"collections": ["a", "b"], "where": {"kind": "pdf"}},
        ),
        ({"collections": "abc", "query": "3"}, {"collections": ["abc"], "query": "3"}),
        ({"limit": "three"}, "limit must be an integer"),
        ({"limit": "true"}, "limit must be an integer"),
        ({"where": "kind=pdf"}, "where must be an object"),
        ({"collections": []}, "without it all text collections are asked"),
        ({"oracles": []}, "oracles must name at least one"),
    ],
)
def test_arguments_in_quotes_are_taken_and_others_refused_with_what_to_do(given, taken):
    schema = read_tool_schemas("rag_query").input
    found = unquoted({"query": "x", **given}, schema)
    said = [each.message for each in faults(found, schema)]
    assert found == {"query": "x", **taken} if isinstance(taken, dict) else taken in said[0]


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":9', [7]),
        (b'{"method":"x","params":{"id":9,"t":"\\"id\\":3"},"id":"a"', ["a"]),
        (b'{"id": 4, "t": "unfinished \\', [4]),
        (b'{"t":"\\ud83d","id":5}\r\n', [5]),
        (b'[{"id":1,"method":"x"},{"method":"n"},{"id":"z"}]', [1, "z"]),
        *((each, [None]) for each in (b'{"id": 1.5, "x"', b'{"id":"\xff"', b"not json", b"[]", b'[{"id":1},')),
    ],
)
def test_what_is_nearly_a_message_has_its_id(line, ids):
    assert ids_of(line) == ids
