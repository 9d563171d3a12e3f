"""Requests of keys with limits, over HTTP."""

from __future__ import annotations

import pytest

from schemas.access.narrowing import HEADER
from tests.wrapper.access.conftest import BOOTSTRAP
from tests.wrapper.audit.conftest import lines_of
from wrapper.observing import metrics

SLOW = 0.001
"""Requests per second that no test waits for."""


@pytest.fixture
def service(limited_app):
    with limited_app() as service:
        yield service


@pytest.fixture
def rubbish(service):
    """The header of a view of this service that cannot be read."""
    return {HEADER: f"{service.app.extensions['rag.service'].id} !"}


def refusals(code):
    return metrics.REFUSED_REQUESTS.labels(code)._value.get()


def test_a_key_is_refused_beyond_its_burst(service):
    key, before = service.key("read", requests_per_second=SLOW, burst=2), refusals("rate_limited")
    answers = [service.client().get("/collections", headers=key) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit-Policy"] == '"requests";q=2;w=2000'
    assert answers[0].headers["RateLimit"].startswith('"requests";r=1;t=')
    refused = answers[2]
    assert refused.json["code"] == "rate_limited"
    assert refused.json["details"] == {"limit": "requests_per_second"}
    seconds = int(refused.headers["Retry-After"])
    assert 900 < seconds <= 1_000
    assert refused.headers["RateLimit"] == f'"requests";r=0;t={seconds}'
    assert refusals("rate_limited") == before + 1


def test_the_last_request_of_a_burst_is_told_when_the_next_one_comes(service):
    key = service.key("read", requests_per_second=SLOW, burst=3)
    answers = [service.client().get("/collections", headers=key) for _ in range(3)]
    told = answers[2].headers["RateLimit"]
    assert told.startswith('"requests";r=0;t=')
    assert 900 < int(told.rpartition("=")[2]) <= 1_000


def test_other_keys_go_on(service):
    mine, other = service.key("read", requests_per_second=SLOW), service.key("read", requests_per_second=SLOW)
    assert service.client().get("/collections", headers=mine).status_code == 200
    assert service.client().get("/collections", headers=mine).status_code == 429
    assert service.client().get("/collections", headers=other).status_code == 200
    assert service.client().get("/collections", headers={"X-API-Key": BOOTSTRAP}).status_code == 200


def test_a_key_without_limits_is_told_of_none(service):
    answer = service.client().get("/collections", headers=service.key("read"))
    assert answer.status_code == 200
    assert not {"RateLimit", "RateLimit-Policy"} & set(answer.headers.keys())


def test_how_the_service_is_may_always_be_asked(service):
    key = service.key("read", requests_per_second=SLOW)
    for path in ("/live", "/openapi.json", "/live"):
        assert service.client().get(path, headers=key).status_code == 200
    assert service.client().get("/collections", headers=key).status_code == 200


def test_a_refused_write_stores_nothing(service):
    key = service.key("manage", requests_per_second=SLOW)
    assert service.client().post("/collections", headers=key, json={"name": "first"}).status_code == 201
    assert service.client().post("/collections", headers=key, json={"name": "second"}).status_code == 429
    admin = {"X-API-Key": BOOTSTRAP}
    assert [each["name"] for each in service.client().get("/collections", headers=admin).json["collections"]] == [
        "first"
    ]


def test_a_repeat_of_an_idempotency_key_counts_as_a_request(service):
    key = service.key("manage", requests_per_second=SLOW, burst=2) | {"Idempotency-Key": "once"}
    asked = [service.client().post("/collections", headers=key, json={"name": "first"}) for _ in range(3)]
    assert [answer.status_code for answer in asked] == [201, 201, 429]


def test_a_request_without_the_scope_counts_too(service):
    key = service.key("read", requests_per_second=SLOW)
    assert service.plain_client().post("/collections", headers=key, json={"name": "first"}).status_code == 403
    assert service.client().get("/collections", headers=key).status_code == 429


def test_a_request_with_an_unreadable_view_counts_too(service, rubbish):
    key = service.key("read", requests_per_second=SLOW, burst=2) | rubbish
    assert [service.client().get("/collections", headers=key).status_code for _ in range(3)] == [400, 400, 429]
    busy = service.key("read", concurrent=1) | rubbish
    assert [service.client().get("/collections", headers=busy).status_code for _ in range(2)] == [400, 400]


def test_a_write_with_an_unreadable_view_is_that_of_its_key(service, rubbish, tmp_path):
    key = service.key("manage")
    refused = service.client().post("/collections", headers=key | rubbish, json={"name": "first"})
    assert (refused.status_code, refused.json["details"]) == (400, {"field": HEADER})
    (line,) = lines_of(tmp_path / "audit")
    assert line["key_id"] == service.client().get("/api/me", headers=key).json["id"]


def test_anybody_with_an_unreadable_view_is_told_how_the_service_is(service, rubbish):
    whole = service.client().get("/health", headers={"X-API-Key": BOOTSTRAP}).json
    short = service.client().get("/health").json
    assert service.client().get("/health", headers={"X-API-Key": BOOTSTRAP} | rubbish).json.keys() == short.keys()
    assert short.keys() != whole.keys()


def test_requests_that_have_ended_leave_room(service):
    key = service.key("manage", concurrent=1)
    for path in ("/collections", "/collections/missing", "/collections"):
        answer = service.client().get(path, headers=key)
        assert answer.status_code in (200, 404)
        assert answer.headers["RateLimit"] == '"concurrent";r=0'


def test_a_stream_is_under_way_until_its_end(service):
    key, client = service.key("manage", concurrent=1), service.client()
    client.post("/collections", headers=key, json={"name": "first"})
    lines = [{"id": str(number), "text": "word " * 10_000, "metadata": {}, "embedding": [1.0]} for number in range(50)]
    assert client.post("/collections/first/documents", headers=key, json={"documents": lines}).status_code in (201, 202)
    stream = service.plain_client().get("/collections/first/export", headers=key, buffered=False)
    parts = stream.iter_encoded()
    next(parts)
    refused = service.client().get("/collections", headers=key)
    assert (refused.status_code, refused.json["code"]) == (429, "concurrency_limited")
    assert refused.headers["Retry-After"] == "1"
    stream.close()
    assert service.client().get("/collections", headers=key).status_code == 200
