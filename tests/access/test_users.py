"""Users of an identity provider at a real service of two workers: what their tokens let them do, and how they log in."""

import time

import pytest

from tests.access.conftest import ADMIN_KEY
from tests.access.keyed import CANARY, MINE, THEIRS, KeyedService
from tests.support.identity.issuer import running_issuer
from tests.support.live import eventually, free_port, live_service

CLAIMS = """
scopes:
  claim: groups
  map:
    readers: [read]
    authors: [read, write, chat]
    operators: [admin]
collections:
  claim: teams
  map:
    mine: [mine*]
    all: ["*"]
"""


@pytest.fixture(scope="module")
def issuer():
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def users(issuer, tmp_path_factory, processes):
    """A service that takes keys and the issuer's tokens."""
    directory = tmp_path_factory.mktemp("users")
    table = directory / "claims.yaml"
    table.write_text(CLAIMS)
    port = free_port()
    settings = {
        "port": port,
        "workers": 2,
        "api_key": ADMIN_KEY,
        "mcp_write": "on",
        "oidc_issuer": issuer.url,
        "oidc_audience": f"http://127.0.0.1:{port}/mcp",
        "oidc_claims": table,
    }
    with live_service(directory, **settings) as service:
        yield KeyedService(service, ADMIN_KEY)


@pytest.fixture
def token(issuer, users):
    """`token(groups=[…])`: an access token for the service, whose bearer is ada of the team `mine` unless told."""

    def make(**claims):
        return issuer.token(**{"aud": f"{users.url}/mcp", "groups": ["readers"], "teams": ["mine"], **claims})

    return make


def test_a_token_is_worth_what_the_table_makes_of_its_claims(users, token):
    me = users.ask("GET", "/api/me", token(groups=["authors"])).json()
    assert (me["id"], me["name"], me["kind"]) == ("user:ada", "Ada", "user")
    assert (me["scopes"], me["collections"], me["where"]) == (["read", "write", "chat"], ["mine*"], None)
    for claims, status in (
        ({"groups": ["operators"]}, 403),  # administrators have all collections
        ({"groups": ["operators"], "teams": ["all"]}, 200),
        ({"groups": ["authors"]}, 403),
    ):
        assert users.ask("GET", "/api/keys", token(**claims)).status_code == status, claims


def test_a_user_sees_and_may_what_a_key_of_the_same_rights_does(users, token):
    reader, author = token(), token(groups=["authors"])
    listed = users.ask("GET", "/collections", reader)
    assert [each["name"] for each in listed.json()["collections"]] == [MINE]
    answer = users.ask("GET", f"/collections/{THEIRS}/documents", reader)
    assert (answer.status_code, CANARY in answer.text.replace(THEIRS, "")) == (404, False)
    documents = [{"id": "by-a-user", "text": "a", "embedding": [1.0, 0.0]}]
    path = f"/collections/{MINE}/documents"
    assert users.ask("POST", path, reader, {"documents": documents}).json()["code"] == "scope_missing"
    assert users.ask("POST", path, author, {"documents": documents}).status_code in (200, 201, 202)


def test_what_a_user_makes_is_theirs_by_whichever_token(users, token):
    start = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "session_start", "arguments": {}}}
    refused = users.ask("POST", "/mcp", token(), start)
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
    assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]
    ada, bob = (token(groups=["authors"], sub=sub) for sub in ("ada", "bob"))
    session = users.call_tool(ada, "session_start", name="ada's")["structuredContent"]["session_id"]
    note = {"note": "The key is under the mat.", "session_id": session}
    assert users.call_tool(bob, "session_note", **note)["isError"]
    later = token(groups=["authors"], iat=int(time.time()) - 5)
    kept = users.call_tool(later, "session_note", **note)
    assert not kept.get("isError"), f"the next token of a user is the same user's: {kept}"
    found = [users.ask("POST", "/collections/rag-notes/documents/search", each, {}).text for each in (ada, bob)]
    assert ["under the mat" in each for each in found] == [True, False]


def test_a_user_uploads_into_their_own_collections_alone(users, token):
    ada = token(groups=["authors"])
    file = {"Content_Type": "text/plain", "X_Filename": "a.txt"}
    for foreign in (THEIRS, "theirs-invented"):
        answer = users.ask("POST", f"/api/documents?collection={foreign}", ada, b"Planted by ada.", **file)
        assert answer.status_code == 403
    taken = users.ask("POST", "/api/documents?collection=mine-uploads", ada, b"Planted by ada.", **file)
    assert taken.status_code == 202, taken.text
    path = f"/api/jobs/{taken.json()['job']['id']}"
    eventually(lambda: users.ask("GET", path, ada).json()["status"] == "done")
    names = {each["name"] for each in users.ask("GET", "/collections", users.admin_key).json()["collections"]}
    assert "theirs-invented" not in names
