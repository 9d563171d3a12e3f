"""Keys and the audit log count in every database that `?database=` names: a key's patterns are for full names."""

import pytest

from schemas.access.callers import ANYBODY, acting_as
from tests.wrapper.access.conftest import BOOTSTRAP

ADMIN = {"Authorization": f"Bearer {BOOTSTRAP}"}
DOCUMENT = {"id": "a", "text": "a", "embedding": [1.0, 0.0]}
DATABASES = (("acme", "main"), ("acme", "other"), ("globex", "main"))
QUERIES = ("", *(f"?database={'/'.join(each)}" for each in DATABASES))


@pytest.fixture(scope="module")
def keyed(service):
    """An app whose databases, the default one too, have a collection `docs` each."""
    namespaces = service.app.extensions["rag.service"].callers_store.namespaces
    with acting_as(ANYBODY):
        for tenant in ("acme", "globex"):
            namespaces.create_tenant(tenant)
        for each in DATABASES:
            namespaces.create_database(*each)
    client = service.client()
    for query in QUERIES:
        client.post(f"/collections{query}", json={"name": "docs"}, headers=ADMIN)
        client.post(f"/collections/docs/documents{query}", json={"documents": [DOCUMENT]}, headers=ADMIN)
    return service


def status(client, headers, path, method="GET", **how):
    answer = client.open(path, method=method, headers=headers, **how)
    return answer.status_code, answer.json.get("code")


NONE, NO_DATABASE = (404, "collection_not_found"), (404, "database_not_found")
FORBIDDEN, FOUND = (403, "collection_forbidden"), (200, None)


class TestReach:
    @pytest.mark.parametrize(
        ("patterns", "reached"),
        [
            (("/acme/*",), (NONE, FOUND, FOUND, NO_DATABASE)),
            (("/acme/main/*",), (NONE, FOUND, NO_DATABASE, NO_DATABASE)),
            (("/acme/main/docs",), (NONE, FOUND, NO_DATABASE, NO_DATABASE)),
            (("/acme/main/other*",), (NONE, NONE, NO_DATABASE, NO_DATABASE)),
            (("docs",), (FOUND, NO_DATABASE, NO_DATABASE, NO_DATABASE)),
            (("docs", "/globex/*"), (FOUND, NO_DATABASE, NO_DATABASE, FOUND)),
            (("*",), (FOUND, FOUND, FOUND, FOUND)),
            (None, (FOUND, FOUND, FOUND, FOUND)),
        ],
    )
    def test_a_key_reaches_the_collections_of_its_patterns(self, keyed, patterns, reached):
        client, headers = keyed.client(), keyed.key("read", collections=patterns)
        for query, expected in zip(QUERIES, reached, strict=True):
            for path in ("/collections/docs", "/collections/docs/documents", "/collections/docs/export"):
                answer = client.get(f"{path}{query}", headers=headers)
                code = None if answer.status_code == 200 else answer.json["code"]
                assert (answer.status_code, code) == expected, (path, query)
            listed = client.get(f"/collections{query}", headers=headers)
            if expected is NO_DATABASE:
                assert listed.json["code"] == "database_not_found"
            else:
                assert [each["name"] for each in listed.json["collections"]] == ["docs"] * (expected is FOUND)

    @pytest.mark.parametrize(
        ("patterns", "listed"),
        [
            (None, DATABASES),
            (("/acme/*",), DATABASES[:2]),
            (("/acme/main/docs", "docs"), DATABASES[:1]),
            (("acme*", "docs"), ()),
        ],
    )
    def test_databases_are_those_that_may_have_something_of_the_key(self, keyed, patterns, listed):
        answer = keyed.client().get("/databases", headers=keyed.key("read", collections=patterns))
        names = [(each["tenant"], each["name"]) for each in answer.json["databases"]]
        assert names == sorted([*listed, ("default_tenant", "default_database")])

    def test_what_a_key_writes_has_to_be_within_its_patterns(self, keyed):
        client, headers = keyed.client(), keyed.key("manage", collections=("/acme/main/team-*", "docs"))
        main = "?database=acme/main"
        made = client.post(f"/collections{main}", json={"name": "team-a"}, headers=headers)
        assert (made.status_code, made.json["name"]) == (201, "team-a")
        assert status(client, headers, f"/collections{main}", "POST", json={"name": "docs"}) == FORBIDDEN
        for method, path, body in (
            ("PATCH", "/collections/team-a", {"name": "docs-2"}),
            ("POST", "/collections/team-a/copy", {"name": "docs-2"}),
            ("PUT", "/aliases/now", {"collection": "team-a"}),
        ):
            assert status(client, headers, f"{path}{main}", method, json=body) == FORBIDDEN, path
        assert status(client, headers, f"/aliases/team-now{main}", "PUT", json={"collection": "team-a"}) == FOUND
        assert status(client, headers, f"/aliases/team-now{main}") == FOUND
        assert status(client, headers, "/aliases/team-now") == (404, "alias_not_found")
        assert client.delete(f"/collections/team-a{main}", headers=ADMIN).status_code == 200


class TestAudit:
    def test_a_line_names_a_collection_in_full(self, keyed, new_lines):
        client, main = keyed.client(), "?database=acme/main"
        client.post(f"/collections{main}", json={"name": "new"}, headers=ADMIN)
        client.post(f"/collections/new/documents{main}", json={"documents": [DOCUMENT]}, headers=ADMIN)
        client.patch(f"/collections/new{main}", json={"name": "newer"}, headers=ADMIN)
        client.get(f"/collections/newer/export{main}", headers=ADMIN)
        client.delete(f"/collections/newer{main}", headers=ADMIN)
        new, newer = "/acme/main/new", "/acme/main/newer"
        told = [each["collection"] for each in new_lines()]
        assert told == [new, new, f"{new},{newer}", newer, newer]
        asked = client.get("/api/audit", query_string={"collection": newer}, headers=ADMIN).json["entries"]
        assert [each["method"] for each in asked] == ["DELETE", "GET", "PATCH"]

    def test_a_database_of_others_is_a_denial(self, keyed, new_lines):
        client, headers = keyed.client(), keyed.key("read", collections=("/acme/*",))
        client.get("/collections?database=globex/main", headers=headers)
        client.get("/collections/docs?database=globex/main", headers=headers)
        client.get("/collections/docs?database=acme/none", headers=headers)
        client.get("/collections/docs", headers=headers)
        told = [(each["collection"], each["status"]) for each in new_lines()]
        foreign = "/globex/main/"
        assert told == [(foreign, 404), (f"{foreign}docs,{foreign}", 404), ("docs", 404)]
