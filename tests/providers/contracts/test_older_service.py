"""A wrapper service with the contract's first version is asked for what it can answer; everything else is refused."""

import numpy as np
import pytest

from providers.contract_tests.model import distances
from providers.contract_tests.samples import batch
from providers.rag_wrapper.provider import RagWrapperProvider
from providers.rag_wrapper.records import to_document, to_info, to_report
from schemas.errors import CollectionNotFoundError, ConflictError, UnsupportedError
from schemas.records import METRICS, GatherSpec, OrderBy
from schemas.scores import score
from schemas.where import parse_where
from tests.providers.contracts.old_service import OldService
from tests.retrieval.stub_service import StubService
from tests.support.http_stub import running

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
