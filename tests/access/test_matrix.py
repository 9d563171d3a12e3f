"""Every route and tool × every kind of caller: the answer is the table's, and nothing of others is in it."""

from __future__ import annotations

import pytest

from schemas.access.callers import INCLUDED, Scope
from schemas.access.table import ROUTES, TOOLS, Door, Names
from tests.access.keyed import CANARY, DOCUMENTS, MINE, SCOPES, SECRETS, THEIRS
from tests.support.mcp_clients import over_stdio, within_bounds

VECTOR = {"query_embedding": [1.0, 0.0]}
DOCUMENT = {"documents": [{"id": "new", "text": "new", "embedding": [1.0, 0.0]}]}
TOOL = "rag_context_health"
NOWHERE = "no-such-collection"
BODIES = {
    "POST /collections": {"name": "mine-docs"},
    "POST /collections/{name}/documents": DOCUMENT,
    "DELETE /collections/{name}/documents": {"ids": ["nobody"]},
    "PUT /collections/{name}/metadata": {"metadata": {}},
    "PATCH /collections/{name}/metadata": {"metadata": {}},
    "POST /collections/{name}/documents/search": {},
    "PATCH /collections/{name}/documents/{document_id}": {"metadata": {"seen": 1}},
    "POST /collections/{name}/query": VECTOR,
    "POST /query": {**VECTOR, "collection": "{name}"},
    "POST /collections/{name}/gather": {"ids": ["open"], "by": "group"},
    "POST /collections/{name}/text-search": {"query": "door"},
    "POST /api/search": {"query": "door", "oracles": ["lexical"], "collections": ["{name}"]},
    "POST /api/rag/search": {"query": "door", "collections": ["{name}"]},
    "POST /api/rag/retrieve": {"query": "door", "context_key": "k", "collection": "{name}"},
    "POST /api/collect": {
        "userMessage": "door",
        "topic": "",
        "currentTopic": "",
        "selectedCollections": [
            {"service": "local", "name": "{name}", "embedding_connection": "default", "embedding_model": "m"}
        ],
    },
}
"""Bodies with which requests get as far as the collection; others are refused for their bodies, after their callers were
judged."""
NAMED = (Names.PATH, Names.BODY, Names.QUERY)
ALLOWED_WITH = {
    key: frozenset().union(*(INCLUDED[Scope(each)] for each in scopes))
    for key, scopes in {
        **{each: [each] for each in SCOPES},
        "mine": ["manage", "chat", "connect"],
        "filtered": ["read"],
    }.items()
}
DESTROYS = ("DELETE /collections/{name}", "DELETE /collections/{name}/documents/all", "POST /api/keys/{key_id}/rotate")


def _request(route, collection=MINE):
    """Return (method, path, body) of a request to a route."""
    method, _, path = route.partition(" ")
    path = path.replace("{name}", collection).replace("{document_id}", "open").replace("{tool}", TOOL)
    for part in ("provider", "connection_id", "conversation_id", "job_id", "key_id", "file"):
        path = path.replace(f"{{{part}}}", "nobody")
    body = _with_name(BODIES.get(route, {} if method in ("POST", "PUT", "PATCH") else None), collection)
    return method, path, body


def _with_name(body, collection):
    if isinstance(body, dict):
        return {name: _with_name(value, collection) for name, value in body.items()}
    if isinstance(body, list):
        return [_with_name(value, collection) for value in body]
    return collection if body == "{name}" else body


@pytest.mark.parametrize("route", ROUTES)
def test_without_a_key_that_counts_only_public_routes_answer(keyed, route):
    method, path, body = _request(route)
    for kind, code in (
        (None, "key_missing"),
        ("wrong", "key_unknown"),
        ("expired", "key_expired"),
        ("revoked", "key_revoked"),
    ):
        answer = keyed.ask(method, path, keyed.keys.get(kind), body)
        if ROUTES[route].needs is Door.PUBLIC:
            assert answer.status_code not in (401, 403), kind
        else:
            assert (answer.status_code, answer.json()["code"]) == (401, code)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert CANARY not in answer.text + str(answer.headers)


@pytest.mark.parametrize("route", [each for each in ROUTES if each not in DESTROYS])
def test_each_scope_opens_what_the_table_says(keyed, route):
    method, path, body = _request(route)
    row = ROUTES[route]
    needs = TOOLS[TOOL].needs if row.names is Names.TOOL and "{tool}" in route else row.needs
    for kind, granted in ALLOWED_WITH.items():
        answer = keyed.ask(method, path, keyed.keys[kind], body)
        if not isinstance(needs, Scope) or needs in granted:
            assert answer.status_code < 500 or answer.status_code in (503, 507), answer.text
            assert answer.status_code != 401, (kind, answer.text)
            assert answer.status_code != 403 or answer.json()["code"] == "collection_forbidden", (kind, answer.text)
        else:
            found = answer.json()
            assert (answer.status_code, found["code"]) == (403, "scope_missing"), (kind, answer.text)
            assert found["details"]["scope"] == needs
        if kind in ("mine", "filtered"):
            assert CANARY not in answer.text + str(answer.headers), kind


@pytest.mark.parametrize("route", [each for each, row in ROUTES.items() if row.names in (*NAMED, Names.CHOSEN)])
def test_a_foreign_collection_is_not_there(keyed, route):
    """The answer is the one for a name that no collection has."""
    for kind in ("mine", "filtered"):
        if ROUTES[route].needs not in ALLOWED_WITH[kind]:
            continue
        answers = []
        for name in (THEIRS, NOWHERE):
            method, path, body = _request(route, name)
            if ROUTES[route].names is Names.QUERY:
                path += f"?collection={name}"
            answer = keyed.ask(method, path, keyed.keys[kind], body)
            answers.append((answer.status_code, answer.text.replace(name, "NAME")))
        (status, text), other = answers
        assert (status, text) == other
        assert status >= 400
        assert CANARY not in text


def test_a_collection_outside_is_neither_created_nor_told_of(keyed):
    for name in (THEIRS, "elsewhere"):
        answer = keyed.ask("POST", "/collections", keyed.keys["mine"], {"name": name})
        assert (answer.status_code, answer.json()["code"]) == (403, "collection_forbidden")
    made = keyed.ask("POST", "/collections", keyed.keys["mine"], {"name": "mine-too"})
    assert made.status_code == 201
    assert keyed.ask("DELETE", "/collections/mine-too", keyed.keys["mine"]).status_code == 200


def test_what_lists_shows_the_callers_own_alone(keyed):
    for kind, count in (("mine", 2), ("filtered", 1)):
        listed = keyed.ask("GET", "/collections", keyed.keys[kind]).json()["collections"]
        assert next(each["count"] for each in listed if each["name"] == MINE) >= count
        assert all(each["name"].startswith("mine") for each in listed)
        assert keyed.ask("GET", "/query", keyed.keys[kind]).json()["collections"] == len(listed)


KINDS = (*SCOPES, "mine", "filtered")
OVER_STDIO = [("sqlite", each) for each in KINDS] + [("postgresql", each) for each in ("mine", "filtered")]
"""What stdio adds to HTTP is the same on both databases; each of these starts a process."""


@pytest.mark.parametrize(("keyed", "kind"), OVER_STDIO, indirect=["keyed"])
def test_mcp_over_stdio_offers_and_runs_the_tools_of_the_caller(keyed, kind):
    _check_tools(kind, *within_bounds(_over_stdio, keyed, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_mcp_over_http_offers_and_runs_the_tools_of_the_caller(keyed, kind):
    _check_tools(kind, *_over_http(keyed, kind))


COMPLETE = ("rag_query", "rag_context", "rag_collections", "rag_context_health", "rag_context_stats", "session_start")
"""The tools whose arguments here are complete, so that they run where the key may call them."""


def _check_tools(kind, listed, outcomes):
    allowed = {name for name, row in TOOLS.items() if row.needs in ALLOWED_WITH[kind]}
    assert listed == allowed
    for name, (is_error, text) in outcomes.items():
        assert is_error or name in allowed, f"{name} ran for {kind}"
        assert not is_error or name not in allowed or name not in COMPLETE, f"{name} did not run for {kind}: {text}"
        if kind in ("mine", "filtered"):
            assert CANARY not in text, name


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_over_http_ask_for_their_scope(keyed, tool):
    known = {each["name"] for each in keyed.ask("GET", "/tools", keyed.admin_key).json()["tools"]}
    if tool not in known:
        return
    for kind, granted in ALLOWED_WITH.items():
        answer = keyed.ask("POST", f"/tools/{tool}", keyed.keys[kind], _arguments(tool))
        missing = answer.status_code == 403 and answer.json()["code"] == "scope_missing"
        assert missing == (TOOLS[tool].needs not in granted), (kind, answer.text)
        if kind in ("mine", "filtered"):
            assert CANARY not in answer.text


def test_the_log_has_no_key_and_no_text(keyed):
    written = keyed.service.log.read_text()
    assert "request" in written
    for document in (*DOCUMENTS, *SECRETS):
        assert document["text"] not in written
    for key in (*keyed.keys.values(), keyed.admin_key):
        assert key not in written
        if key.startswith("rw_"):
            assert key[12:] not in written


def _arguments(tool):
    return {
        "rag_query": {"query": "door", "oracles": ["lexical"]},
        "rag_gather": {"collection": THEIRS, "chunk_id": f"{CANARY}-1", "by": "section"},
        "rag_context_search": {"query": "door"},
        "session_start": {"name": "a session"},
    }.get(tool, {})


def _said(tool, text):
    """Return an answer without the name that the question had."""
    return text.replace(THEIRS, "") if tool == "rag_gather" else text


def _over_http(keyed, kind):
    def ask(method, **params):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"MCP_Protocol_Version": "2025-06-18", "Accept": "application/json, text/event-stream"}
        return keyed.ask("POST", "/mcp", keyed.keys[kind], message, **headers)

    listed = {each["name"] for each in ask("tools/list").json()["result"]["tools"]}
    outcomes = {}
    for name in TOOLS:
        answer = ask("tools/call", name=name, arguments=_arguments(name))
        found = answer.json()
        outcomes[name] = ("error" in found or bool(found["result"].get("isError")), _said(name, answer.text))
    return listed, outcomes


async def _over_stdio(keyed, kind):
    outcomes = {}
    async with over_stdio("--url", keyed.url, api_key=keyed.keys[kind]) as client:
        listed = {each.name for each in (await client.list_tools()).tools}
        for name in TOOLS:
            try:
                result = await client.call_tool(name, _arguments(name))
            except Exception as error:
                outcomes[name] = (True, _said(name, str(error)))
            else:
                outcomes[name] = (bool(result.is_error), _said(name, result.model_dump_json()))
    return listed, outcomes
