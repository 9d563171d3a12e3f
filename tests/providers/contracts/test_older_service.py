"""A wrapper service with the contract's first version is asked for what it can answer; everything else is refused."""

import json
import re
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest

from providers.contract_tests.model import ModelDocument, distances
from providers.contract_tests.samples import batch
from providers.rag_wrapper.provider import RagWrapperProvider
from providers.rag_wrapper.records import to_document, to_info, to_report
from schemas.errors import CollectionNotFoundError, ConflictError, UnsupportedError
from schemas.records import METRICS, GatherSpec, OrderBy
from schemas.scores import score
from schemas.where import parse_where
from tests.properties.writable_model import WritableModel
from tests.retrieval.stub_service import StubService
from tests.support.http_stub import running

CHROMA = {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$not_contains"}
MAX_PAGE = 1000


class RefusedError(Exception):
    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


class OldService:
    """An old service. `changes_documents` says whether it has a route that deletes documents. With `without_counts`,
    its collections are described by name and metadata only."""

    def __init__(self):
        self.collections = {}
        self.requests = []
        self.url = ""
        self.changes_documents = True
        self.not_found = 404, {}, {"error": "Not found"}

    def answer(self, method, target, headers, body):
        path, query = (
            unquote(urlsplit(target).path),
            {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()},
        )
        self.requests.append((method, path))
        try:
            return self._route(method, path, query, body)
        except RefusedError as error:
            return error.status, {}, {"error": str(error)}

    def _route(self, method, path, query, body):
        if path == "/health":
            return 200, {}, {"status": "healthy"}
        if (method, path) == ("POST", "/query"):
            return self._query(body)
        if (method, path) == ("GET", "/collections"):
            return 200, {}, {"collections": [self._told(name) for name in self.collections]}
        if (method, path) == ("POST", "/collections"):
            if body["name"] in self.collections:
                raise RefusedError(400, f"Collection '{body['name']}' already exists")
            metadata = body.get("metadata") or {}
            self.collections[body["name"]] = WritableModel(metadata, metadata.get("hnsw:space", "l2"))
            return 201, {}, {"status": "created", "name": body["name"], "metadata": metadata}
        found = re.fullmatch(r"/collections/([^/]+)/?(.*)", path)
        if not found:
            return self.not_found
        name, part = found.groups()
        match method, part:
            case "GET", "":
                self._collection(name)
                return 200, {}, self._told(name)
            case "DELETE", "":
                self._collection(name)
                del self.collections[name]
                return 200, {}, {"status": "deleted", "name": name}
            case "GET", "documents":
                return self._page(name, query)
            case "POST", "documents":
                return self._add(name, body["documents"])
            case "DELETE", "documents" if self.changes_documents:
                gone = self._collection(name).remove(lambda document: document.id in body["ids"])
                return 200, {}, {"status": "deleted", "count": gone}
            case _, "documents":
                return 405, {}, {"error": "Method not allowed"}
        return self.not_found

    def _told(self, name):
        found = self.collections[name]
        return {"name": name, "count": len(found.documents), "metadata": found.metadata}

    def _collection(self, name):
        if name not in self.collections:
            raise RefusedError(404, f"Collection '{name}' not found")
        return self.collections[name]

    def _add(self, name, documents):
        collection = self._collection(name)
        for each in documents:
            embedding = _vector(each["embedding"])
            collection.put(ModelDocument(each["id"], each["text"], each["metadata"], embedding))
        return 201, {}, {"status": "added", "collection": name, "count": len(documents)}

    def _page(self, name, query):
        limit, offset = min(int(query.get("limit", 100)), MAX_PAGE), int(query.get("offset", 0))
        where = json.loads(query["where"]) if "where" in query else {}
        _check(where)
        found = self._collection(name).matching(where)
        page = [_told(each) for each in found[offset : offset + limit]]
        return 200, {}, {"documents": page, "count": len(page), "total": len(found)}

    def _query(self, body):
        collection, where = self._collection(body["collection"]), body.get("where") or {}
        _check(where)
        nearest = collection.nearest(_vector(body["query_embedding"]), body["top_k"], where)
        results = [{**_told(collection.by_id(each)), "distance": distance} for each, distance in nearest]
        return (
            200,
            {},
            {"results": results, "collection": body["collection"], "collection_metadata": collection.metadata},
        )


def _told(document):
    return {"id": document.id, "text": document.text, "metadata": document.metadata}


def _vector(numbers):
    if not isinstance(numbers, list):
        raise RefusedError(400, "embedding must be an array of numbers")
    return np.array(numbers, "f4")


def _check(where):
    """Refuse what Chroma refuses."""
    if not where:
        return
    if len(where) != 1:
        raise RefusedError(400, "Expected where to have exactly one operator")
    ((key, operand),) = where.items()
    if key in ("$and", "$or"):
        if len(operand) < 2:
            raise RefusedError(400, f"Expected {key} to have at least two")
        for part in operand:
            _check(part)
        return
    (operator,) = operand
    if operator not in CHROMA or operand[operator] == []:
        raise RefusedError(400, f"Expected where operator, got {operator}")


HTML = (404, {"Content-Type": "text/html"}, b"<!doctype html><title>404 Not Found</title>")


@pytest.fixture(params=["json", "html"])
def service(request):
    with running(OldService()) as service:
        if request.param == "html":
            service.not_found = HTML
        yield service


@pytest.fixture
def provider(service):
    with RagWrapperProvider({"url": service.url}, sleep=lambda seconds: None) as provider:
        yield provider


@pytest.fixture
def filled(provider):
    provider.create_collection("docs", {"a": 1})
    provider.add_documents("docs", batch(*((f"d{n}", {"n": n, "odd": n % 2 == 1}) for n in range(12))))
    return "docs"


def ids_of(page):
    return [each.id for each in page.documents]


@pytest.mark.parametrize("metric", METRICS)
def test_search_adds_what_the_older_answers_lack(provider, metric):
    created = provider.create_collection("docs", {}, metric=metric)
    assert (created.metric, created.count, created.dimension) == (metric, 0, None)
    stored = batch(*((f"d{number}", {"n": number}) for number in range(6)))
    provider.add_documents("docs", stored)
    query = np.arange(4, dtype="f4")
    expected = distances(query, stored.embeddings, metric)
    for where, rows in ((None, range(6)), ({"n": {"$gte": 2, "$lt": 4}}, (2, 3)), ({"n": {"$in": []}}, ())):
        found = provider.search("docs", query, top_k=6, where=parse_where(where))
        nearest = sorted(rows, key=lambda row: expected[row])
        assert [each.document.id for each in found] == [f"d{row}" for row in nearest]
        assert [each.score for each in found] == pytest.approx([score(expected[row], metric) for row in nearest])


def test_pages_go_on_where_the_last_one_ended(provider, filled, service):
    for where, expected in ((None, range(12)), ({"odd": True, "n": {"$gt": 2.5}}, (3, 5, 7, 9, 11))):
        found, cursor = [], None
        while True:
            page = provider.documents(filled, parse_where(where), limit=2, cursor=cursor)
            assert page.total == len(expected)
            found += ids_of(page)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == [f"d{number}" for number in expected]
    assert ("POST", "/collections/docs/documents/search") not in service.requests


def test_documents_are_deleted_by_ids_or_filter_where_the_service_can(provider, filled, service):
    provider.delete_documents(filled, ids=["d0", "never"])
    provider.delete_documents(filled, where=parse_where({"$not": {"odd": True}}))
    assert ids_of(provider.documents(filled)) == [f"d{number}" for number in (1, 3, 5, 7, 9, 11)]
    service.changes_documents = False
    with pytest.raises(UnsupportedError, match="too old for deleting documents"):
        provider.delete_documents(filled, ids=["d0"])


def test_collections_and_health_of_an_older_service(provider, filled):
    assert provider.collection(filled).count == 12
    assert [each.name for each in provider.collections()] == ["docs"]
    assert provider.health().details["collections_count"] == 1
    with pytest.raises(ConflictError):
        provider.create_collection(filled, {})
    provider.delete_collection(filled)
    for ask in (
        lambda: provider.collection(filled),
        lambda: provider.documents(filled),
        lambda: provider.search(filled, np.ones(4)),
    ):
        with pytest.raises(CollectionNotFoundError):
            ask()


def test_requests_beyond_the_older_service_are_refused_because_it_is_too_old(provider, filled, service):
    documents = batch(("new", {}))
    vector = np.ones(4, "f4")
    service.requests.clear()
    for ask in (
        lambda: provider.text_search(filled, "text"),
        lambda: provider.gather(filled, ["d0"], GatherSpec(("odd",))),
        lambda: provider.ordered_documents(filled, order_by=[OrderBy("n")]),
        lambda: provider.documents(filled, with_embeddings=True),
        lambda: provider.documents(filled, parse_where({"n": {"$exists": True}})),
        lambda: provider.search(filled, vector, where=parse_where({"name": {"$lt": "m"}})),
        lambda: provider.delete_documents(filled, where=parse_where({"n": {"$exists": False}})),
        lambda: provider.add_documents(filled, documents, replace_where=parse_where({"n": 1})),
    ):
        with pytest.raises(UnsupportedError, match="The service at the connection's URL is too old for") as raised:
            ask()
        assert raised.value.code == "service_too_old"
    assert provider.collection(filled).count == 12
    assert not {("POST", "/query"), ("GET", "/collections/docs/documents")} & set(service.requests)


def test_an_upgraded_service_is_asked_for_more(provider, filled, service):
    provider.documents(filled)
    told = service._told
    service._told = lambda name: told(name) | {"revision": 7}
    service.requests.clear()
    with pytest.raises(UnsupportedError):
        provider.documents(filled)
    assert ("POST", "/collections/docs/documents/search") in service.requests


def test_what_other_languages_write_is_understood():
    loose = {"name": "docs", "id": 7, "count": 3.0, "dimension": 4.0, "metric": "hamming", "metadata": None}
    info = to_info(loose)
    assert (info.id, info.count, info.dimension, info.metric, info.metadata) == ("7", 3, 4, "hamming", {})
    assert to_document({"id": 8, "text": None, "metadata": None}).id == "8"
    found = to_document({"text": None, "metadata": {"n": 1}})
    assert (found.text, found.metadata) == ("", {"n": 1})
    assert found.id == to_document({"text": None, "metadata": {"n": 1}}).id
    with running(StubService()) as service, RagWrapperProvider({"url": service.url}) as provider:
        service.answers = [(503, {}, {"status": "unhealthy", "version": "0.2.0", "index_lag": None})]
        assert provider.health().message == "The service at the connection's URL says that it is unhealthy"


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ({"status": "unhealthy", "version": "0.2.0", "index_lag": None}, {"status": "unhealthy", "version": "0.2.0"}),
        ({"status": "degraded", "version": None, "index_lag": 3}, {"status": "degraded", "index_lag": 3}),
        ({"status": "ok", "uptime": 1}, {}),
    ],
)
def test_a_report_says_what_it_knows(report, told):
    assert to_report(report) == told
