"""Keys count in Chroma's protocol: by collection and by database, in its words."""

import uuid

import pytest

from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.settings import AccessSettings
from tests.interfaces.chroma.conftest import DATABASE, Face, told
from tests.support.apps import running_app

ADMIN = "the-administrators-key-of-these-tests"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    keys = AccessSettings(access="keys", api_key=ADMIN)
    with running_app(tmp_path_factory.mktemp("keyed"), access=keys) as app:
        yield app


def client_with(app, **headers):
    """Return a client that sends these headers with each request."""
    client = app.test_client()
    client.environ_base |= {f"HTTP_{name}": text for name, text in headers.items()}
    return client


@pytest.fixture
def with_key(app):
    """`with_key(scope, collections)` returns the face for a new key."""

    def make(scope, collections=None, database=DATABASE):
        grant = Grant(frozenset({scope}), collections=collections)
        _, key = app.extensions["rag.access"].stored.create(f"key-{uuid.uuid4().hex[:8]}", grant)
        return Face(client_with(app, X_CHROMA_TOKEN=key), database)

    return make


@pytest.fixture
def admin(app):
    return Face(client_with(app, AUTHORIZATION=f"Bearer {ADMIN}"))


@pytest.fixture
def filled(admin):
    name = admin.make()
    admin.post(name, "add", ids=["a", "b"], embeddings=[[1, 0], [0, 1]])
    return name


def test_getting_what_is_there_needs_no_more_than_reading(with_key, filled):
    reader = with_key(Scope.READ)
    body = {"name": filled, "get_or_create": True}
    assert reader.client.post(f"{DATABASE}/collections", json=body).json["name"] == filled
    for refused in (body | {"name": f"{filled}-new"}, body | {"get_or_create": False}):
        assert told(reader.client.post(f"{DATABASE}/collections", json=refused)) == (403, "AuthError")


class TestDatabases:
    @pytest.fixture
    def tenant(self, admin):
        name = f"t{uuid.uuid4().hex[:8]}"
        admin.client.post("/api/v2/tenants", json={"name": name})
        for database in ("main", "other"):
            admin.client.post(f"/api/v2/tenants/{name}/databases", json={"name": database})
        return name

    def test_a_key_for_a_tenant_has_all_of_it_and_nothing_else(self, with_key, admin, filled, tenant):
        main = f"/api/v2/tenants/{tenant}/databases/main"
        own = with_key(Scope.MANAGE, (f"/{tenant}/*",), database=main)
        name = own.make(name=filled)
        assert own.post(name, "add", ids=["z"], embeddings=[[1, 0, 0]]).status_code == 201
        assert own.get(name)["ids"] == ["z"]
        assert own.client.post(f"/api/v2/tenants/{tenant}/databases", json={"name": "third"}).json == {}
        assert own.client.delete(f"/api/v2/tenants/{tenant}/databases/third").json == {}
        assert told(own.client.get(f"{DATABASE}/collections/{filled}")) == (404, "NotFoundError")
        assert told(own.client.post("/api/v2/tenants", json={"name": "another"})) == (403, "AuthError")
        assert told(own.client.delete(DATABASE)) == (403, "ChromaError")
        assert admin.get(filled)["ids"] == ["a", "b"]

    def test_a_key_for_one_database_is_told_which(self, with_key, tenant):
        own = with_key(Scope.MANAGE, (f"/{tenant}/main/*",))
        identity = own.client.get("/api/v2/auth/identity").json
        assert (identity["tenant"], identity["databases"]) == (tenant, ["main"])
        assert own.client.get(f"/api/v2/tenants/{tenant}").status_code == 200
        listed = own.client.get(f"/api/v2/tenants/{tenant}/databases").json
        assert [each["name"] for each in listed] == ["main"]
        assert own.client.get(f"/api/v2/tenants/{tenant}/databases/other").status_code == 404
        refused = own.client.post(f"/api/v2/tenants/{tenant}/databases", json={"name": "third"})
        assert told(refused) == (403, "AuthError")
