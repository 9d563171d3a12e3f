"""The official MCP client logs in by itself, told how by what `/mcp` answers."""

import pytest
import requests
from werkzeug.serving import make_server

from schemas.settings import OidcSettings, RegistrySettings, RetrievalSettings
from tests.interfaces.access.conftest import app_with_keys
from tests.interfaces.conftest import serving
from tests.support.identity.issuer import signing_key
from tests.support.identity.mcp_login import Kept, logging_in
from tests.support.live import PATIENCE_SECONDS
from tests.support.mcp_clients import within_bounds

pytestmark = pytest.mark.slow


class Guarded:
    """A service in this process whose users come from an issuer. `refused` is what its answers without rights said."""

    def __init__(self, issuer, folder):
        self.refused = []
        self.server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        oidc = OidcSettings(issuer.url, (f"{self.url}/mcp",))
        self.opened = app_with_keys(folder, RegistrySettings(), RetrievalSettings(mcp_write=True), oidc=oidc)

    def _answer(self, environ, start):
        def begin(status, headers, *more):
            if status[:3] in ("401", "403"):
                self.refused.append((int(status[:3]), dict(headers).get("WWW-Authenticate")))
            return start(status, headers, *more)

        return self.app(environ, begin)


@pytest.fixture
def guarded(issuer, tmp_path):
    guarded = Guarded(issuer, tmp_path)
    with guarded.opened as guarded.app, serving(guarded.server):
        yield guarded


async def who(url, kept, tool="rag_context_stats", times=1):
    """Return the id of the user who logged in to call the tool."""
    async with logging_in(f"{url}/mcp", kept) as client, client:
        for _ in range(times):
            assert not (await client.call_tool(tool, {"name": "x"} if tool == "session_start" else {})).is_error
    headers = {"Authorization": f"Bearer {kept.tokens.access_token}"}
    return requests.get(f"{url}/api/me", headers=headers, timeout=PATIENCE_SECONDS).json()["id"]


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


def test_the_client_logs_in_again_when_the_issuer_has_withdrawn_the_key(issuer, guarded):
    kept = Kept()
    within_bounds(who, guarded.url, kept)
    kept.tokens = kept.tokens.model_copy(update={"access_token": issuer.token(key=signing_key("withdrawn"))})
    issuer.rotate("second")
    assert within_bounds(who, guarded.url, kept) == "user:ada"
    assert len(kept.logins) == 2
    assert 'error="invalid_token"' in guarded.refused[-1][1]


def test_the_client_gets_a_new_token_without_asking_the_user(issuer, guarded):
    issuer.first_seconds = 0
    kept = Kept()
    assert within_bounds(who, guarded.url, kept, "rag_context_stats", 2) == "user:ada"
    assert len(kept.logins) == 1
    assert issuer.asked.count("/token") == 2


def test_a_client_asks_for_the_scope_that_it_lacks(issuer, guarded):
    kept = Kept()
    within_bounds(who, guarded.url, kept)
    issuer.grants_scopes = ("read", "write")
    assert within_bounds(who, guarded.url, kept, "session_start") == "user:ada"
    assert len(kept.logins) == 2
    said = guarded.refused[-1][1]
    assert 'error="insufficient_scope"' in said
    assert 'scope="write"' in said


def test_an_issuer_that_does_not_answer_is_no_fault_of_the_token(issuer, request):
    issuer.behaviour.is_down = True
    guarded = request.getfixturevalue("guarded")
    token = issuer.token(aud=f"{guarded.url}/mcp")
    answer = requests.post(
        f"{guarded.url}/mcp", json={}, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS
    )
    assert (answer.status_code, answer.json()["code"]) == (503, "identity_unavailable")
    assert "Retry-After" in answer.headers
    assert "WWW-Authenticate" not in answer.headers
