"""Every route and tool × every kind of caller: the answer is the table's, and nothing of others is in it."""

import re
import uuid
from dataclasses import replace
from itertools import chain

import pytest

from schemas.access.callers import INCLUDED, Scope
from schemas.access.table import ROUTES, TOOLS, Door, Names
from tests.access.asking import CALLS, TOOL, called_over_http, called_over_stdio, naming, request_to, telling
from tests.access.faults import all_faults
from tests.access.keyed import CANARY, DOCUMENTS, FOREIGN_DATABASE, MINE, SCOPES, SECRETS, THEIRS
from tests.support.live import eventually
from tests.support.mcp_clients import within_bounds

NOWHERE = "no-such-collection"
OF_COLLECTIONS = re.compile(r"/(collections|aliases|query)(/|$)")
REFUSED = {None: "key_missing", "wrong": "key_unknown", "expired": "key_expired", "revoked": "key_revoked"}
ALLOWED_WITH = {
    key: frozenset().union(*(INCLUDED[Scope(each)] for each in scopes))
    for key, scopes in {
        **{each: [each] for each in SCOPES},
        "mine": ["manage", "chat", "connect"],
        "filtered": ["read"],
    }.items()
}
UNKNOWN = {"POST /dify/retrieval": 403}
"""The routes that answer with another status than 401 where nobody knows who asks."""
NARROW = ("mine", "filtered")
"""The kinds of keys that are for some collections."""
DELETED_BY_CHROMA = "DELETE /api/v2/tenants/{tenant}/databases/{database}/collections/{name}"
DESTROYS = (
    "DELETE /collections/{name}",
    "DELETE /collections/{name}/documents/all",
    "DELETE /v1/vector_stores/{vector_store_id}",
    "POST /api/keys/{key_id}/rotate",
)
UNDONE = [each for each in ROUTES if each not in (*DESTROYS, DELETED_BY_CHROMA)]
REFUSALS = ("collection_forbidden", "reset_disabled")
NAME_NONE = (Names.NOWHERE, Names.ID, Names.MADE_IN_DATABASE, Names.LISTED, Names.TOOL, Names.CONTRACT, Names.BODY_NAME)
NAME_OWN = (Names.CHOSEN, Names.QUERY_CHOSEN, Names.KNOWLEDGE, Names.STORES)
ADDS = ("POST /api/rag/documents:batch", "POST /api/documents", "POST /api/documents/compare")
"""Routes that make the collection they are about where there is none, or are asked before that."""
CONTRACTS = ("rag-documents", "rag-rules", "rag-context")


@pytest.fixture(scope="module")
def served(keyed_app):
    """The service in this process, with something of somebody else in the collections of all contracts."""
    keyed_app.fill_contracts()
    return keyed_app


def _asked(keyed, kind, asked):
    """Return the answer to a request with the key of that kind."""
    return keyed.ask(asked.method, asked.path, keyed.keys.get(kind), asked.body, **asked.headers)


def _state(keyed, *names):
    """Return what administrators see of these collections."""
    answers = (keyed.ask("GET", f"/collections/{name}", keyed.admin_key) for name in names)
    return [(each.status_code, each.json().get("count"), each.json().get("revision")) for each in answers]


@pytest.mark.slow
def test_each_scope_opens_what_the_table_says_and_without_a_key_that_counts_only_public_routes_answer(served):
    with all_faults() as case:
        for route in ROUTES:
            for kind in (*REFUSED, *(ALLOWED_WITH if route in UNDONE else ())):
                with case(route, kind):
                    (_check_refused if kind in REFUSED else _check_opened)(served, route, kind)


def test_the_same_table_holds_for_a_service_that_runs(keyed):
    """With a key that counts for nothing, and one for little."""
    with all_faults() as case:
        for route in UNDONE:
            with case(route):
                _check_refused(keyed, route, "revoked")
                _check_opened(keyed, route, "filtered")


def _check_refused(keyed, route, kind):
    answer = _asked(keyed, kind, request_to(route))
    if ROUTES[route].needs is Door.PUBLIC:
        assert answer.status_code not in (401, 403)
    else:
        assert (answer.status_code, answer.json()["code"]) == (UNKNOWN.get(route, 401), REFUSED[kind])
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert CANARY not in answer.text + str(answer.headers)


def _check_opened(keyed, route, kind):
    row, granted = ROUTES[route], ALLOWED_WITH[kind]
    needs = TOOLS[TOOL].needs if row.names is Names.TOOL and "{tool}" in route else row.needs
    answer = _asked(keyed, kind, request_to(route))
    if isinstance(needs, Scope) and needs not in granted:
        missing = needs
    elif row.also is not None and answer.status_code == 403:
        missing = row.also[0]
        assert missing not in granted, answer.text
    else:
        assert answer.status_code < 500 or answer.status_code in (501, 503, 507), answer.text
        assert answer.status_code != 401, answer.text
        assert answer.status_code != 403 or answer.json()["code"] in REFUSALS, answer.text
        missing = None
    if missing is not None:
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), answer.text
        assert answer.json()["details"]["scope"] == missing
    if kind in NARROW:
        assert CANARY not in answer.text + str(answer.headers)


@pytest.mark.parametrize("route", DESTROYS)
def test_what_destroys_does_so_for_those_alone_who_may(served, route):
    """Each caller has something of their own to destroy, which is whole afterwards unless they may."""
    method = route.partition(" ")[0]
    with all_faults() as case:
        for kind in (*REFUSED, *ALLOWED_WITH):
            with case(kind):
                path, is_whole = _sacrifice(served, route, f"mine-{uuid.uuid4().hex}")
                answer = served.ask(method, path, served.keys.get(kind), {} if method == "POST" else None)
                if kind not in REFUSED and ROUTES[route].needs in ALLOWED_WITH[kind]:
                    assert answer.status_code in (200, 201, 202), answer.text
                    assert not is_whole()
                else:
                    expected = (401, REFUSED[kind]) if kind in REFUSED else (403, "scope_missing")
                    assert (answer.status_code, answer.json()["code"]) == expected
                    assert is_whole()


@pytest.mark.parametrize("route", DESTROYS[:2])
def test_what_is_of_somebody_else_cannot_be_destroyed(served, route):
    for kind, expected in (("mine", (404, "collection_not_found")), ("filtered", (403, "scope_missing"))):
        path, is_whole = _sacrifice(served, route, f"theirs-{uuid.uuid4().hex}")
        answer = served.ask("DELETE", path, served.keys[kind])
        assert (answer.status_code, answer.json()["code"]) == expected
        assert is_whole(), kind


def _sacrifice(keyed, route, name):
    """Return (the path of a request that destroys something new, a function that tells whether it is whole)."""
    path = route.partition(" ")[2]
    if "{key_id}" in route:
        key_id = keyed.new_key(name=name, scopes=["read"])["id"]

        def is_whole():
            listed = keyed.ask("GET", "/api/keys", keyed.admin_key).json()["keys"]
            return [(each["id"], each["expires_at"]) for each in listed if each["name"] == name] == [(key_id, None)]

        return path.replace("{key_id}", key_id), is_whole
    place = f"/collections/{name}"
    assert keyed.ask("POST", "/collections", keyed.admin_key, {"name": name}).status_code == 201
    stored = keyed.ask("POST", f"{place}/documents", keyed.admin_key, {"documents": DOCUMENTS})
    assert stored.status_code in (201, 202)
    path = path.replace("{name}", name).replace("{vector_store_id}", name)
    return path, lambda: keyed.ask("GET", place, keyed.admin_key).json().get("count") == len(DOCUMENTS)


@pytest.mark.slow
def test_a_foreign_collection_is_not_there(served):
    """The answer is the one for a name that no collection has, and nothing was done to either."""
    with all_faults() as case:
        for route, row in ROUTES.items():
            for kind in NARROW if row.names not in NAME_NONE else ():
                if row.needs in ALLOWED_WITH[kind]:
                    with case(route, kind):
                        _check_foreign_collection(served, route, kind)


def _check_foreign_collection(keyed, route, kind):
    before = _state(keyed, THEIRS, NOWHERE)
    answers = []
    for name in (THEIRS, NOWHERE):
        asked = request_to(route, name, f"{CANARY}-1")
        assert name in f"{asked.path}{asked.body}", "the request names no collection"
        answer = _asked(keyed, kind, asked)
        answers.append((answer.status_code, _lasting(answer.json(), name)))
    (status, found), nowhere = answers
    assert (status, found) == nowhere
    assert CANARY not in str(found).replace(f"{CANARY}-1", "")
    if route == "POST /api/collect":
        (told,) = found["receipt"]["collections"]
        assert (status, found["result"], told["status"]) == (200, "none", "failed")
        assert told["error"] == "Collection 'NAME' not found"
    else:
        expected = (403, "collection_forbidden") if route in ADDS else (404, "collection_not_found")
        assert (status, found["code"]) == expected
    assert _state(keyed, THEIRS, NOWHERE) == before == [before[0], (404, None, None)]


def test_a_foreign_database_is_not_there(served):
    """The answer is the one for a database that nobody has, although the collection there is called like the caller's."""
    there, nowhere = (f"{tenant}/{FOREIGN_DATABASE}" for tenant in (CANARY, NOWHERE))
    with all_faults() as case:
        for route in (each for each in ROUTES if OF_COLLECTIONS.match(each.partition(" ")[2])):
            for kind in NARROW:
                if ROUTES[route].needs in ALLOWED_WITH[kind]:
                    with case(route, kind):
                        _check_foreign_database(served, route, kind, there, nowhere)
    seen = served.ask("GET", f"/collections/{MINE}?database={there}", served.admin_key).json()
    assert (seen["count"], seen["metadata"]) == (len(SECRETS), {})


def _check_foreign_database(keyed, route, kind, *databases):
    answers = []
    for database in databases:
        asked = request_to(route)
        mark = "&" if "?" in asked.path else "?"
        answer = _asked(keyed, kind, replace(asked, path=f"{asked.path}{mark}database={database}"))
        answers.append((answer.status_code, _lasting(answer.json(), database.partition("/")[0])))
    assert answers[0] == answers[1]
    assert (answers[0][0], answers[0][1]["code"]) == (404, "database_not_found")


def _lasting(found, name):
    """Return what an answer tells whenever it is given, with another name in the place of one: times and what was
    embedded by then are left out."""
    if isinstance(found, dict):
        kept = {key: value for key, value in found.items() if "latency" not in key and key != "embeddings"}
        return {key: _lasting(value, name) for key, value in kept.items()}
    if isinstance(found, list):
        return [_lasting(each, name) for each in found]
    return found.replace(name, "NAME") if isinstance(found, str) else found


@pytest.mark.parametrize("route", ["POST /api/rag/ingest", *ADDS])
def test_nothing_is_added_to_the_contracts_collection_outside(served, route):
    before = _state(served, *CONTRACTS)
    answer = _asked(served, "mine", request_to(route, None))
    assert (answer.status_code, answer.json()["code"]) == (403, "collection_forbidden")
    assert answer.json()["details"]["collection"] in CONTRACTS
    assert _state(served, *CONTRACTS) == before


def test_the_contracts_collection_outside_looks_empty(served):
    for kind in NARROW:
        found = _asked(served, kind, request_to("GET /api/rag/documents", None)).json()
        assert (found["documents"], found["total"]) == ([], 0)
        counted = _asked(served, kind, request_to("GET /api/rag/metrics")).json()
        assert (counted["documents"], counted["chunks"], counted["collections"]) == (0, 0, [])
    assert CANARY in _asked(served, "read", request_to("GET /api/rag/documents", None)).text


@pytest.mark.parametrize("route", [each for each, row in ROUTES.items() if row.names in NAME_OWN])
def test_a_question_that_names_no_collection_is_asked_of_the_callers_own(served, models, route):
    def said():
        """What the chat model was told, which is in no answer."""
        return str([each.body for each in models.requests if each.path == "/v1/chat/completions"])

    models.requests.clear()
    for kind in NARROW:
        if ROUTES[route].needs in ALLOWED_WITH[kind]:
            answer = _asked(served, kind, request_to(route, None))
            assert answer.status_code == 200, answer.text
            assert CANARY not in answer.text + said()
    assert CANARY in _asked(served, "admin", request_to(route, None)).text + said(), "there is nothing to give away"


def test_a_collection_outside_is_neither_created_nor_told_of_and_lists_show_the_callers_own_alone(served):
    for name in (THEIRS, "elsewhere"):
        answer = served.ask("POST", "/collections", served.keys["mine"], {"name": name})
        assert (answer.status_code, answer.json()["code"]) == (403, "collection_forbidden")
    made = served.ask("POST", "/collections", served.keys["mine"], {"name": "mine-too"})
    assert made.status_code == 201
    for kind, count in (("mine", 2), ("filtered", 1)):
        listed = served.ask("GET", "/collections", served.keys[kind]).json()["collections"]
        assert next(each["count"] for each in listed if each["name"] == MINE) >= count
        assert all(each["name"].startswith("mine") for each in listed)
        assert served.ask("GET", "/query", served.keys[kind]).json()["collections"] == len(listed)


FOREIGN = [naming(THEIRS), naming(NOWHERE), naming("theirs*")]
ALL_CALLS = [*CALLS, *chain(*FOREIGN)]


@pytest.mark.slow
def test_mcp_over_http_offers_and_runs_the_tools_of_the_caller(served):
    with all_faults() as case:
        for kind in ALLOWED_WITH:
            with case(kind):
                _check_tools(kind, *called_over_http(served, kind, ALL_CALLS))


@pytest.mark.parametrize("kind", ["read", "mine"])
def test_mcp_over_stdio_offers_and_runs_the_tools_of_the_caller(keyed, kind):
    _check_tools(kind, *within_bounds(called_over_stdio, keyed, kind, ALL_CALLS))


def _check_tools(kind, listed, outcomes):
    allowed = {name for name, row in TOOLS.items() if row.needs in ALLOWED_WITH[kind]}
    assert listed == allowed
    for call, (is_error, text) in zip(ALL_CALLS, outcomes, strict=True):
        if call.tool not in allowed:
            assert (is_error, f"Unknown tool: {call.tool}" in text) == (True, True), f"{call} for {kind}: {text}"
    for call, (is_error, text) in zip(CALLS, outcomes, strict=False):
        if call.tool == "rag_context_index" and kind == "mine":
            assert (is_error, "The key is not for a collection 'rag-context'" in text) == (True, True)
        elif call.tool in allowed:
            assert not is_error, f"{call} was refused for {kind}: {text}"
        if kind in NARROW:
            assert CANARY not in text, call
    found = iter(outcomes[len(CALLS) :])
    answers = [[next(found) for _ in calls] for calls in FOREIGN]
    for call, theirs, nowhere, beginning in zip(FOREIGN[0], *answers, strict=True):
        if call.tool not in allowed:
            continue
        if kind in NARROW:
            assert (theirs.is_error, f"Collection '{THEIRS}' not found" in theirs.text) == (True, True), call
            assert theirs.text.replace(THEIRS, "NAME") == nowhere.text.replace(NOWHERE, "NAME"), call
            assert CANARY not in theirs.text.replace(THEIRS, "") + beginning.text, call
        else:
            assert (theirs.is_error, CANARY in theirs.text) == (False, True), f"{call} has nothing to give away"


def test_tools_over_http_ask_for_their_scope(served):
    offered = {each["name"] for each in served.ask("GET", "/tools", served.admin_key).json()["tools"]}
    assert {TOOL, "rag_context_index"} <= offered < set(TOOLS)
    with all_faults() as case:
        for call in (each for each in CALLS if each.tool in offered):
            for kind in ALLOWED_WITH:
                with case(call, kind):
                    _check_call_over_http(served, call, kind)


def _check_call_over_http(keyed, call, kind):
    answer = keyed.ask("POST", f"/tools/{call.tool}", keyed.keys[kind], call.arguments)
    if TOOLS[call.tool].needs not in ALLOWED_WITH[kind]:
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing"), answer.text
    elif call.tool == "rag_context_index" and kind == "mine":
        assert (answer.status_code, answer.json()["code"]) == (403, "collection_forbidden"), answer.text
    else:
        assert answer.status_code == 200, answer.text
    if kind in NARROW:
        assert CANARY not in answer.text


def test_the_logs_have_no_key_no_secret_and_no_text(keyed):
    """Texts are stored, refused, asked and said here; what is written down of all that has none of their words."""
    word, secret = (f"{name}{uuid.uuid4().hex}" for name in ("word", "secret"))
    made = keyed.new_key(name="told", scopes=["read"])
    rotated = keyed.ask("POST", f"/api/keys/{made['id']}/rotate", keyed.admin_key, {}).json()
    for told in telling(f"The {word} lies under the red stone.", word, secret):
        answer = keyed.ask(told.method, told.path, keyed.keys["mine"], told.body, **told.headers)
        assert answer.status_code in told.statuses, (told.path, answer.text)
    jobs = [each["id"] for each in keyed.ask("GET", "/api/jobs", keyed.keys["mine"]).json()["jobs"]]
    for job in jobs:
        eventually(lambda job=job: _has_ended(keyed, job))
    last = keyed.ask("GET", "/api/me", keyed.keys["mine"]).headers["X-Request-ID"]
    log = eventually(lambda: (text := keyed.service.log.read_text()) and last in text and text)
    data_dir = keyed.service.data_dir
    audited = "".join(each.read_text() for each in sorted((data_dir / "audit").glob("*.jsonl")))
    assert '"collection":"mine-logged"' in audited
    for written in (log, audited, (data_dir / "engine.log").read_text()):
        for text in (word, secret, *(each["text"] for each in (*DOCUMENTS, *SECRETS)), "vault opens at midnight"):
            assert text not in written
        for key in (*keyed.keys.values(), keyed.admin_key, made["key"], rotated["key"]):
            assert key not in written
            if key.startswith("rw_"):
                assert key[12:] not in written


def _has_ended(keyed, job):
    return keyed.ask("GET", f"/api/jobs/{job}", keyed.keys["mine"]).json()["status"] not in ("queued", "running")
