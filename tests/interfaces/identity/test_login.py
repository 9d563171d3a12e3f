"""The official MCP client logs in by itself, told how by what `/mcp` answers."""

import threading
from contextlib import contextmanager

import pytest
import requests
from flask import Flask, request
from werkzeug.serving import make_server

from interfaces.identity.opening import open_identity
from interfaces.mcp import streamable
from interfaces.tool import Tool
from interfaces.web import protected_resource
from providers.outbound.network import Network
from schemas.access.callers import Scope, acting_as, current
from schemas.errors import ForbiddenOriginError, RagError, UnauthorizedError
from schemas.settings import OidcSettings
from tests.support.identity.issuer import signing_key
from tests.support.identity.mcp_login import Kept, logging_in
from tests.support.live import PATIENCE_SECONDS
from tests.support.mcp_clients import within_bounds
from wrapper.web import error_statuses, route_table
from wrapper.web.error_statuses import SCOPE_MISSING, error_response
from wrapper.web.parsing_budget import budget_of
from wrapper.web.route_table import RouteTable

NOBODY = {"type": "object", "properties": {}}
SOMEBODY = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


class ScopeMissingError(ForbiddenOriginError):
    """A refusal with status 403."""

    __init__ = RagError.__init__


class Guarded:
    """A small application of MCP's route and the metadata, behind the check of tokens. `wanted` is the scope that
    `/mcp` needs, `refused` what the answers without rights said."""

    def __init__(self, issuer, *audiences, claims=""):
        self.wanted = Scope.READ
        self.refused = []
        self.app = app = Flask("guarded", static_folder=None)
        app.config["MAX_BODY_BYTES"] = 1 << 20
        app.extensions["rag.parsing"] = budget_of(1 << 20)
        app.extensions["rag.routes"] = RouteTable()
        app.extensions["rag.challenge"] = protected_resource.challenge
        tool = Tool(
            "rag_context_health", "Say who asks.", NOBODY, SOMEBODY, lambda _: current().id, lambda user: {"id": user}
        )
        app.extensions["rag.mcp"] = streamable.Endpoint({"rag_context_health": tool}, may_write=False)
        route_table.register(app, streamable, protected_resource)
        error_statuses.init_app(app)
        self.server = make_server("127.0.0.1", 0, self._guarded, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        settings = OidcSettings(issuer.url, audiences or (f"{self.url}/mcp",), claims)
        self.identity = app.extensions[protected_resource.IDENTITY] = open_identity(settings, Network())

    def _guarded(self, environ, start):
        with self.app.request_context(environ):
            try:
                if request.path != "/mcp":
                    return self.app(environ, start)
                caller = self._authenticated()
            except RagError as error:
                response = error_response(error)
                self.refused.append((response.status_code, response.headers.get("WWW-Authenticate")))
                return response(environ, start)
        with acting_as(caller):
            return self.app(environ, start)

    def _authenticated(self):
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind != "Bearer" or not token:
            raise UnauthorizedError("There is no key", code="key_missing")
        caller = self.identity.verify(token)
        if not caller.may(self.wanted):
            raise ScopeMissingError("Another scope is needed", code=SCOPE_MISSING, scope=self.wanted.value)
        return caller


@contextmanager
def serving(guarded):
    thread = threading.Thread(target=guarded.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield guarded
    finally:
        guarded.server.shutdown()
        thread.join()
        guarded.server.server_close()


@pytest.fixture
def guarded(issuer):
    with serving(Guarded(issuer)) as guarded:
        yield guarded


async def who(url, kept):
    async with logging_in(f"{url}/mcp", kept) as client, client:
        return (await client.call_tool("rag_context_health")).structured_content["id"]


@pytest.mark.slow
def test_the_official_client_logs_in_by_itself(issuer, guarded):
    kept = Kept()
    assert within_bounds(who, guarded.url, kept) == "user:ada"
    [login] = kept.logins
    assert login["resource"] == f"{guarded.url}/mcp"
    assert set(login["scope"].split()) == {"read", "write", "manage", "chat"}
    assert guarded.refused[0] == (
        401,
        f'Bearer resource_metadata="{guarded.url}/.well-known/oauth-protected-resource/mcp"',
    )
    assert len(issuer.clients) == 1
    assert within_bounds(who, guarded.url, kept) == "user:ada"
    assert len(kept.logins) == 1, "the token that it keeps is still good"
    issuer.user = {"sub": "bob"}
    assert within_bounds(who, guarded.url, Kept()) == "user:bob"


@pytest.mark.slow
def test_the_client_logs_in_again_when_the_issuer_has_withdrawn_the_key(issuer, guarded):
    kept = Kept()
    within_bounds(who, guarded.url, kept)
    kept.tokens = kept.tokens.model_copy(update={"access_token": issuer.token(key=signing_key("withdrawn"))})
    issuer.rotate("second")
    assert within_bounds(who, guarded.url, kept) == "user:ada"
    assert len(kept.logins) == 2
    assert 'error="invalid_token"' in guarded.refused[-1][1]


def test_the_client_gets_a_new_token_without_asking_the_user(issuer, guarded):
    async def twice(url, kept):
        async with logging_in(f"{url}/mcp", kept) as client, client:
            return [(await client.call_tool("rag_context_health")).structured_content["id"] for _ in range(2)]

    issuer.first_seconds = 0
    kept = Kept()
    assert within_bounds(twice, guarded.url, kept) == ["user:ada"] * 2
    assert len(kept.logins) == 1
    assert issuer.asked.count("/token") == 2


def test_a_client_asks_for_the_scope_that_it_lacks(issuer, guarded):
    kept = Kept()
    within_bounds(who, guarded.url, kept)
    guarded.wanted, issuer.grants_scopes = Scope.MANAGE, ("read", "manage")

    assert within_bounds(who, guarded.url, kept) == "user:ada"
    assert len(kept.logins) == 2
    said = guarded.refused[-1][1]
    assert 'error="insufficient_scope"' in said
    assert 'scope="manage"' in said


def test_an_issuer_that_does_not_answer_is_no_fault_of_the_token(issuer, guarded):
    issuer.behaviour.is_down = True
    token = issuer.token(aud=f"{guarded.url}/mcp")
    answer = requests.post(
        f"{guarded.url}/mcp", json={}, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS
    )
    assert (answer.status_code, answer.json()["code"]) == (503, "identity_unavailable")
    assert "Retry-After" in answer.headers
    assert "WWW-Authenticate" not in answer.headers
