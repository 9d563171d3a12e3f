"""The table of claims: what it gives, and that a wrong one is named. What the settings open."""

import pytest

from interfaces.identity.claims import ClaimsTable, read_claims_table
from interfaces.identity.verifier import open_identity
from providers.outbound.network import Network
from schemas.access.callers import Scope
from schemas.errors import ConfigurationError
from schemas.settings import OidcSettings
from tests.support.identity.issuer import AUDIENCE
from tests.support.live import eventually
from wrapper.background import Looks

KEYCLOAK = """
scopes:
  claim: [realm_access, roles]
  map:
    rag-reader: [read, chat]
    rag-admin: [admin]
collections:
  claim: groups
  map:
    /team-a: ["team-a-*", shared]
    /team-b: ["team-b-*", shared]
    /everything: ["*"]
"""


@pytest.fixture
def table(tmp_path):
    """`table(text)`: the table that a file with this text holds."""

    def read(text):
        file = tmp_path / "claims.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_claims_table(str(file))

    return read


def test_without_a_file_scopes_have_our_names_and_all_collections_are_there():
    table = read_claims_table("")
    assert table.scopes_of({"scope": "openid read manage"}) == {Scope.READ, Scope.MANAGE}
    assert table.scopes_of({"scope": ["read", "chat", 7]}) == {Scope.READ, Scope.CHAT}
    assert table.scopes_of({"scp": "read"}) == table.scopes_of({}) == frozenset()
    assert table.collections_of({}) is None


def test_claims_give_scopes_and_collections(table):
    table = table(KEYCLOAK)
    claims = {"realm_access": {"roles": ["rag-reader", "offline_access"]}, "groups": ["/team-a", "/team-b", "/x"]}
    assert table.scopes_of(claims) == {Scope.READ, Scope.CHAT}
    assert table.collections_of(claims) == ("team-a-*", "shared", "team-b-*")
    assert table.collections_of({"groups": ["/team-a", "/everything"]}) is None
    assert table.collections_of({"groups": []}) == table.collections_of({}) == ()


def test_a_claim_that_does_not_have_the_value_gives_nothing(table):
    table = table(KEYCLOAK)
    roles = ({"rag-admin": True}, [["rag-admin"]], "rag-reader rag-admin", ["RAG-ADMIN", "rag-admin "])
    for claims in (
        *({"realm_access": access} for access in (None, "rag-admin", ["rag-admin"])),
        *({"realm_access": {"roles": each}} for each in roles),
        {"realm_access.roles": ["rag-admin"]},
        {"roles": ["rag-admin"]},
    ):
        assert table.scopes_of(claims) == frozenset(), claims


def test_names_may_have_dots_only_scopes_are_split_at_spaces_and_without_a_map_they_have_our_names(table):
    named = table("scopes: {claim: https://rag.example/roles, map: {reader: [read]}}")
    assert named.scopes_of({"https://rag.example/roles": ["reader"]}) == {Scope.READ}
    text = "scopes: {{claim: {}, map: {{admin: [admin], reader: [read]}}}}"
    assert table(text.format("scp")).scopes_of({"scp": "reader x"}) == {Scope.READ}
    assert table(text.format("department")).scopes_of({"department": "we admin"}) == frozenset()
    assert table("scopes: {claim: roles}").scopes_of({"roles": ["write", "other"]}) == {Scope.WRITE}


def test_clients_are_offered_what_they_can_ask_for_but_not_the_strongest(table):
    assert ClaimsTable().asked_for(Scope.CONNECT) == "connect"
    assert (table(KEYCLOAK).offered(), table(KEYCLOAK).asked_for(Scope.READ)) == (None, None)
    own = table("scopes: {claim: scp, map: {Rag.All: [manage, chat], Rag.Read: [read], Rag.Root: [admin]}}")
    assert own.offered() == ("Rag.All", "Rag.Read")
    asked = {scope: own.asked_for(scope) for scope in Scope}
    assert asked[Scope.READ] == "Rag.Read"
    assert asked[Scope.WRITE] == asked[Scope.CHAT] == "Rag.All"
    assert asked[Scope.CONNECT] == asked[Scope.ADMIN] == "Rag.Root"
    assert table("scopes: {claim: scope, map: {r: [read]}}").asked_for(Scope.ADMIN) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must map scopes and collections"),
        ("scope: {}", "has 'scope', which means nothing"),
        ("scopes: read", "scopes must map claim and map"),
        ("collections:\n#  claim: groups", "collections must map claim and map"),
        ("scopes: {map: {a: [read]}}", "scopes.claim must be"),
        ("scopes: {claim: [a, 7]}", "scopes.claim must be"),
        ("scopes: {claim: a, mpa: {}}", "scopes has 'mpa'"),
        ("scopes: {claim: a, map: {}}", "scopes.map must map"),
        ("scopes: {claim: a, map: {on: [read]}}", "scopes.map has True, which is no text"),
        ("scopes: {claim: a, map: {x: read}}", "scopes.map.x must be a list"),
        ("scopes: {claim: a, map: {x: [reed]}}", "'reed' is no scope: there are read, write"),
        ("scopes: {claim: a, map: {x: [read], x: [admin]}}", "'x' stands twice"),
        ("collections: {claim: groups}", "collections.map must map"),
        ("collections: {claim: groups, map: {x: []}}", "must name 1 to 100 collections"),
        ("collections: {claim: groups, map: {x: ['a*b']}}", "Collection name must be"),
        ("scopes: {claim: [", "cannot be read"),
        ("scopes: !!python/object/apply:os.system [ls]", "cannot be read"),
        ("[" * 2_000, "cannot be read"),
        (b"#" * 1_000_001, "has more than 1,000,000 bytes"),
    ],
)
def test_a_wrong_table_is_named_in_one_sentence(table, tmp_path, text, said):
    with pytest.raises(ConfigurationError) as raised:
        table(text)
    assert raised.value.message.startswith(f"RAG_OIDC_CLAIMS: {tmp_path / 'claims.yaml'} ")
    assert said in raised.value.message
    assert "\n" not in raised.value.message


def test_a_file_that_is_not_there_is_named_and_stops_the_start_where_there_is_an_issuer(tmp_path):
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            read_claims_table(str(path))
        with pytest.raises(ConfigurationError, match="RAG_OIDC_CLAIMS"):
            open_identity(OidcSettings("https://a.example", ("rag",), str(path)), Network())


def test_the_keys_are_there_before_the_first_token(issuer):
    looks = Looks()
    try:
        identity = open_identity(OidcSettings(issuer.url, (AUDIENCE,)), Network(), looks)
        eventually(lambda: issuer.fetches() == 1)
        assert identity.verify(issuer.token()).id == "user:ada"
        assert issuer.fetches() == 1
    finally:
        looks.close()


@pytest.mark.parametrize(
    ("audiences", "resource"),
    [
        (("rag",), None),
        (("api://rag", "urn:rag"), None),
        (("rag", "https://rag.example/mcp", "https://other.example"), "https://rag.example/mcp"),
        (("https://[", "http://localhost:5006"), "http://localhost:5006"),
        (("https://rag.example/?a=1",), None),
    ],
)
def test_the_resource_is_the_first_audience_that_is_a_url(audiences, resource):
    assert open_identity(OidcSettings("https://a.example", audiences), Network()).resource == resource
