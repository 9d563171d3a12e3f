"""Every route and tool that reads, asked at random."""

from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import strategies as st

from tests.properties.filtered.reads import QUESTIONS

ADMIN = "administrator-of-the-tests"
TEXTS, RULES, CONTEXT, VECTORS, HIDDEN = "rag-documents", "rag-rules", "rag-context", "vectors", "hidden"
NAMES = (TEXTS, RULES, CONTEXT, VECTORS, HIDDEN)
TEAMS = ("red", "blue")
FIELDS = st.sampled_from(("team", "document_id", "section", "path", "kind", "tags", "chunk_index", "secret", "nowhere"))
WHERES = st.sampled_from(
    (
        {},
        {"team": "red"},
        {"team": {"$ne": "blue"}},
        {"chunk_index": {"$gte": 1}},
        {"$or": [{"path": "/1"}, {"team": "blue"}]},
        {"secret": {"$exists": True}},
        {"nowhere": 1},
    )
)
ORDERS = st.lists(
    st.sampled_from(("team", "-chunk_index", "-path", "secret", "nowhere")), max_size=2, unique_by=lambda n: n[-4:]
)
COLLECTIONS = st.sampled_from((TEXTS, TEXTS, RULES, CONTEXT, VECTORS, HIDDEN, "none"))
CHOSEN = st.none() | st.lists(st.sampled_from((*NAMES, "rag-*", "h*")), min_size=1, max_size=2, unique=True)
IDS = st.integers(0, 40)
"""The numbers of documents: those of a collection are counted, and one in eight does not exist."""
VECTOR = st.lists(st.integers(-3, 3), min_size=3, max_size=4).filter(any)


def _gather(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "by": draw(st.sampled_from(("document_id", "team", ["team", "section"], "secret", "nowhere"))),
        "order_by": draw(ORDERS),
        "limit": draw(st.integers(1, 5)),
        "text": draw(st.booleans()),
    }
    if draw(st.booleans()):
        spec |= {"before": draw(st.integers(0, 2)), "after": draw(st.integers(0, 2))}
    return spec


class Asking:
    """Draws requests that fit what a world has, and asks them of a service."""

    def __init__(self, draw: st.DrawFn, world: Any) -> None:
        self.draw = draw
        self.world = world

    def id_in(self, name: str) -> str:
        known = self.world.ids.get(name, [])
        number = self.draw(IDS)
        return known[number % len(known)] if known and number % 8 != 7 else "no-such-document"

    def document(self) -> str:
        known = self.world.documents
        number = self.draw(IDS)
        return known[number % len(known)] if known and number % 8 != 7 else "no-such-document"


def _question(ask: Asking) -> dict[str, Any]:
    chosen = ask.draw(CHOSEN)
    return {"query": ask.draw(QUESTIONS)} | ({} if chosen is None else {"collections": chosen})


def _page(ask: Asking) -> dict[str, Any]:
    return {
        "where": ask.draw(WHERES),
        "order_by": ask.draw(ORDERS),
        "limit": ask.draw(st.integers(1, 6)),
        "offset": ask.draw(st.integers(0, 3)),
        "include": ask.draw(st.sampled_from(([], ["embedding"]))),
    }


def _query(ask: Asking) -> dict[str, Any]:
    asked = {
        "query_embedding": ask.draw(VECTOR),
        "top_k": ask.draw(st.integers(1, 5)),
        "where": ask.draw(WHERES),
        "max_distance": ask.draw(st.sampled_from((None, 0.5))),
    }
    return asked | ({"gather": _gather(ask.draw)} if ask.draw(st.booleans()) else {})


def _gathering(ask: Asking, name: str) -> dict[str, Any]:
    if ask.draw(st.booleans()):
        return _gather(ask.draw) | {"ids": [ask.id_in(name), ask.id_in(name)]}
    return _gather(ask.draw) | {"where": ask.draw(WHERES)}


def _search(ask: Asking) -> dict[str, Any]:
    asked = _question(ask) | {"limit": ask.draw(st.integers(1, 6)), "where": ask.draw(WHERES)}
    asked["fusion"] = ask.draw(st.sampled_from(("smoothed", "scores", "rrf")))
    asked["min_relevance"] = ask.draw(st.sampled_from((None, 0, 0.3)))
    asked["oracles"] = ask.draw(st.sampled_from((None, ["semantic"], ["lexical", "persona"])))
    return asked


def _of_dify(ask: Asking) -> dict[str, Any]:
    asked = {
        "knowledge_id": ask.draw(st.sampled_from(("", *NAMES, "rag-*", "none"))),
        "query": ask.draw(QUESTIONS),
        "retrieval_setting": {"top_k": ask.draw(st.integers(1, 5)), "score_threshold": 0},
    }
    operator = ask.draw(st.sampled_from((None, "is", "is not", "contains", "not empty", "start with")))
    if operator is None:
        return asked
    condition = {"name": ask.draw(FIELDS), "comparison_operator": operator, "value": "re"}
    return asked | {"metadata_condition": {"conditions": [condition]}}


def _tool(ask: Asking) -> tuple[str, dict[str, Any]]:
    name = ask.draw(st.sampled_from(TOOLS))
    if name == "rag_query":
        return name, {key: value for key, value in _search(ask).items() if value is not None}
    if name == "rag_gather":
        collection = ask.draw(st.sampled_from((TEXTS, RULES)))
        by = ask.draw(st.sampled_from(("section", "document")))
        return name, {"collection": collection, "chunk_id": ask.id_in(collection), "by": by}
    if name == "rag_context":
        return name, {"topic": ask.draw(QUESTIONS)} if ask.draw(st.booleans()) else {}
    if name == "rag_context_search":
        return name, _question(ask) | {"limit": ask.draw(st.integers(1, 5))}
    return name, {}


TOOLS = (
    "rag_query",
    "rag_context",
    "rag_gather",
    "rag_collections",
    "rag_context_search",
    "rag_context_health",
    "rag_context_stats",
)


def _called(ask: Asking) -> tuple[str, Any]:
    params = dict(zip(("name", "arguments"), _tool(ask), strict=True))
    return "/mcp", {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}}


def _posted(ask: Asking) -> tuple[str, Any]:
    name = ask.draw(st.sampled_from(TOOLS[4:]))
    asked = _question(ask) | {"limit": ask.draw(st.integers(1, 5))} if name == "rag_context_search" else {}
    return f"/tools/{name}", {"json": asked}


def _in_query(ask: Asking) -> tuple[str, Any]:
    return "/tools/rag_context_search", {"query_string": {"query": ask.draw(QUESTIONS), "limit": "3"}}


def _of(rest: str, body: Callable[[Asking, str], Any], *, is_read: bool = False) -> Callable[[Asking], tuple[str, Any]]:
    """Return what asks `/collections/<name>` and the rest with a body, or with a query string when it `is_read`."""

    def request(ask: Asking) -> tuple[str, Any]:
        name = ask.draw(COLLECTIONS)
        asked = body(ask, name)
        if is_read:
            return f"/collections/{name}{rest}", {"query_string": _as_text(asked)}
        return f"/collections/{name}{rest}", {"json": asked}

    return request


def _as_text(asked: dict[str, Any]) -> dict[str, str]:
    spelt = {
        name: ",".join(value)
        if isinstance(value, list)
        else orjson.dumps(value).decode()
        if isinstance(value, dict)
        else str(value)
        for name, value in asked.items()
    }
    return {name: value for name, value in spelt.items() if value}


def _one(ask: Asking) -> tuple[str, Any]:
    name = ask.draw(COLLECTIONS)
    return f"/collections/{name}/documents/{ask.id_in(name)}", {}


def _stored(ask: Asking) -> tuple[str, Any]:
    chunks = {"chunks": ask.draw(st.sampled_from(("true", "false")))}
    return f"/api/documents/{ask.document()}", {"query_string": chunks}


def _collected(ask: Asking) -> tuple[str, Any]:
    names = st.lists(st.sampled_from((*NAMES, "none")), min_size=1, max_size=2)
    chosen = [{"service": "local", "name": name} for name in ask.draw(names)]
    asked = {"userMessage": ask.draw(QUESTIONS), "selectedCollections": chosen}
    return "/api/collect", {"json": asked | {"match_threshold": 2, "partial_threshold": 3}}


DATABASE = "/api/v2/tenants/default_tenant/databases/default_database"
_ROW = "/api/v2/tenants/{tenant}/databases/{database}/collections"


def _by_id(
    rest: str, body: Callable[[Asking, str], Any] | None = None, before: str = ""
) -> Callable[[Asking], tuple[str, Any]]:
    """Return what asks a collection of Chroma's protocol, by its id, with a body."""

    def request(ask: Asking) -> tuple[str, Any]:
        name = ask.draw(COLLECTIONS)
        return f"{DATABASE}/collections/{before}@{name}{rest}", {} if body is None else {"json": body(ask, name)}

    return request


def _records(ask: Asking, name: str) -> dict[str, Any]:
    asked = {
        "where": ask.draw(WHERES),
        "where_document": ask.draw(st.sampled_from((None, {"$contains": "e"}, {"$not_regex": "a|b"}))),
        "include": ask.draw(st.sampled_from((["documents", "metadatas"], ["embeddings", "uris"]))),
        "limit": ask.draw(st.none() | st.integers(0, 5)),
        "offset": ask.draw(st.integers(0, 3)),
    }
    return asked | ({"ids": [ask.id_in(name), ask.id_in(name)]} if ask.draw(st.booleans()) else {})


def _near(ask: Asking, name: str) -> dict[str, Any]:
    vectors = [ask.draw(VECTOR) for _ in range(ask.draw(st.integers(1, 2)))]
    asked = _records(ask, name) | {"query_embeddings": vectors, "n_results": ask.draw(st.integers(0, 5))}
    return asked | {"include": ["documents", "distances"]}


STORE = "/v1/vector_stores/{vector_store_id}"


def _of_stores() -> dict[str, Callable[[Asking], tuple[str, Any]]]:
    """Return what asks the routes of vector stores."""

    def of(tail=""):
        return lambda ask: (f"/v1/vector_stores/{ask.draw(COLLECTIONS)}{tail}", {})

    def of_file(tail=""):
        return lambda ask: (f"/v1/vector_stores/{ask.draw(COLLECTIONS)}/files/{ask.document()}{tail}", {})

    def listing(ask):
        query = {"limit": ask.draw(st.integers(1, 4)), "order": ask.draw(st.sampled_from(("asc", "desc")))}
        return f"/v1/vector_stores/{ask.draw(COLLECTIONS)}/files", {"query_string": query}

    return {
        f"POST {STORE}/search": lambda ask: (
            f"/v1/vector_stores/{ask.draw(COLLECTIONS)}/search",
            {"json": {"query": ask.draw(QUESTIONS), "max_num_results": ask.draw(st.integers(1, 5))}},
        ),
        "GET /v1/vector_stores": lambda ask: ("/v1/vector_stores", {}),
        f"GET {STORE}": of(),
        f"GET {STORE}/files": listing,
        f"GET {STORE}/files/{{file_id}}": of_file(),
        f"GET {STORE}/files/{{file_id}}/content": of_file("/content"),
    }


ROUTES: dict[str, Callable[[Asking], tuple[str, Any]]] = {
    "GET /collections": lambda ask: ("/collections", {"query_string": ask.draw(st.sampled_from(({}, {"limit": 2})))}),
    "GET /collections/{name}": _of("", lambda ask, name: {}, is_read=True),
    "GET /collections/{name}/documents": _of("/documents", lambda ask, name: _page(ask), is_read=True),
    "POST /collections/{name}/documents/search": _of(
        "/documents/search",
        lambda ask, name: (
            _page(ask)
            | ({"ids": [ask.id_in(name), ask.id_in(name)], "order_by": []} if ask.draw(st.booleans()) else {})
        ),
    ),
    "GET /collections/{name}/documents/count": _of(
        "/documents/count", lambda ask, name: {"where": ask.draw(WHERES)}, is_read=True
    ),
    "GET /collections/{name}/documents/{document_id}": _one,
    "GET /collections/{name}/metadata-values": _of(
        "/metadata-values", lambda ask, name: {"field": ask.draw(FIELDS)}, is_read=True
    ),
    "GET /collections/{name}/projection": _of(
        "/projection", lambda ask, name: {"where": ask.draw(WHERES), "limit": 5}, is_read=True
    ),
    "GET /collections/{name}/facets": _of(
        "/facets", lambda ask, name: {"fields": ask.draw(FIELDS), "where": ask.draw(WHERES)}, is_read=True
    ),
    "GET /collections/{name}/export": _of("/export", lambda ask, name: {}, is_read=True),
    "POST /collections/{name}/query": _of("/query", lambda ask, name: _query(ask)),
    "POST /query": lambda ask: ("/query", {"json": _query(ask) | {"collection": ask.draw(COLLECTIONS)}}),
    "GET /query": lambda ask: ("/query", {}),
    "POST /collections/{name}/gather": _of("/gather", _gathering),
    "POST /collections/{name}/text-search": _of(
        "/text-search",
        lambda ask, name: {
            "query": ask.draw(QUESTIONS),
            "where": ask.draw(WHERES),
            "top_k": ask.draw(st.integers(1, 9)),
        },
    ),
    f"GET {_ROW}": lambda ask: (
        f"{DATABASE}/collections",
        {"query_string": ask.draw(st.sampled_from(({}, {"limit": 2}, {"offset": 1})))},
    ),
    f"GET {_ROW}_count": lambda ask: (f"{DATABASE}/collections_count", {}),
    f"GET {_ROW}/{{name}}": lambda ask: (f"{DATABASE}/collections/{ask.draw(COLLECTIONS)}", {}),
    f"GET {_ROW}/by-id/{{collection_id}}": _by_id("", before="by-id/"),
    f"GET {_ROW}/{{collection_id}}/count": _by_id("/count"),
    f"GET {_ROW}/{{collection_id}}/indexing_status": _by_id("/indexing_status"),
    f"POST {_ROW}/{{collection_id}}/get": _by_id("/get", _records),
    f"POST {_ROW}/{{collection_id}}/query": _by_id("/query", _near),
    "POST /api/collect": _collected,
    "POST /api/rag/search": lambda ask: ("/api/rag/search", {"json": _question(ask) | {"topK": 4}}),
    "GET /api/rag/documents": lambda ask: (
        "/api/rag/documents",
        {"query_string": {"limit": 2, "collection": ask.draw(COLLECTIONS)} if ask.draw(st.booleans()) else {}},
    ),
    "GET /api/rag/metrics": lambda ask: ("/api/rag/metrics", {}),
    "POST /api/rag/retrieve": lambda ask: (
        "/api/rag/retrieve",
        {"json": _question(ask) | {"context_key": "k", "min_relevance": ask.draw(st.sampled_from((0, 0.2)))}},
    ),
    "POST /api/documents/compare": lambda ask: (
        "/api/documents/compare",
        {"json": {"collection": TEXTS, "files": [{"name": f"wiki/{n}", "sha256": "0" * 64} for n in range(1, 6)]}},
    ),
    "GET /api/documents": lambda ask: (
        "/api/documents",
        {"query_string": ask.draw(st.sampled_from(({}, {"limit": 2}, {"tag": "t"}, {"collection": TEXTS})))},
    ),
    "GET /api/documents/{document_id}": _stored,
    "GET /api/documents/{document_id}/original": lambda ask: (f"/api/documents/{ask.document()}/original", {}),
    "POST /api/search": lambda ask: (
        "/api/search",
        {
            "json": _search(ask)
            | ({"gather": _gather(ask.draw)} if ask.draw(st.booleans()) else {})
            | {"explain": ask.draw(st.sampled_from((False, True)))}
        },
    ),
    "POST /dify/retrieval": lambda ask: ("/dify/retrieval", {"json": _of_dify(ask)}),
    **_of_stores(),
    "POST /tools/{tool}": _posted,
    "GET /tools/{tool}": _in_query,
    "POST /mcp": _called,
    "GET /tools": lambda ask: ("/tools", {}),
    "GET /api/jobs": lambda ask: ("/api/jobs", {}),
    "GET /api/watchers": lambda ask: ("/api/watchers", {}),
}
"""What asks each route that reads documents, by its row in the table of access."""
