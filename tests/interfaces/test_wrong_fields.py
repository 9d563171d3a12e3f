"""Every face of the service says in its own words which field of a request is wrong, and does nothing of it."""

import uuid

import pytest

from tests.interfaces.chroma.test_collections import nested

pytestmark = pytest.mark.slow

CHROMA = "/api/v2/tenants/default_tenant"
STATIC = "chunking_strategy.static.max_chunk_size_tokens"
NO_MODELS = ["", " ", "x" * 257, "line\nbreak", 7]
NO_NUMBERS = ["", "-1", "x", "1.5", str(2**31)]
TEXT = {"id": "a", "text": "a"}
SELECTED = {"service": "local", "name": "docs"}
REPORT = {"instance": "a:1", "state": "watching", "collection": "docs"}
EQUAL = {"type": "eq", "key": "n", "value": 1}
FAILURE = {"path": "a", "reason": "b"}


class Changes(dict):
    """What takes the place of several fields of a request, or of one that is not the field that is named."""


def all_of(depth):
    """Return a filter of OpenAI's protocol with that many levels."""
    inner = EQUAL
    for level in range(depth):
        inner = {"type": ("and", "or")[level % 2], "filters": [inner]}
    return inner


def said(role, content):
    return Changes(messages=[{"role": role, "content": content}])


def tool(**fields):
    return Changes(tools=[{"type": "file_search", **fields}])


def filtered(operator, value):
    return tool(filters={"type": operator, "key": "a", "value": value})


def second(**document):
    """Return documents of which the second is this one."""
    return Changes(documents=[TEXT, document])


def where(**operator):
    """Return the condition on one name of metadata that Dify would send."""
    return Changes(metadata_condition={"conditions": [{"name": "a", **operator}]})


OF_INDEX = {"hnsw:space": "bogus", "hnsw:metric": "ip", "hnsw:M": 1.5, "hnsw": {"space": "ip"}}
SPARSE = {"sparse_vector_index": {"enabled": True}}
COLLECTIONS = f"{CHROMA}/databases/default_database/collections"
WRONG = {
    "POST /api/search": {
        "query": [None, ["x"], ""],
        "limit": [0, 101, "3"],
        "oracles": [["psychic"], []],
        "weights.lexical": ["2", -1],
        "weights": [[1]],
        "where": [{"a": {"$near": 1}}, "x"],
        "collection": [[], 7],
        "explain": [7],
        "gather.by": [None],
    },
    "POST /api/collect": {
        "userMessage": [None, 7, "  "],
        "selectedCollections": [None, "docs", [SELECTED] * 101],
        "selectedCollections.0.name": [Changes(selectedCollections=[{"service": "local"}])],
        "selectedCollections.0.embedding_model": [
            Changes(selectedCollections=[{**SELECTED, "embedding_model": model}]) for model in NO_MODELS
        ],
        "selectedCollections.0": [Changes(selectedCollections=["docs"])],
        "top_k": [0, "3"],
        "match_threshold": ["0.3"],
        "topic": [["x"]],
        "conversationId": [""],
    },
    "POST /api/chat": {
        "model": NO_MODELS,
        "conversationId": [".", "..", "a/../b", "./a", "a\nb", "\0", "x" * 201, " "],  # no path could have them
    },
    "PUT /api/watchers/never": {
        "instance": ["", None],
        "state": ["lost"],
        "at": ["yesterday", "2026-11-22T08:30:00Z\n"],
        "files": [-1],
        "stored": ["3"],
        "failures.1.path": [Changes(failures=[FAILURE, {"path": 3, "reason": "b"}])],
        "failures": [[FAILURE] * 21],
        "reason": ["x" * 1_001],
    },
    "POST /rerank": {
        "query": [None, " ", "x" * 2_001],
        "documents": [None, [], "texts", [TEXT] * 1_001, [TEXT] * 10_000, [{**TEXT, "text": "word " * 200_001}]],
        "documents.0": [Changes(documents=["text"])],
        "documents.1": [Changes(documents=[TEXT, None])],
        "documents.1.id": [second(text="a", **each) for each in ({}, {"id": 7}, {"id": ""}, {"id": "a" * 513})],
        "documents.1.text": [second(id="a", **each) for each in ({}, {"text": ""}, {"text": "\t\n"}, {"text": None})],
        "top_k": [0, 1_001, "all"],
        "connection": [7],
    },
    "GET /api/documents": {
        "limit": ["0", "x"],
        "cursor": ["nonsense", "W10"],
        "source": [" "],
        "tag": [""],
        "kid": ["pdf"],
        "collection": [".."],
        "collections": [Changes(collection="a*", collections="b*")],
    },
    "POST /api/judgements": {
        "grade": [2, None],
        "question": [" ", "x" * 2_001],
        "document_id": [""],
        "collection": ["no such"],
    },
    "POST /api/bench": {
        "query_set": ["x"],
        "query_set.qrels": [Changes(query_set={"queries": "x"}), Changes(query_set={"queries": "x", "qrels": 1})],
        "query_set.corpus": [Changes(query_set={"queries": "x", "qrels": "x", "corpus": "x"})],
    },
    "GET /api/jobs": {"status": ["ended"], "limit": ["0"], "cursor": ["x"], "stauts": ["done"]},
    "GET /api/connections": {"limit": ["0", "1001", "x"], "cursor": [" "]},
    "GET /api/connections/health": {"limit": ["0", "1001", "x"], "cursor": [" "]},
    "POST /dify/retrieval": {
        **{"query": [7, None, " "], "knowledge_id": [None]},
        "retrieval_setting.top_k": [0],
        "retrieval_setting.score_threshold": [2],
        "metadata_condition.logical_operator": [Changes(metadata_condition={"logical_operator": "xor"})],
        "metadata_condition.conditions.0.comparison_operator": [where(), where(comparison_operator="like")],
        "metadata_condition.conditions.0.name": [where(name=each) for each in ("$id", "Chroma:document", ["a", "#x"])],
        "metadata_condition.conditions.0.value": [
            where(comparison_operator="is"),
            *(where(comparison_operator="before", value=each) for each in ("20251332", "2025", "1_000")),
            *(where(comparison_operator=how, value=each) for how in "=≠>" for each in ("x", "NaN", "1,0", "١", True)),
        ],
        **{each: [1] for each in ("condition", "filters", "top_k", "score_treshold", "collections", "min_score")},
        **{f"retrieval_setting.{each}": [1] for each in ("score_treshold", "conditions")},
    },
    f"GET {CHROMA}/databases": {"limit": NO_NUMBERS, "offset": NO_NUMBERS},
    f"GET {COLLECTIONS}": {"limit": NO_NUMBERS, "offset": NO_NUMBERS},
    f"POST {COLLECTIONS}": {
        "name": ["x", None],
        "metadata": [{"a": None}, [], {}],
        **{f"metadata.{key}": [Changes(metadata={key: value})] for key, value in OF_INDEX.items()},
        "configuration.hnsw.space": ["COSINE"],
        "configuration.hnsw.bogus": [1],
        "configuration.hnsw.ef_search": [-7],
        "configuration.spann.search_nprobe": ["3"],
        "configuration.embedding_function.type": ["foo"],
        **{f"configuration.{each}": [7] for each in ("hnsw", "spann", "embedding_function")},
        "configuration": [
            7,
            {"hnsw": {}, "spann": {}},
            {"embedding_function": {"type": "known", "name": "a", "config": nested(40)}},
            {"embedding_function": {"type": "known", "name": "a", "config": "x" * 70_000}},
            Changes(schema={"keys": {"k": nested(250)}}),
        ],
        "schema": [7, *({"keys": {"k": each}} for each in (7, {"sparse_vector": SPARSE}))],
        "get_or_create": ["yes"],
    },
    "PUT {records}": {
        "new_configuration": [{"hnsw": {}, "spann": {}}],
        "new_configuration.spann.space": ["l2"],
        "new_metadata.hnsw:space": [Changes(new_metadata={"hnsw:space": "ip"})],
    },
    "POST {records}/add": {
        "embeddings": [None, [None], [[1, 0], [1, 1]], [[1, True]]],
        "embedding": [Changes(embeddings=[[1, 0, 0]])],
        "ids": [[""], "x", None],
        "documents": [[7], ["a", "b"]],
        "metadatas": [[[]], [{"k": None}]],
        "uri": [Changes(uris=[7])],
    },
    "POST {records}/get": {
        "where": [{"k": {"$bogus": 1}}, {"#document": {"$gt": 1}}, {"#foo": 1}],
        "where_document": [{"$bogus": "x"}, {"$contains": 7}, {"$regex": "("}, {"$regex": "(?=x)"}, {"$and": []}],
        "include": [["bogus"]],
        "limit": [-1],
        "offset": ["1"],
        "ids": [[7]],
    },
    "POST /v1/embeddings": {
        "input": ["", [], ["x", " "], ["x", 7], {"text": "x"}, ["x"] * 2_049, None],
        "model": [None, 7],
        "encoding_format": ["hex"],
        "dimensions": [0, 256],
        "dimension": [3],
    },
    "POST /v1/vector_stores": {
        "name": [3, "x" * 513],
        "metadata": [{"k": 1}, {"k" * 65: "v"}, {str(each): "v" for each in range(17)}],
        "expires_after.days": [Changes(expires_after={"anchor": "last_active_at", "days": 0})],
        "expires_after.anchor": [Changes(expires_after={"days": 1, **more}) for more in ({}, {"anchor": "created_at"})],
        "chunking_strategy": [{"type": "other"}],
        "file_ids": ["x", [str(each) for each in range(2_001)]],
        "expires_after.day": [Changes(expires_after={"anchor": "last_active_at", "day": 1})],
        "file_id": ["x"],
    },
    "GET /v1/vector_stores": {"limit": ["0", "101"], "order": ["up"], "after": ["x"], "before": ["x"]},
    "GET /v1/vector_stores/{store}/files": {"limit": ["0", "101"], "order": ["up"], "after": ["x"], "before": ["x"]},
    "POST /v1/vector_stores/{store}/files": {
        "file_id": [None],
        "attributes": [{"k": ["x"]}, {str(each): 1 for each in range(17)}],
        STATIC: [Changes(chunking_strategy={"type": "static"})],
        "chunking_strategy.max_tokens": [Changes(chunking_strategy={"type": "auto", "max_tokens": 100})],
        "attribute": [{"k": 1}],
        "vector_store_id": ["another"],
    },
    "POST /v1/vector_stores/{store}/file_batches": {
        "file_ids": [None, Changes(file_ids=["a"], files=[{"file_id": "a"}])],
        "files.0.file_id": [Changes(files=[{"attributes": {}}])],
        "attributes": [Changes(file_ids=None, files=[{"file_id": "a"}], attributes={"lang": "en"})],
    },
    "POST /v1/vector_stores/{store}/search": {
        "query": [None, "", [], ["x"] * 11],
        "max_num_results": [51],
        "filters.value": [Changes(filters=EQUAL | {"value": {"a": 1}})],
        "filters.negate": [Changes(filters=EQUAL | {"negate": True})],
        "filters.filters[0].key": [Changes(filters={"type": "or", "filters": [EQUAL | {"key": ""}]})],
        "filters.filters": [Changes(filters={"type": "and", "filters": []})],
        f"filters.{'filters[0].' * 64}filters": [Changes(filters=all_of(100))],
        **{each: [1] for each in ("filter", "where", "top_k", "score_threshold", "vector_store_ids", "text_weight")},
        "vector_store_id": ["another"],
        "ranking_options.score_treshold": [0.5],
        **{"ranking_options.filters": [{}], "ranking_options.ranker": ["foo"]},
        "ranking_options.score_threshold": [2],
        "ranking_options.hybrid_search.text_weight": [-1],
        "ranking_options.hybrid_search": [{"text_weight": 0, "embedding_weight": 0}],
    },
    "POST /v1/chat/completions": {
        "vector_store_ids": [[], ["not a name!"]],
        "messages": [[], said("system", "x")["messages"]],
        "messages.0": [said("tool", "x"), said("user", [{"type": "image_url"}])],
        "n": [2],
        "stream_options.include_usage": ["yes"],
        "temperature": ["hot"],
        "stop": [7],
        "response_format": [{"type": "json_object"}],
        "functions": [[{"name": "f"}]],
        "tools": [[{"type": "function", "function": {"name": "f"}}]],
        "tools.0.filters.type": [filtered("like", 1), filtered(["eq"], 1)],
        "tools.0.filters.value": [filtered("eq", None)],
        "filters": [EQUAL],
        **{each: [["x"]] for each in ("collections", "vector_store_id", "max_num_results", "tols")},
        "tools.0.filter": [tool(filter={})],
        "tools.0.ranking_options.hybrid_search": [tool(ranking_options={"hybrid_search": {}})],
    },
}
"""By route and by the field that is named: values that it does not take."""
SOUND = {
    "POST /api/search": {"query": "hello"},
    "POST /api/collect": {"userMessage": "hello", "selectedCollections": []},
    "POST /api/chat": {"message": "hello"},
    "PUT /api/watchers/never": REPORT,
    "POST /rerank": {"query": "how hot is lava", "documents": [TEXT]},
    "POST /api/judgements": {"question": "x", "collection": "nobody", "document_id": "a", "grade": 1},
    "POST /api/bench": {"collection": "nobody"},
    "POST /dify/retrieval": {"knowledge_id": "", "query": "hello"},
    f"POST {COLLECTIONS}": {"name": "wrong-fields-of-chroma"},
    "POST {records}/add": {"ids": ["x"], "embeddings": [[1, 0]]},
    "POST /v1/embeddings": {"model": "all-MiniLM-L6-v2", "input": "x"},
    "POST /v1/vector_stores": {"name": "wrong fields of openai"},
    "POST /v1/vector_stores/{store}/files": {"file_id": "nobody"},
    "POST /v1/vector_stores/{store}/search": {"query": "hello"},
    "POST /v1/chat/completions": {"model": "rag", "messages": [{"role": "user", "content": "x"}]},
}
"""What each route takes, but for the field that is wrong."""
STAYS = {
    "PUT /api/watchers/never": "/api/watchers/never",
    f"POST {COLLECTIONS}": f"{COLLECTIONS}_count",
    "POST {records}/add": "{records}/count",
    "POST /v1/vector_stores": "/v1/vector_stores",
    "POST /v1/vector_stores/{store}/files": "/v1/vector_stores/{store}",
    "POST /v1/vector_stores/{store}/file_batches": "/v1/vector_stores/{store}",
}
"""What must stay as it was."""


@pytest.fixture(scope="module")
def places(app):
    """What stands in addresses: a collection with a record, as Chroma's clients and as OpenAI's name it."""
    client, name = app.test_client(), f"wrong-{uuid.uuid4().hex[:12]}"
    made = client.post(COLLECTIONS, json={"name": name}).json["id"]
    records = f"{COLLECTIONS}/{made}"
    assert client.post(f"{records}/add", json={"ids": ["a"], "embeddings": [[1, 0]]}).status_code == 201
    yield {"records": records, "store": f"vs_{made.replace('-', '')}"}
    client.delete(f"/collections/{name}")


def named(answer, path):
    """Return the status and the field that an answer names, in the words of its face."""
    said = answer.json
    if path.startswith("/v1/"):
        return answer.status_code, said["error"]["param"]
    if path.startswith("/dify/"):
        assert said["error_code"] == answer.status_code
        assert said["error_msg"]
    if path.startswith("/api/v2/"):
        assert said["error"] == "InvalidArgumentError"
        return answer.status_code, said["details"]["pointer" if path.endswith("/search") else "field"]
    return answer.status_code, said["details"].get("field")


def changed(field, value):
    if isinstance(value, Changes):
        return value
    first, *steps = field.split(".")
    for step in reversed(steps):
        value = {step: value}
    return {first: value}


@pytest.mark.parametrize("route", WRONG)
def test_a_wrong_field_is_named_and_nothing_is_done(client, places, route):
    method, path = route.format(**places).split(" ")
    stays, place = STAYS.get(route, "/").format(**places), "query_string" if method == "GET" else "json"
    before, told = client.get(stays).json, {}
    for field, values in WRONG[route].items():
        for number, value in enumerate(values):
            asked = SOUND.get(route, {}) | changed(field, value)
            told[field, number] = named(client.open(path, method=method, **{place: asked}), path)
    assert told == {(field, number): (400, field) for field, number in told}
    assert client.get(stays).json == before
