"""What clients are told that come without a valid token, and where to get one."""

import pytest
from flask import Flask, request

from interfaces.identity.verifier import open_identity
from interfaces.web.protected_resource import IDENTITY, OF_MCP, WELL_KNOWN, blueprint, challenge
from providers.outbound.network import Network
from schemas.errors import ForbiddenOriginError, UnauthorizedError
from schemas.settings import OidcSettings, RegistrySettings, RetrievalSettings
from tests.interfaces.access.conftest import app_with_keys
from tests.support.contract import Contract
from wrapper.web import error_statuses
from wrapper.web.error_statuses import SCOPE_MISSING, error_response

ISSUER = "https://login.example/realms/rag"


@pytest.fixture
def app_of(tmp_path):
    """`app_of(audience, …, claims=…)`: an application with users of an issuer, which is not asked."""

    def make(*audiences, claims=""):
        table = tmp_path / "claims.yaml"
        table.write_text(claims)
        settings = OidcSettings(ISSUER, audiences or ("rag",), str(table) if claims else "")
        app = Flask("small", static_folder=None)
        app.extensions[IDENTITY] = open_identity(settings, Network())
        app.extensions["rag.challenge"] = challenge
        app.register_blueprint(blueprint)
        error_statuses.init_app(app)
        return app

    return make


def told(app, path=WELL_KNOWN, base="https://rag.example"):
    answer = app.test_client().get(path, base_url=base)
    assert answer.status_code == 200
    Contract.load().check_response("GET", path, answer.status_code, answer.headers, answer.data)
    return answer.json


def refusal(app, error, path="/mcp", base="https://rag.example"):
    with app.test_request_context(path, base_url=base):
        return error_response(error).headers["WWW-Authenticate"]


def test_the_metadata_name_the_issuer_what_a_client_may_ask_for_and_the_resource(app_of):
    assert told(app_of()) == {
        "resource": "https://rag.example",
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "resource_name": "rag-wrapper",
        "scopes_supported": ["read", "write", "manage", "chat"],
    }
    assert "scopes_supported" not in told(app_of(claims="scopes: {claim: groups, map: {a: [read]}}"))
    assert "scopes_supported" not in told(app_of(claims="scopes: {claim: scope, map: {root: [admin]}}"))
    assert told(app_of(claims="scopes: {claim: scp, map: {Rag.Read: [read]}}"))["scopes_supported"] == ["Rag.Read"]
    app = app_of("rag")
    assert told(app)["resource"] == "https://rag.example"
    assert told(app, OF_MCP)["resource"] == "https://rag.example/mcp"
    assert told(app, OF_MCP, "http://localhost:5006")["resource"] == "http://localhost:5006/mcp"
    app = app_of("rag", "https://corp.example/rag/mcp")
    assert told(app)["resource"] == told(app, OF_MCP)["resource"] == "https://corp.example/rag/mcp"


def test_a_refusal_leads_to_the_metadata(app_of):
    missing = UnauthorizedError("There is no key", code="key_missing")
    app = app_of()
    assert refusal(app, missing) == f'Bearer resource_metadata="https://rag.example{OF_MCP}"'
    assert refusal(app, missing, "/api/search") == f'Bearer resource_metadata="https://rag.example{WELL_KNOWN}"'
    app = app_of("https://corp.example/rag/mcp")
    assert refusal(app, missing) == f'Bearer resource_metadata="https://corp.example/rag{OF_MCP}"'
    assert refusal(app, missing, "/query") == f'Bearer resource_metadata="https://corp.example/rag{WELL_KNOWN}"'


@pytest.mark.parametrize("code", ["key_unknown", "key_expired", "key_revoked"])
def test_a_refusal_says_that_the_token_is_wrong(app_of, code):
    said = refusal(app_of(), UnauthorizedError('A "strange"\\ tökén\n', code=code))
    assert said.endswith(r'error="invalid_token", error_description="A \"strange\"\\ t?k?n?"')


class Forbidden(ForbiddenOriginError):
    def __init__(self, **details):
        Exception.__init__(self)
        self.message, self.code, self.details = "Not with this token", SCOPE_MISSING, details


@pytest.mark.parametrize(
    ("claims", "scope", "said"),
    [
        ("", "manage", ', error="insufficient_scope", scope="manage"'),
        ("scopes: {claim: scope, map: {rag.all: [manage]}}", "write", ', error="insufficient_scope", scope="rag.all"'),
        ("scopes: {claim: groups, map: {a: [read]}}", "read", ', error="insufficient_scope"'),
        ("", "other", ', error="insufficient_scope"'),
        ("", None, ', error="insufficient_scope"'),
        ("", ["read"], ', error="insufficient_scope"'),
    ],
)
def test_a_refusal_names_the_scope_to_ask_for(app_of, claims, scope, said):
    refused = refusal(app_of(claims=claims), Forbidden(scope=scope))
    assert refused == f'Bearer resource_metadata="https://rag.example{OF_MCP}"{said}'


def test_without_an_issuer_there_are_no_metadata_and_a_refusal_asks_for_a_bearer_token(client):
    for path in (WELL_KNOWN, OF_MCP):
        answer = client.get(path)
        assert (answer.status_code, answer.json["code"]) == (404, "route_not_found")
    app = Flask("bare")
    with app.test_request_context("/mcp"):
        assert error_response(UnauthorizedError("There is no key")).headers["WWW-Authenticate"] == "Bearer"
        assert challenge(request) == "Bearer"
        assert "WWW-Authenticate" not in error_response(ForbiddenOriginError("https://x.example")).headers


def test_the_service_opens_the_issuer_of_its_settings_without_finding_it(tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_OIDC_ISSUER", "http://127.0.0.1:9/realms/rag")
    monkeypatch.setenv("RAG_OIDC_AUDIENCE", "rag")
    with app_with_keys(tmp_path, RegistrySettings(), RetrievalSettings()) as app:
        client = app.test_client()
        assert client.get(OF_MCP).json["authorization_servers"] == ["http://127.0.0.1:9/realms/rag"]
        refused = client.post("/mcp", json={}).headers["WWW-Authenticate"]
        assert refused == f'Bearer resource_metadata="http://localhost{OF_MCP}"'
