import base64
from contextlib import closing

import numpy as np
import pytest

from providers.contract_tests.samples import nobody_there
from providers.outbound.json_client import JsonClient
from providers.outbound.network import Network
from providers.rag_wrapper.client import IDS_AT_ONCE, WrapperClient
from providers.rag_wrapper.dialect import PATIENT, RouteNotFoundError, WrapperDialect
from providers.rag_wrapper.one_model import ATTEMPTS, of_one_model
from schemas import errors
from schemas.connections import CollectionInfo
from schemas.records import Document
from schemas.storage.reembedding import ReembeddedMeanwhileError
from tests.retrieval.stub_service import StubService
from tests.support.http_stub import running


@pytest.fixture
def service():
    with running(StubService()) as service:
        yield service


@pytest.fixture
def waits():
    return []


def client(url, **options):
    return WrapperClient(JsonClient(url, WrapperDialect(url), network=Network(), **options))


@pytest.fixture
def provider(service, waits):
    with closing(client(service.url + "/", retry=PATIENT, sleep=waits.append)) as provider:
        yield provider


def document(document_id, **metadata):
    return {"id": document_id, "text": f"text {document_id}", "metadata": metadata, "embedding": [0.5, -1.0]}


def failure(slug="some_code", **details):
    return {"error": "Bad thing", "message": "Bad thing", "detail": "Bad thing", "code": slug, "details": details}


def test_a_collection_is_created_once_also_when_another_creates_it_at_the_same_moment(provider, service):
    with pytest.raises(errors.CollectionNotFoundError, match="Collection 'docs' not found"):
        provider.collection("docs")
    assert provider.ensure_collection("docs", {"a": 1})["metadata"] == {"a": 1}
    assert provider.ensure_collection("docs", {"a": 2})["metadata"] == {"a": 1}
    assert service.store.calls == ["ensure_collection"]
    service.store.ensure_collection("notes", {"theirs": 1})
    not_found = failure("collection_not_found", collection="notes")
    service.answers = [(404, {}, not_found), (409, {}, failure("collection_exists"))]
    assert provider.ensure_collection("notes", {})["metadata"] == {"theirs": 1}


def test_documents_go_and_come_back_page_by_page(provider, service):
    provider.ensure_collection("docs", {})
    documents = [document(f"d{number}", n=number, even=number % 2 == 0) for number in range(8)]
    assert provider.add_documents("docs", documents)["created"] == 8
    assert [found["id"] for found in provider.documents("docs")] == [f"d{number}" for number in range(8)]
    even = provider.documents("docs", {"even": True}, order_by=["-n"])
    assert [found["id"] for found in even] == ["d6", "d4", "d2", "d0"]
    (found,) = provider.documents("docs", ids=["d3"], include=["embedding"])
    assert found == document("d3", n=3, even=False)
    page = provider.page("docs", {"even": True}, limit=2)
    assert (page["count"], page["total"]) == (2, 4)


def test_embeddings_travel_as_base64_float32_and_gather_facets_and_quoted_names_as_the_wire_says(provider, service):
    service.answers = [(200, {}, {})]
    provider.query("docs", np.array([0.1, 2]), top_k=5, where={"a": 1}, gather={"by": "section_id"})
    (request,) = service.requests
    assert request["path"] == "/query"
    assert request["body"].pop("query_embedding") == base64.b64encode(np.array([0.1, 2], "<f4").tobytes()).decode()
    assert request["body"] == {"collection": "docs", "top_k": 5, "where": {"a": 1}, "gather": {"by": "section_id"}}
    service.answers = [(200, {}, {"groups": []}), (200, {}, {"total": 0})]
    provider.gather("docs", by="section_id", ids=["a"], order_by=["chunk_index"], limit=5)
    provider.facets("docs", ["a", "b"], {"c": "ä&"})
    _, gather, facets = service.requests
    assert gather["body"] == {"by": "section_id", "ids": ["a"], "order_by": ["chunk_index"], "limit": 5}
    assert facets["path"] == "/collections/docs/facets"
    assert facets["query"] == {"fields": ["a,b"], "where": ['{"c":"ä&"}']}
    service.answers = [(200, {}, {})]
    provider.collection("a/b c?")
    assert service.requests[-1]["target"] == "/collections/a%2Fb%20c%3F"


def test_replaced_and_deleted_documents_are_gone_and_a_filter_may_match_none(provider, service):
    provider.ensure_collection("docs", {})
    provider.add_documents("docs", [document("a", s=1), document("b", s=1), document("c", s=2)])
    provider.add_documents("docs", [document("b", s=1)], replace_where={"s": 1})
    assert [found["id"] for found in provider.documents("docs")] == ["b", "c"]
    assert provider.delete_documents("docs", where={"s": 2}) == 1
    assert provider.delete_documents("docs", ids=["b", "x"]) == 1
    provider.ensure_collection("docs", {})
    provider.add_documents("docs", [document("a", s=1)])
    assert provider.delete_documents("docs", where={"s": 1}) == 1
    assert service.requests[-1]["query"] == {"all": ["true"]}


def test_more_ids_than_the_service_takes_are_sent_in_parts_and_every_write_has_a_key_of_its_own_unless_given(
    provider, service
):
    service.answers = [(200, {}, {"count": 2}), (200, {}, {"count": 1})]
    ids = [f"d{number}" for number in range(IDS_AT_ONCE + 1)]
    assert provider.delete_documents("docs", ids=ids) == 3
    assert [each["body"]["ids"] for each in service.requests] == [ids[:IDS_AT_ONCE], ids[IDS_AT_ONCE:]]
    service.answers = [(201, {}, {})] * 3
    for key in (None, None, "mine"):
        provider.add_documents("docs", [document("a")], idempotency_key=key)
    first, second, third = (request["headers"]["Idempotency-Key"] for request in service.requests[2:])
    assert first != second
    assert third == "mine"


@pytest.mark.parametrize("status", [None, 503, 429])
def test_a_write_that_did_not_get_through_is_sent_again_with_its_key(provider, service, waits, status):
    provider.ensure_collection("docs", {})
    service.requests.clear()
    service.answers = [status and (status, {"Retry-After": "7"}, failure())] * 2
    assert provider.add_documents("docs", [document("a")])["created"] == 1
    keys = {request["headers"]["Idempotency-Key"] for request in service.requests}
    assert (len(service.requests), len(keys)) == (3, 1)
    assert waits == ([7, 7] if status else [0.25, 0.5])


def test_a_service_that_is_missing_stays_busy_or_is_behind_a_dead_gateway_is_given_up(provider, service, waits):
    service.answers = [(503, {"Retry-After": "9999"}, failure("busy"))] * 9
    with pytest.raises(errors.UnavailableError, match="Bad thing"):
        provider.collection("docs")
    assert (len(service.requests), waits) == (4, [30, 30, 30])
    service.answers = [(429, {"Retry-After": "3"}, failure("rate_limited"))]
    with pytest.raises(errors.UnavailableError) as refused:
        client(service.url, sleep=waits.append).collection("docs")
    assert (len(waits), refused.value.retry_after_seconds) == (3, 3)
    service.answers = [(502, {}, b"<html>")] * 4
    with pytest.raises(errors.UnavailableError, match="answered 502"):
        provider.collection("docs")
    url = nobody_there()
    with pytest.raises(errors.UnavailableError, match=f"No service answers at {url}"):
        client(url, sleep=waits.append).collection("docs")
    assert len(waits) == 6, "where nothing listens, nothing is waited for"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((400, errors.InvalidInputError), (404, errors.NotFoundError), (409, errors.ConflictError)),
        *((412, errors.PreconditionFailedError), (413, errors.PayloadTooLargeError), (429, errors.BusyError)),
        *((422, errors.UnsupportedError), (500, errors.RagError), (503, errors.UnavailableError)),
        (507, errors.DiskFloorError),
    ],
)
def test_refusals_keep_their_sentence_code_and_place(provider, service, status, error):
    place = {"index": 3, "field": "x", "code": "y"}
    service.answers = [(status, {}, failure("some_code", **place))] * 4
    with pytest.raises(error, match="Bad thing") as raised:
        provider.add_documents("docs", [document("a")])
    assert type(raised.value) is error
    error_type = {404: "not_found", 429: "rate_limit"}.get(status, "unknown")
    assert (raised.value.code, raised.value.details) == ("some_code", place | {"error_type": error_type})


def test_a_wrong_filter_is_distinguished_from_other_bad_input_and_health_is_a_report_even_when_it_is_bad(
    provider, service
):
    service.answers = [(400, {}, failure("invalid_where", pointer="/$foo"))]
    with pytest.raises(errors.InvalidFilterError):
        provider.page("docs", {"$foo": 1})
    assert provider.health()["status"] == "healthy"
    service.answers = [(503, {}, {"status": "unhealthy"})]
    assert provider.health()["status"] == "unhealthy"


@pytest.mark.parametrize("answer", [(200, {}, b"<html>"), (404, {}, b"<html>"), (200, {}, b"[]")])
def test_another_program_on_the_port_is_named_as_such(provider, service, answer):
    service.answers = [answer]
    with pytest.raises(errors.RagError, match="is not this service"):
        provider.collection("docs")


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        ((401, {}, b"<html>"), "authentication"),
        ((403, {}, {"error": "no"}), "authorization"),
        ((302, {"Location": "http://169.254.169.254/"}, b""), "invalid_config"),
    ],
)
def test_a_fault_that_an_operator_must_mend_is_a_configuration_error(provider, service, answer, error_type):
    service.answers = [answer]
    with pytest.raises(errors.ConfigurationError) as raised:
        provider.collection("docs")
    assert raised.value.details["error_type"] == error_type
    assert len(service.requests) == 1


@pytest.mark.parametrize("answer", [(404, {}, {"error": "Not found"}), (405, {}, {"error": "Method not allowed"})])
def test_a_missing_route_is_distinguished_from_a_missing_collection(provider, service, answer):
    service.answers = [answer, (404, {}, {"error": "Collection 'a'b' not found"})]
    with pytest.raises(RouteNotFoundError):
        provider.page("docs")
    with pytest.raises(errors.CollectionNotFoundError, match="'a'b'"):
        provider.page("a'b")


DOCUMENT = Document("a", "A", "{}", 0, np.ones(2, np.float32))


def described(revision, model="older"):
    return CollectionInfo("docs", 1, {"embedding_model": model}, "cosine", 2, revision)


@pytest.mark.parametrize("writes", range(ATTEMPTS))
def test_they_are_read_again_when_something_was_written_meanwhile(writes):
    reads, descriptions = iter(range(5)), iter([*range(1, 1 + writes), writes])
    read = lambda: ([DOCUMENT], next(reads))  # noqa: E731
    [found] = of_one_model("older", read, lambda: described(next(descriptions)))
    assert found is DOCUMENT
    revisions = iter(range(100))
    [found] = of_one_model("older", lambda: ([DOCUMENT], next(revisions)), lambda: described(next(revisions)))
    assert (found.id, found.embedding) == ("a", None)


@pytest.mark.parametrize("model", ["newer", None])
def test_they_are_refused_when_they_are_of_another_model(model):
    with pytest.raises(ReembeddedMeanwhileError):
        of_one_model("older", lambda: ([DOCUMENT], 1), lambda: described(1, model))
