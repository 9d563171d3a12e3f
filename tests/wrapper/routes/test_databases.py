"""`?database=` asks for the collections of another database: they are like those of the default one, and apart."""

import json
import re
import uuid

import pytest

from schemas.access.callers import ANYBODY, acting_as

HISTORY = re.compile(r'(?<="history":")[0-9a-f]+')
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
A = {"id": "a", "text": "red fox", "metadata": {"group": 1, "kind": "x"}, "embedding": [1.0, 0.0]}
B = {"id": "b", "text": "blue fox", "metadata": {"group": 1, "kind": "y"}, "embedding": [0.0, 1.0]}
C = {"id": "c", "text": "red hen", "metadata": {"group": 2}, "embedding": [1.0, 1.0]}
LINES = "".join(json.dumps(each) + "\n" for each in (A, C))
NDJSON = {"content_type": "application/x-ndjson"}
TIMES = (
    *("checked_at", "recall_measured_at", "index_bytes", "recall_at_10", "documents_held", "state", "fault"),
    *("rebuild", "rebuilds", "waiting_writes", "indexed", "plan", "filtered_recall_at_10", "search_width"),
)
"""What depends on when the index is looked at, and when it has a write; the recall with a filter on chance, too."""


@pytest.fixture(scope="module")
def databases(app):
    """A tenant with two databases; the default tenant has one that is called like the tenant."""
    tenant = f"t{uuid.uuid4().hex[:10]}"
    namespaces = app.extensions["rag.service"].callers_store.namespaces
    with acting_as(ANYBODY):
        namespaces.create_tenant(tenant)
        for each in ("main", "other"):
            namespaces.create_database(tenant, each)
        namespaces.create_database("default_tenant", tenant)
    return tenant


@pytest.fixture
def name():
    return f"docs-{uuid.uuid4().hex[:12]}"


def walk(name):
    """Yield requests that together ask every route of collections for a collection of that name, in an order in which
    they make sense."""
    one, documents, other, alias = f"/collections/{name}", f"/collections/{name}/documents", f"{name}-2", f"{name}-now"
    yield "POST", "/collections", {"json": {"name": name, "metadata": {"team": "red"}}}
    yield "POST", "/collections", {"json": {"name": name}}
    yield "POST", "/collections?get_or_create=true", {"json": {"name": name}}
    yield "POST", documents, {"json": {"documents": [A, B]}}
    yield "POST", documents, {"data": LINES, **NDJSON}
    yield "GET", f"/collections?prefix={name}", {}
    yield "GET", f"/collections?prefix={name}&include=index", {}
    yield "GET", one, {}
    yield "PUT", f"{one}/metadata", {"json": {"metadata": {"team": "blue"}}}
    yield "PATCH", f"{one}/metadata", {"json": {"metadata": {"size": 3}}}
    yield "GET", documents, {}
    yield "POST", f"{documents}/search", {"json": {"where": {"group": 1}, "include": ["embedding"]}}
    yield "GET", f"{documents}/count", {}
    yield "GET", f"{documents}/a", {}
    yield "GET", f"{documents}/nobody", {}
    yield "PUT", f"{documents}/d", {"json": {"text": "new", "embedding": [0.5, 0.5]}}
    yield "PATCH", f"{documents}/d", {"json": {"metadata": {"group": 2}}}
    yield "PATCH", documents, {"json": {"where": {"group": 2}, "metadata": {"seen": True}}}
    yield "GET", f"{one}/metadata-values?name=kind", {}
    yield "GET", f"{one}/facets?fields=kind,group", {}
    yield "GET", f"{one}/projection", {}
    yield "POST", f"{one}/text-search", {"json": {"query": "fox"}}
    yield "POST", f"{one}/query", {"json": {"query_embedding": [1, 0], "top_k": 2}}
    yield "POST", f"{one}/query", {"json": {"queries": [{"ids": ["a"]}, {"query_embedding": [0, 1]}]}}
    yield "POST", "/query", {"json": {"collection": name, "query_embedding": [1, 0], "gather": {"by": "group"}}}
    yield "POST", f"{one}/gather", {"json": {"ids": ["a", "c"], "by": "group"}}
    yield "GET", f"{one}/export", {}
    yield "GET", f"{one}/changes", {}
    yield "POST", f"{one}/import", {"data": LINES, **NDJSON}
    yield "GET", f"{one}/index", {}
    yield "POST", f"{one}/copy", {"json": {"name": other}}
    yield "POST", f"{one}/copy", {"json": {"name": other}}
    yield "PUT", f"/aliases/{alias}", {"json": {"collection": name}}
    yield "PUT", f"/aliases/{alias}", {"json": {"collection": other}}
    yield "GET", f"/aliases/{alias}", {}
    yield "GET", f"/aliases?collection={other}", {}
    yield "GET", f"/collections/{alias}", {}
    yield "POST", f"/collections/{alias}/query", {"json": {"query_embedding": [1, 0], "top_k": 1}}
    yield "DELETE", f"/collections/{alias}", {}
    yield "PATCH", f"/collections/{other}", {"json": {"name": f"{name}-3"}}
    yield "GET", f"/aliases/{alias}", {}
    yield "DELETE", f"/aliases/{alias}", {}
    yield "GET", f"/aliases/{alias}", {}
    yield "DELETE", documents, {"json": {"ids": ["a"]}}
    yield "DELETE", f"{documents}/b", {}
    yield "DELETE", f"{documents}/all", {}
    yield "DELETE", one, {}
    yield "DELETE", one, {}
    yield "GET", f"/collections?prefix={name}", {}
    yield "POST", f"/collections/{name}-3/index/check", {}
    yield "POST", f"/collections/{name}-3/index/rebuild", {}
    yield "POST", f"/collections/{name}-3/reembed", {"json": {"back": True}}
    yield "GET", f"/collections/{name}-3/reembed", {}
    yield "DELETE", f"/collections/{name}-3/reembed", {}


def ask(client, database, method, path, how):
    joined = f"{path}{'&' if '?' in path else '?'}database={database}" if database else path
    return client.open(joined, method=method, **how)


def comparable(answer, beginning):
    """Return an answer without what is of its own in every collection, and with short names in errors."""
    if answer.mimetype == "application/x-ndjson":
        return answer.status_code, HISTORY.sub("HISTORY", answer.text)
    told = answer.json if answer.status_code >= 400 else without_times(answer.json)
    status = 200 if answer.status_code in (201, 202) else answer.status_code
    return status, UUID.sub("UUID", json.dumps(told)).replace(beginning, "")


def without_times(told):
    if isinstance(told, list):
        return [without_times(each) for each in told]
    if not isinstance(told, dict):
        return told
    return {key: without_times(value) for key, value in told.items() if key not in TIMES}


class TestAlike:
    @pytest.mark.slow
    @pytest.mark.parametrize("named", ["{0}/main", "{0}"])
    def test_every_route_of_collections_answers_as_in_the_default_database(self, client, databases, name, named):
        database = named.format(databases)
        beginning = f"/{database}/" if "/" in database else f"/default_tenant/{database}/"
        for method, path, how in walk(name):
            answers = [comparable(ask(client, each, method, path, how), beginning) for each in (None, database)]
            assert answers[0] == answers[1], (method, path)

    def test_the_walk_asks_every_route_of_collections(self, app):
        asked = set()
        matched = app.url_map.bind("")
        for method, path, _ in walk("docs"):
            asked.add((method, matched.match(path.partition("?")[0], method, return_rule=True)[0].rule))
        there = {
            (method, rule.rule)
            for rule in app.url_map.iter_rules()
            for method in rule.methods - {"HEAD", "OPTIONS"}
            if rule.rule.startswith(("/collections", "/aliases", "/query"))
        }
        assert there - asked == {("GET", "/query"), ("GET", "/aliases")} - asked

    def test_the_default_database_has_a_name_too_and_errors_name_a_collection_in_full(self, client, databases, name):
        client.post("/collections", json={"name": name})
        for named in ("default_database", "default_tenant/default_database"):
            assert client.get(f"/collections/{name}?database={named}").json["name"] == name
        answer = client.get(f"/collections/{name}?database={databases}/main")
        assert (answer.status_code, answer.json["code"]) == (404, "collection_not_found")
        assert answer.json["details"] == {"collection": f"/{databases}/main/{name}"}


class TestApart:
    @pytest.fixture
    def places(self, client, databases, name):
        """Databases with a collection of one name each, whose document tells which one it is in."""
        places = [None, f"{databases}/main", f"{databases}/other", databases]
        for number, each in enumerate(places):
            ask(client, each, "POST", "/collections", {"json": {"name": name}})
            document = {"id": "it", "text": f"here {number}", "metadata": {"n": number}, "embedding": [1.0, number]}
            how = {"json": {"documents": [document]}}
            assert ask(client, each, "POST", f"/collections/{name}/documents", how).status_code == 201
        return places

    def test_collections_of_one_name_are_others_in_each(self, client, places, name):
        for number, each in enumerate(places):
            found = ask(client, each, "GET", f"/collections/{name}/documents", {}).json["documents"]
            assert [one["text"] for one in found] == [f"here {number}"]
            how = {"json": {"query_embedding": [1, 0], "top_k": 5}}
            answer = ask(client, each, "POST", f"/collections/{name}/query", how).json
            assert [one["metadata"]["n"] for one in answer["results"]] == [number]

    def test_lists_and_counts_are_those_of_the_database(self, client, databases, places, name):
        for each in places[1:3]:
            listed = ask(client, each, "GET", "/collections", {}).json["collections"]
            assert name in [one["name"] for one in listed]
            assert len(listed) == ask(client, each, "GET", "/query", {}).json["collections"]
            assert not any("/" in one["name"] for one in listed)
        assert not any("/" in one["name"] for one in client.get("/collections").json["collections"])

    def test_an_alias_is_one_of_its_database(self, client, places, name):
        alias = f"{name}-now"
        ask(client, places[1], "PUT", f"/aliases/{alias}", {"json": {"collection": name}})
        for each in places:
            there = each == places[1]
            assert ask(client, each, "GET", f"/aliases/{alias}", {}).status_code == (200 if there else 404)
            listed = [one["alias"] for one in ask(client, each, "GET", "/aliases", {}).json["aliases"]]
            assert (alias in listed) is there
        assert client.post("/collections", json={"name": alias}).status_code == 201
        taken = ask(client, places[1], "POST", "/collections", {"json": {"name": alias}})
        assert (taken.status_code, taken.json["code"]) == (409, "alias_exists")

    def test_an_etag_and_a_cursor_hold_in_one_database_only(self, client, places, name):
        etag = ask(client, places[1], "GET", f"/collections/{name}", {}).headers["ETag"]
        same = {"headers": {"If-None-Match": etag}}
        states = [ask(client, each, "GET", f"/collections/{name}", same).status_code for each in places]
        assert states == [200, 304, 200, 200]
        written = {"headers": {"If-Match": etag}, "json": {"metadata": {"a": 1}}}
        refused = ask(client, places[2], "PATCH", f"/collections/{name}/metadata", written)
        assert (refused.status_code, refused.json["code"]) == (412, "precondition_failed")
        more = {"json": {"documents": [B]}}
        for each in places:
            ask(client, each, "POST", f"/collections/{name}/documents", more)
        path = f"/collections/{name}/documents?limit=1.0"
        cursor = ask(client, places[1], "GET", path, {}).json["next_cursor"]
        for each, status in zip(places, (400, 200, 400, 400), strict=True):
            assert ask(client, each, "GET", f"{path}&cursor={cursor}", {}).status_code == status

    def test_pages_of_collections_go_on_in_their_database(self, client, places, name):
        ask(client, places[1], "POST", "/collections", {"json": {"name": f"{name}-2"}})
        path = f"/collections?limit=1&prefix={name}"
        first = ask(client, places[1], "GET", path, {}).json
        assert [one["name"] for one in first["collections"]] == [name]
        cursor = first["next_cursor"]
        second = ask(client, places[1], "GET", f"{path}&cursor={cursor}", {}).json
        assert ([one["name"] for one in second["collections"]], second["next_cursor"]) == ([f"{name}-2"], None)
        for each in (places[0], *places[2:]):
            refused = ask(client, each, "GET", f"{path}&cursor={cursor}", {})
            assert (refused.status_code, refused.json["code"]) == (400, "invalid_cursor")

    def test_an_idempotency_key_repeats_nothing_in_another_database(self, client, places, name):
        how = {"json": {"name": f"{name}-once"}, "headers": {"Idempotency-Key": uuid.uuid4().hex}}
        first = ask(client, places[1], "POST", "/collections", how)
        again = ask(client, places[1], "POST", "/collections", how)
        assert (first.json, first.status_code) == (again.json, again.status_code)
        assert (again.headers["Idempotent-Replayed"], again.json["name"]) == ("true", f"{name}-once")
        for each in (places[0], *places[2:]):
            refused = ask(client, each, "POST", "/collections", how)
            assert (refused.status_code, refused.json["code"]) == (409, "idempotency_key_reused")
            assert ask(client, each, "GET", f"/collections/{name}-once", {}).status_code == 404


class TestRefused:
    @pytest.mark.parametrize("path", ["/collections", "/collections/docs", "/aliases", "/aliases/now", "/query"])
    def test_a_database_that_is_not_there_is_named_and_nothing_made(self, client, databases, name, path):
        for tenant, database in ((databases, "nothing"), (f"{databases}-not", "main"), ("default_tenant", "nothing")):
            there = f"?database={tenant}/{database}"
            for answer in (client.get(f"{path}{there}"), client.post(f"/collections{there}", json={"name": name})):
                assert (answer.status_code, answer.json["code"]) == (404, "database_not_found")
                assert answer.json["details"] == {"tenant": tenant, "database": database}
        assert client.get(f"/collections/{name}").status_code == 404

    def test_what_is_no_name_of_one_is_refused(self, client):
        for database in ("", "/", "a/b/c", "/main", "main/", "..", "a b", "%00", "x" * 600, "*"):
            answer = client.get(f"/collections?database={database}")
            assert (answer.status_code, answer.json["code"]) == (400, "invalid_name"), database
            assert answer.json["details"] == {"field": "database"}

    def test_a_body_names_no_database(self, client, databases, name):
        answer = client.post("/collections", json={"name": name, "database": databases})
        assert (answer.status_code, answer.json["code"]) == (400, "unknown_field")
        assert "'database' in the query string" in answer.json["message"]
