"""The service describes itself: health, metrics, its description, the pages, and rules that hold for every answer."""

import re
from dataclasses import replace
from urllib.parse import urljoin

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings
from tests.support.contract import METHODS, Contract
from tests.support.live import ORIGIN, eventually
from wrapper.routes import service


def test_health_reports_every_part(client, filled):
    filled()
    answer = client.get("/health").json
    assert answer["status"] == "healthy"
    assert answer["service"] == "rag-wrapper"
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", answer["version"])
    databases = [f"{each['tenant']}/{each['name']}" for each in client.get("/databases").json["databases"]]
    listed = [client.get("/collections", query_string={"database": each}).json["collections"] for each in databases]
    assert answer["collections_count"] == sum(map(len, listed))
    assert answer["engine"]["status"] == "ready"
    assert answer["engine"]["mode"] == "child"
    assert answer["catalog"] == {"status": "healthy", "kind": "sqlite"}
    assert answer["disk"]["free_mb"] > answer["disk"]["floor_mb"]
    # A writer is answered a moment before its outbox entry disappears.
    eventually(lambda: client.get("/health").json["index_lag"] == 0)


def test_a_disk_below_its_floor_degrades_the_service_which_says_what_to_do(app, client, monkeypatch):
    service = app.extensions["rag.service"]
    monkeypatch.setattr(service, "settings", replace(service.settings, disk_floor_mb=10**9))
    answer = client.get("/health").json
    assert (answer["status"], "make room" in answer["disk"]["message"]) == ("degraded", True)
    assert "make room" in client.get("/console/service").get_data(as_text=True)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/ready", {"status": "ready"}),
        ("/live", {"status": "alive"}),
        ("/", {"service": "rag-wrapper", "docs": "/docs", "openapi": "/openapi.json"}),
    ],
)
def test_the_service_says_that_and_what_it_is(client, path, told):
    answer = client.get(path)
    assert (answer.status_code, answer.json | told) == (200, answer.json)


@pytest.mark.slow
def test_metrics_count_requests_and_show_states(client, filled):
    name = filled([{"text": "x", "embedding": [1.0, 0.0]}])
    before = _metrics(client)
    for _ in range(3):
        client.post(f"/collections/{name}/query", json={"query_embedding": [1, 0]})
    client.get("/no-such-route")
    after = _metrics(client)
    queries = 'rag_requests_total{method="POST",route="/collections/{name}/query",status="200"}'
    assert after[queries] - before.get(queries, 0) == 3
    timed = 'rag_request_duration_seconds_count{method="POST",route="/collections/{name}/query"}'
    assert after[timed] - before.get(timed, 0) == 3
    plans = 'rag_query_plans_total{plan="exact"}'
    assert after[plans] - before.get(plans, 0) >= 3
    assert after["rag_engine_up"] == 1
    eventually(lambda: _metrics(client)["rag_index_lag"] == 0)
    eventually(lambda: _metrics(client)["rag_documents"] >= 1)
    assert after["rag_disk_free_bytes"] > after["rag_disk_floor_bytes"]
    assert not any("no-such-route" in name for name in after)


def _metrics(client):
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.mimetype == "text/plain"
    lines = (line.rpartition(" ") for line in answer.text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


@pytest.mark.slow
def test_the_served_description_is_the_file_and_made_once(client, monkeypatch):
    answer = client.get("/openapi.json")
    assert (answer.mimetype, answer.json) == ("application/json", Contract.load().document)
    monkeypatch.setattr(service, "_description", lambda: pytest.fail("made again"))
    assert client.get("/openapi.json").data == answer.data


def test_served_routes_and_described_routes_are_equal(app):
    served = {
        (re.sub(r"<(?:[^:<>]+:)?(?:(?:document|connection|job|key|backup)_)?([^<>]+)>", r"{\1}", rule.rule), method)
        for rule in app.url_map.iter_rules()
        for method in rule.methods & METHODS - {"HEAD", "OPTIONS"}
    }
    assert served == Contract.load().described()


@pytest.mark.slow
def test_the_storage_proxy_alone_describes_its_own_routes_and_without_a_list_allows_no_origin(open_client):
    with open_client() as client:
        foreign = client.get("/health", headers={"Origin": ORIGIN})
        assert (foreign.status_code, foreign.json["code"]) == (403, "origin_not_allowed")
        paths = client.get("/openapi.json").json["paths"]
        assert {"/collections", "/query", "/health"} <= paths.keys()
        assert {path.split("/")[2] for path in paths if path.startswith("/api/")} == {
            "audit",
            "backups",
            "keys",
            "me",
            "service",
        }


def test_the_documentation_needs_no_other_host(client):
    page = client.get("/docs")
    assert page.status_code == 200
    references = re.findall(r"""(?:src|href|url)\s*[=:]\s*["']([^"']+)["']""", page.text)
    assert len(references) >= 4
    for reference in references:
        assert not re.match(r"(?:[a-z]+:)?//", reference)
        assert client.get(urljoin("/docs", reference), buffered=True).status_code == 200
    assert "http://" not in page.text
    assert "https://" not in page.text


@pytest.mark.parametrize(
    ("file", "mimetype"),
    [("swagger-ui.css", "text/css"), ("swagger-ui-bundle.js", "text/javascript"), ("swagger.svg", "image/svg+xml")],
)
def test_assets_are_served_and_cached_and_nothing_else(client, file, mimetype):
    answer = client.get(f"/docs/assets/{file}", buffered=True)
    assert (answer.status_code, answer.mimetype) == (200, mimetype)
    assert len(answer.data) > 100
    assert file.endswith(".js") or not re.findall(r"@import|url\(\s*['\"]?(?:https?:)?//", answer.text), "another host"
    again = client.get(f"/docs/assets/{file}", headers={"If-None-Match": answer.headers["ETag"]}, buffered=True)
    assert again.status_code == 304
    assert "max-age" in answer.headers["Cache-Control"]
    for other in ("index.html", "..", "%2e%2e%2fswagger.html", f"{file}.map"):
        assert client.get(f"/docs/assets/{other}").status_code == 404, other


@pytest.mark.parametrize(
    "path",
    ["/no-such-route", "/collections//", "/collections/a/b", "/documents", "/collections//documents", "/health//"],
)
def test_an_unknown_route_answers_with_the_error_body(client, path):
    answer = client.get(path)
    sentence = f"No such route: GET {path}"
    assert answer.status_code == 404
    assert answer.json == {
        "error": sentence,
        "message": sentence,
        "detail": sentence,
        "code": "route_not_found",
        "details": {},
    }


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/collections", ["GET", "HEAD", "OPTIONS", "POST"]),
        ("GET", "/collections/abc/metadata", ["OPTIONS", "PATCH", "PUT"]),
        ("GET", "/collections/abc/documents/all", ["DELETE", "OPTIONS"]),
        ("POST", "/collections/abc/documents/doc-1", ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "PUT"]),
        ("DELETE", "/query", ["GET", "HEAD", "OPTIONS", "POST"]),
    ],
)
def test_a_method_that_a_route_lacks_is_405_with_allow(client, method, path, allowed):
    answer = client.open(path, method=method)
    assert answer.status_code == 405
    assert answer.json["code"] == "method_not_allowed"
    assert sorted(answer.json["details"]["allowed"]) == sorted(answer.headers["Allow"].split(", ")) == allowed


def test_head_answers_like_get_without_a_body_and_options_names_the_methods(client):
    for path in ("/health", "/collections", "/docs", "/metrics", "/openapi.json"):
        answer = client.head(path)
        assert (answer.status_code, answer.data) == (200, b""), path
    allowed = client.options("/collections/abc").headers["Allow"]
    assert set(allowed.split(", ")) == {"GET", "HEAD", "DELETE", "PATCH", "OPTIONS"}


def test_every_answer_carries_a_request_id(client):
    given = "the-clients-own-id"
    for path in ("/health", "/no-such-route", "/collections/nowhere", "/docs"):
        assert client.get(path, headers={"X-Request-ID": given}).headers["X-Request-ID"] == given
        made = [client.get(path).headers["X-Request-ID"] for _ in range(2)]
        assert made[0] != made[1]
        assert re.fullmatch(r"[0-9a-f]{32}", made[0])


@pytest.mark.parametrize("given", ["", "x" * 129, "sp\täce", "a\x7fb", f"rw_ab12cd34_{'s' * 43}"])
def test_a_request_id_that_could_confuse_a_log_is_replaced(client, given):
    assert client.get("/live", headers={"X-Request-ID": given}).headers["X-Request-ID"] != given


def test_an_allowed_origin_may_read_every_answer_even_errors(client):
    for path in ("/health", "/collections/nowhere", "/no-such-route"):
        answer = client.get(path, headers={"Origin": ORIGIN})
        assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
        readable = set(answer.headers["Access-Control-Expose-Headers"].split(", "))
        assert readable == {
            "ETag",
            "Idempotent-Replayed",
            "RateLimit",
            "RateLimit-Policy",
            "Retry-After",
            "WWW-Authenticate",
            "X-Document-Count",
            "X-Request-ID",
        }


def test_a_preflight_is_answered(client):
    asked = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "PATCH",
        "Access-Control-Request-Headers": "content-type, if-match, idempotency-key",
    }
    answer = client.options("/collections/abc/metadata", headers=asked)
    assert answer.status_code in (200, 204)
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "PATCH" in answer.headers["Access-Control-Allow-Methods"]
    allowed = answer.headers["Access-Control-Allow-Headers"].lower()
    assert all(name in allowed for name in ("content-type", "if-match", "idempotency-key"))


@pytest.mark.parametrize(
    ("settings", "users", "relies"),
    [
        ({}, None, True),
        ({}, object(), False),
        ({"access": "keys"}, None, True),
        ({"access": "open"}, None, False),
        ({"api_key": "an-administrators-key"}, None, False),
    ],
)
def test_a_service_that_relies_on_keys_keeps_an_administrator_s(open_client, settings, users, relies):
    ends, code = {"expires_at": "9000-01-01T00:00:00Z"}, "last_administrator" if relies else None
    with open_client(AccessSettings(**settings)) as client:
        access = client.application.extensions["rag.access"]
        access.verifier = users
        if client.get("/api/me").status_code == 200 and relies:
            for wanted, said in (({"scopes": ["read"]}, "first_key_not_admin"), (ends, code)):
                answer = client.post("/api/keys", json={"name": "a", "scopes": ["admin"], **wanted})
                assert (answer.status_code, answer.json["code"]) == (409, said)
        last, client.environ_base["HTTP_X_API_KEY"] = access.stored.create("a", Grant(frozenset({Scope.ADMIN})))
        path = f"/api/keys/{last.id}"
        for field, body in (
            ("expires_at", ends),
            ("scopes", {"scopes": ["chat"], "collections": ["abc"]}),
            (None, None),
        ):
            answer = client.patch(path, json=body) if body else client.delete(path)
            assert (answer.json.get("code"), answer.json.get("details", {}).get("field")) == (code, code and field)
            if not relies:
                return
        assert client.post("/api/keys", json={"name": "b", "scopes": ["admin"]}).status_code == 201
        assert client.delete(path).status_code == 200
