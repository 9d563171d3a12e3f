"""Collections, tenants and databases of Chroma's protocol."""

import uuid

import pytest

from tests.interfaces.chroma.conftest import Face, told
from tests.support.live import eventually

OFF = {"enabled": False, "config": {}}
SCHEMA = {"keys": {"#document": {"string": {"fts_index": OFF}}, "secret": {"string": {"string_inverted_index": OFF}}}}


def nested(depth):
    """Return an object with that many levels of objects."""
    return {} if depth == 1 else {"a": nested(depth - 1)}


def test_a_new_collection_is_described_as_chroma_does_with_its_embedding_function_unchanged(face):
    name = face.make()
    answer = face.described(name).json
    told = {"metadata": None, "dimension": None, "tenant": "default_tenant", "database": "default_database"}
    assert answer.items() >= {"name": name, **told}.items()
    hnsw = {"space": "l2", "ef_construction": 100, "ef_search": 100, "max_neighbors": 16}
    hnsw |= {"resize_factor": 1.2, "sync_threshold": 1000}
    assert answer["configuration_json"] == {"hnsw": hnsw, "spann": None, "embedding_function": None}
    index = answer["schema"]["keys"]["#embedding"]["float_list"]["vector_index"]
    assert index["config"]["space"] == "l2"
    function = {"type": "known", "name": "default", "config": {"a": [1, {"b": None}]}}
    name = face.make(configuration={"embedding_function": function})
    assert face.described(name).json["configuration_json"]["embedding_function"] == function


OF_SCHEMA = {"keys": {"#embedding": {"float_list": {"vector_index": {"config": {"space": "ip"}}}}}}


@pytest.mark.parametrize(
    ("body", "space", "ef_search"),
    [
        ({"metadata": {"hnsw:space": "cosine", "hnsw:search_ef": 7}}, "cosine", 7),
        ({"configuration": {"spann": {"space": "cosine"}}}, "cosine", 100),
        ({"configuration": {"hnsw": {"space": "l2"}}, "metadata": {"hnsw:space": "cosine"}}, "cosine", 100),
        ({"schema": OF_SCHEMA}, "ip", 100),
    ],
)
def test_the_metric_is_that_of_configuration_schema_or_metadata(client, face, body, space, ef_search):
    name = face.make(**body)
    answer = face.described(name).json
    hnsw = answer["configuration_json"]["hnsw"]
    assert (hnsw["space"], hnsw["ef_search"], answer["metadata"]) == (space, ef_search, body.get("metadata"))
    assert client.get(f"/collections/{name}").json["metric"] == space


def test_metadata_that_would_configure_a_collection_and_is_not_understood_is_refused(face):
    name = face.make(metadata={"hnsw:space": "ip"})
    for body in ({"name": f"{name}-new"}, {"name": name, "get_or_create": True}):
        answer = face.client.post(f"{face.database}/collections", json=body | {"metadata": {"hnsw:metric": "cosine"}})
        assert (answer.status_code, answer.json["message"][:31]) == (400, "metadata.hnsw:metric is unknown")
    assert face.change(name, new_metadata={"hnsw:space": "cosine"}).status_code == 400
    assert face.change(name, new_metadata={"hnsw:space": "ip", "a": 1}).status_code == 200


def test_what_configures_a_collection_of_chromas_clients_may_be_sent_back_as_it_is(client, face):
    held = {"hnsw:space": "ip", "hnsw:search_ef": 7}
    name = face.make(metadata=held)
    again = client.post("/collections?get_or_create=1", json={"name": name, "metadata": held})
    assert (again.status_code, again.json["metadata"]) == (200, held)
    place = f"/collections/{name}/metadata"
    for metadata in ({**held, "a": 1}, {"hnsw:search_ef": 7, "a": 1}):
        for change in (client.put, client.patch):
            assert change(place, json={"metadata": metadata}).json["metadata"] == {**held, "a": 1}
    for value in (None, 8, "7"):
        refused = client.patch(place, json={"metadata": {"hnsw:search_ef": value}})
        assert (refused.status_code, refused.json["details"]["path"]) == (400, "hnsw:search_ef")


class TestSchemas:
    def test_a_schema_comes_back(self, face):
        keys = face.described(face.make(schema=SCHEMA)).json["schema"]["keys"]
        assert keys["secret"] == SCHEMA["keys"]["secret"]
        assert keys["#document"] == SCHEMA["keys"]["#document"]
        assert keys["#embedding"]["float_list"]["vector_index"]["enabled"] is True

    def test_what_has_no_index_by_the_schema_is_not_filtered_by(self, face):
        name = face.make(schema=SCHEMA)
        face.post(name, "add", ids=["a"], embeddings=[[1, 0]], metadatas=[{"secret": "x", "n": 1}])
        for what in ("get", "query", "delete"):
            for filters, said in (
                ({"where": {"$or": [{"n": 1}, {"secret": "x"}]}}, "Cannot filter using metadata key 'secret'"),
                ({"where_document": {"$not_contains": "x"}}, "fts index is disabled"),
            ):
                answer = face.post(name, what, query_embeddings=[[1, 0]], **filters)
                assert told(answer) == (400, "InvalidArgumentError")
                assert said in answer.json["message"], what
        assert face.get(name, where={"n": 1})["ids"] == ["a"]
        assert face.get(name, where={"secret": 1})["ids"] == []

    def test_the_vectors_are_those_of_the_schema(self, face):
        function = {"type": "known", "name": "mine", "config": {"dim": 6}}
        vectors = {"space": "cosine", "embedding_function": function}
        schema = {"keys": {"#embedding": {"float_list": {"vector_index": {"config": vectors}}}}}
        default = {"type": "known", "name": "default", "config": {}}
        asked = {"hnsw": {"space": "l2"}, "embedding_function": default}
        told = face.described(face.make(schema=schema, configuration=asked)).json["configuration_json"]
        assert (told["hnsw"]["space"], told["embedding_function"]) == ("cosine", function)
        other = {**function, "config": {"dim": 4}}
        body = {"name": "conflict", "schema": schema, "configuration": {"embedding_function": other}}
        refused = face.client.post(f"{face.database}/collections", json=body)
        assert refused.status_code == 400
        assert "both collection config and schema" in refused.json["message"]


def test_a_taken_name_is_refused_in_chromas_words_and_left_as_it_is_where_that_is_wanted(face):
    name = face.make(metadata={"a": 1})
    answer = face.client.post(f"{face.database}/collections", json={"name": name})
    assert told(answer) == (409, "UniqueConstraintError")
    assert answer.json["message"] == f"Collection [{name}] already exists"
    wanted = {"name": name, "metadata": {"b": 2}, "get_or_create": True}
    again = face.client.post(f"{face.database}/collections", json=wanted)
    assert (again.status_code, again.json) == (200, face.described(name).json)
    assert again.json["metadata"] == {"a": 1}


def test_the_configuration_changes_where_it_can_and_keeps_no_others_from_being_listed(face):
    name = face.make(configuration={"hnsw": {"space": "cosine"}})
    assert face.change(name, new_configuration={"hnsw": {"ef_search": 200}}).status_code == 200
    assert face.described(name).json["configuration_json"]["hnsw"]["ef_search"] == 200
    for wrong in ({"hnsw": {"space": "l2"}}, {"hnsw": 7}, {"hnsw": ["space"]}, {"hnsw": {}, "spann": {}}):
        assert told(face.change(name, new_configuration=wrong)) == (400, "InvalidArgumentError")
    name = face.make()
    for depth in (40, 246, 251):
        answer = face.change(name, new_configuration={"embedding_function": nested(depth)})
        assert told(answer) == (400, "InvalidArgumentError")
    assert face.client.get(f"{face.database}/collections").status_code == 200


def test_an_id_that_is_gone_or_is_none_finds_nothing(face, filled):
    assert face.client.delete(f"{face.database}/collections/{filled}").json == {}
    face.client.post(f"{face.database}/collections", json={"name": filled})
    answer = face.post(filled, "get")
    assert told(answer) == (404, "NotFoundError")
    assert answer.json["message"] == f"Collection [{face.ids[filled]}] does not exist"
    assert face.client.delete(f"{face.database}/collections/{filled}-none").status_code == 404
    answer = face.post("nouuid", "get")
    assert (answer.status_code, answer.json["message"]) == (400, "Collection ID is not a valid UUIDv4")


class TestDatabases:
    @pytest.fixture
    def other(self, client):
        tenant, database = f"t{uuid.uuid4().hex[:8]}", f"d{uuid.uuid4().hex[:8]}"
        assert client.post("/api/v2/tenants", json={"name": tenant}).json == {}
        assert client.post(f"/api/v2/tenants/{tenant}/databases", json={"name": database}).json == {}
        return Face(client, f"/api/v2/tenants/{tenant}/databases/{database}")

    def test_names_are_free_in_each_of_them(self, client, face, other):
        name = face.make()
        assert other.make(name=name) == name
        for one, vector in ((face, [1, 0]), (other, [0, 0, 1])):
            assert one.post(name, "add", ids=["a"], embeddings=[vector]).status_code == 201
        assert other.described(name).json["dimension"] == 3
        assert other.post(name, "query", query_embeddings=[[0, 0, 1]]).json["ids"] == [["a"]]
        assert client.get(f"/collections/{name}").json["dimension"] == 2
        listed = client.get(f"{other.database}/collections").json
        assert [each["name"] for each in listed] == [name]
        assert client.get(f"{other.database}/collections_count").json == 1
        assert name in [each["name"] for each in client.get("/collections").json["collections"]]
        found = other.post(other.ids[name], "get").json
        assert found["ids"] == ["a"]
        assert face.post(other.ids[name], "get").status_code == 404

    def test_they_are_listed_by_tenant_and_a_deleted_one_takes_its_collections_along(self, client, other):
        tenant = other.database.split("/")[4]
        (listed,) = client.get(f"/api/v2/tenants/{tenant}/databases").json
        assert listed == client.get(other.database).json
        assert client.get(f"/api/v2/tenants/{tenant}").json == {"name": tenant, "resource_name": None}
        assert client.get(f"/api/v2/tenants/{tenant}-none").json["message"] == f"Tenant [{tenant}-none] not found"
        assert client.get(f"/api/v2/tenants/{tenant}-none/databases").json == []
        name = other.make()
        assert client.delete(f"{other.database}/collections/{name}?ids=a").status_code == 400
        assert client.delete(other.database, json={"where": {}}).status_code == 400
        assert client.delete(other.database).json == {}
        assert client.get(other.database).status_code == 404
        assert other.described(name).status_code == 404
        assert client.delete(other.database).json["error"] == "NotFoundError"

    def test_each_is_made_once_in_a_tenant_that_is_there_and_with_a_name_that_one_can_have(self, client, other):
        tenant, database = other.database.split("/")[4], other.database.split("/")[6]
        for path, name in (("/api/v2/tenants", tenant), (f"/api/v2/tenants/{tenant}/databases", database)):
            assert client.post(path, json={"name": name}).status_code == 409
        assert client.post("/api/v2/tenants/nobody-here/databases", json={"name": "main"}).status_code == 404
        refused = client.post(
            "/api/v2/tenants/nobody-here/databases/main/collections", json={"name": "docs", "get_or_create": True}
        )
        assert told(refused) == (404, "NotFoundError")
        for name in ("ab", "", None, 7, "a/b c", "a..b"):
            assert told(client.post("/api/v2/tenants", json={"name": name})) == (400, "InvalidArgumentError"), name


class TestServer:
    def test_what_clients_ask_first(self, client):
        assert client.get("/api/v2/heartbeat").json["nanosecond heartbeat"] > 1e18
        assert client.get("/api/v2").json["nanosecond heartbeat"] > 1e18
        assert client.get("/api/v2/version").json == "1.0.0"
        assert client.get("/api/v2/healthcheck").status_code == 200
        assert client.get("/api/v2/pre-flight-checks").json["supports_base64_encoding"] is True
        identity = client.get("/api/v2/auth/identity").json
        assert identity == {"user_id": "open", "tenant": "default_tenant", "databases": ["default_database"]}

    def test_what_is_not_there_is_said_in_chromas_words(self, client, face, filled):
        for what in ("fork", "functions/attach", "conditional/get"):
            assert told(face.post(filled, what)) == (501, "ChromaError")
        assert client.get("/api/v2/nothing").json["error"] == "NotFoundError"
        assert told(client.get("/api/v1/heartbeat")) == (410, "Unimplemented")

    def test_reset_is_refused_unless_it_is_set_and_so_is_deleting_the_default_database(self, client, face, filled):
        """As a client does that is to delete the collection '..', which its library makes of the path."""
        answer = client.post("/api/v2/reset")
        assert told(answer) == (403, "ChromaError")
        assert answer.json["message"] == "Reset is disabled by config"
        answer = client.delete(face.database)
        assert (answer.status_code, answer.json["code"]) == (403, "reset_disabled")
        assert face.described(filled).status_code == 200

    def test_an_index_tells_how_far_it_is(self, client, face, filled):
        url = f"{face.database}/collections/{face.ids[filled]}/indexing_status"

        def indexed():
            answer = client.get(url).json
            return answer if answer["num_unindexed_ops"] == 0 else None

        answer = eventually(indexed)
        assert answer == {"num_indexed_ops": 3, "num_unindexed_ops": 0, "total_ops": 3, "op_indexing_progress": 1.0}


@pytest.mark.slow
def test_questions_in_words_find_what_a_client_stored_with_the_services_embeddings(face):
    model = "all-MiniLM-L6-v2"
    texts = ["Backups are kept for thirty days.", "The coffee machine is cleaned every Friday."]
    embedded = face.client.post("/v1/embeddings", json={"model": model, "input": texts}).json
    name = face.make(metadata={"hnsw:space": "cosine", "embedding_model": model})
    vectors = [each["embedding"] for each in embedded["data"]]
    assert face.post(name, "add", ids=["a", "b"], embeddings=vectors, documents=texts).status_code == 201
    asked = {"query": "How long are backups kept?", "collections": [f"{name}*"]}
    assert [each["doc_id"] for each in face.client.post("/api/search", json=asked).json["results"]] == ["a"]
