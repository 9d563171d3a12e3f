"""Requests of keys with limits, over HTTP."""

import pytest

from schemas.access.narrowing import HEADER
from tests.wrapper.access.conftest import BOOTSTRAP
from wrapper.observing import metrics

SLOW = 0.001
"""Requests per second that no test waits for."""
ADMIN = {"X-API-Key": BOOTSTRAP}


@pytest.fixture
def ask(service):
    """`ask(key, path, …)`: the answer to a request with the headers of a key."""

    def ask(key, path="/collections", method="GET", **how):
        return service.client().open(path, method=method, headers=key, **how)

    return ask


@pytest.fixture
def rubbish(service):
    """The header of a view of this service that cannot be read."""
    return {HEADER: f"{service.app.extensions['rag.service'].id} !"}


def refusals(code):
    return metrics.REFUSED_REQUESTS.labels(code)._value.get()


def test_a_key_is_refused_beyond_its_burst_and_told_when_the_next_request_comes(service, ask):
    key, before = service.key("read", requests_per_second=SLOW, burst=2), refusals("rate_limited")
    first, last, refused = (ask(key) for _ in range(3))
    assert [answer.status_code for answer in (first, last, refused)] == [200, 200, 429]
    assert first.headers["RateLimit-Policy"] == '"requests";q=2;w=2000'
    assert first.headers["RateLimit"].startswith('"requests";r=1;t=')
    assert last.headers["RateLimit"].startswith('"requests";r=0;t=')
    assert 900 < int(last.headers["RateLimit"].rpartition("=")[2]) <= 1_000
    assert refused.json["code"] == "rate_limited"
    assert refused.json["details"] == {"limit": "requests_per_second"}
    seconds = int(refused.headers["Retry-After"])
    assert 900 < seconds <= 1_000
    assert refused.headers["RateLimit"] == f'"requests";r=0;t={seconds}'
    assert refusals("rate_limited") == before + 1
    assert ask(service.key("read", requests_per_second=SLOW)).status_code == 200, "another key goes on"
    assert ask(ADMIN).status_code == 200


def test_a_key_without_limits_is_told_of_none(service, ask):
    answer = ask(service.key("read"))
    assert answer.status_code == 200
    assert not {"RateLimit", "RateLimit-Policy"} & set(answer.headers.keys())


def test_how_the_service_is_may_always_be_asked(service, ask):
    key = service.key("read", requests_per_second=SLOW)
    paths = ("/live", "/openapi.json", "/live", "/collections")
    assert [ask(key, path).status_code for path in paths] == [200] * 4


def test_repeats_and_requests_without_the_scope_or_a_readable_view_count_too(service, ask, rubbish):
    key = service.key("manage", requests_per_second=SLOW, burst=2) | {"Idempotency-Key": "once"}
    made = [ask(key, method="POST", json={"name": "made-once"}).status_code for _ in range(3)]
    assert made == [201, 201, 429]
    key = service.key("read", requests_per_second=SLOW)
    assert service.plain_client().post("/collections", headers=key, json={"name": "first"}).status_code == 403
    assert ask(key).status_code == 429
    key = service.key("read", requests_per_second=SLOW, burst=2) | rubbish
    assert [ask(key).status_code for _ in range(3)] == [400, 400, 429]
    busy = service.key("read", concurrent=1) | rubbish
    assert [ask(busy).status_code for _ in range(2)] == [400, 400]


def test_a_write_with_an_unreadable_view_is_that_of_its_key(service, ask, rubbish, new_lines):
    key = service.key("manage")
    refused = ask(key | rubbish, method="POST", json={"name": "unread"})
    assert (refused.status_code, refused.json["details"]) == (400, {"field": HEADER})
    (line,) = new_lines()
    assert line["key_id"] == ask(key, "/api/me").json["id"]


def test_anybody_with_an_unreadable_view_is_told_how_the_service_is(ask, rubbish):
    whole, short = ask(ADMIN, "/health").json, ask({}, "/health").json
    assert ask(ADMIN | rubbish, "/health").json.keys() == short.keys()
    assert short.keys() != whole.keys()


def test_a_stream_is_under_way_until_its_end(service, ask):
    key = service.key("manage", concurrent=1)
    ask(key, method="POST", json={"name": "streamed"})
    lines = [{"id": str(number), "text": "word " * 10_000, "metadata": {}, "embedding": [1.0]} for number in range(50)]
    added = ask(key, "/collections/streamed/documents", "POST", json={"documents": lines})
    assert added.status_code in (201, 202)
    stream = service.plain_client().get("/collections/streamed/export", headers=key, buffered=False)
    next(stream.iter_encoded())
    refused = ask(key)
    assert (refused.status_code, refused.json["code"]) == (429, "concurrency_limited")
    assert refused.headers["Retry-After"] == "1"
    stream.close()
    for path, status in (("/collections", 200), ("/collections/missing", 404), ("/collections", 200)):
        answer = ask(key, path)
        assert (answer.status_code, answer.headers["RateLimit"]) == (status, '"concurrent";r=0')
