"""The longest filters and the farthest pages are answered or refused in time, and keep nobody else waiting."""

import threading

import orjson
import pytest
import requests

from schemas.where import MAX_DEPTH
from tests.durability.workload import PAUSE_SECONDS, create
from tests.support.live import live_service

DOCUMENTS = 250
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with live_service(tmp_path_factory.mktemp("extremes"), workers=1, threads=8) as service:
        told = [
            {"page": number, "tags": ["a", number % 7], **{f"f{n}": number % n for n in range(1, 9)}}
            for number in range(DOCUMENTS)
        ]
        given = [
            {"id": f"d{number}", "text": "one two three", "metadata": each, "embedding": [1.0, number]}
            for number, each in enumerate(told)
        ]
        create(service, "wide", given)
        yield service


def _nested(depth):
    where = {"page": 1}
    for level in range(depth):
        where = {"$not": where} if level % 2 else {"$or": [where, {"page": -1}]}
    return where


FILTERS = {
    "a megabyte of string": {"page": "x" * 1_000_000},
    "a megabyte of field": {"x" * 1_000_000: 1},
    "a megabyte of values": {"page": {"$in": ["y" * 100 + str(number) for number in range(9_000)]}},
    "ten thousand values": {"page": {"$in": list(range(10_000))}},
    "ten thousand values not": {"page": {"$nin": list(range(10_000))}},
    "more values": {"page": {"$in": list(range(10_001))}},
    "more values in parts": {"$or": [{"page": {"$in": list(range(5_001))}}] * 2},
    "as deep as may be": _nested(MAX_DEPTH),
    "deeper": _nested(MAX_DEPTH + 2),
    "a thousand deep": b'{"$not": ' * 1_000 + b'{"page": 1}' + b"}" * 1_000,
    "250 different": {"$and": [{f"f{number % 9}": {"$ne": number}} for number in range(250)]},
    "250 alternatives": {"$or": [{f"f{number % 9}": {"$ne": number}} for number in range(250)]},
    "2,000 alternatives": {"$or": [{"page": number} for number in range(2_000)]},
    "5,000 times not": {"$and": [{"$not": {"tags": {"$contains": number}}} for number in range(5_000)]},
    "a thousand comparisons": {"$or": [{"page": {"$gt": number, "$lt": number + 2}} for number in range(500)]},
    "more comparisons": {"$or": [{"page": {"$gt": number, "$lt": number + 2}} for number in range(501)]},
    "many lists": {"$and": [{"tags": {"$not_contains": str(number)}} for number in range(1_000)]},
}
SLOW = {"many lists"}
REFUSED = {"more values", "more values in parts", "more comparisons", "deeper"}
ROUTES = {
    "search": ("documents/search", {"limit": 5, "order_by": ["-page", "f3"], "offset": 10}),
    "query": ("query", {"query_embedding": [1.0, 7.0], "top_k": 5}),
    "text-search": ("text-search", {"query": "two"}),
}


@pytest.fixture
def session_of(service):
    with service.session() as session:
        yield session


@pytest.fixture
def others(service):
    """Other clients' requests, which are sent throughout the test."""
    stopping, statuses = threading.Event(), []

    def ask():
        with requests.Session() as session:
            while not stopping.is_set() or not statuses:
                url = f"{service.url}/collections/wide/documents"
                statuses.append(session.get(url, params={"where": '{"page": 7}'}).status_code)
                stopping.wait(PAUSE_SECONDS)

    asking = threading.Thread(target=ask)
    asking.start()
    yield
    stopping.set()
    asking.join()
    assert set(statuses) == {200}


@pytest.mark.parametrize(
    ("kind", "route"), [(kind, route) for kind in FILTERS for route in ROUTES if kind not in SLOW or route == "search"]
)
def test_a_long_filter_is_answered_or_refused(service, session_of, others, route, kind):
    path, body = ROUTES[route]
    url = f"{service.url}/collections/wide/{path}"
    where = FILTERS[kind] if isinstance(FILTERS[kind], bytes) else orjson.dumps(FILTERS[kind])
    content = orjson.dumps(body)[:-1] + b', "where": ' + where + b"}"
    answer = session_of.post(url, data=content, headers=JSON)
    if kind in REFUSED:
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_where")
    else:
        assert answer.status_code == 200 or answer.json()["code"] == "too_slow", answer.text[:500]


@pytest.mark.parametrize("order", ["", "-page,f3"])
@pytest.mark.parametrize("offset", [DOCUMENTS - 1, 2**53, 2**53 + 1, 2**63, 2**64])
def test_a_far_page_is_empty_or_refused(service, session_of, offset, order):
    url = f"{service.url}/collections/wide/documents"
    arguments = {"offset": offset, "order_by": order, "limit": 1_000}
    asked = session_of.get(url, params=arguments)
    content = b'{"offset": %d, "order_by": "%s", "limit": 1000}' % (offset, order.encode())
    searched = session_of.post(f"{url}/search", data=content, headers=JSON)
    if offset > 2**53:
        assert (asked.status_code, asked.json()["details"]["field"]) == (400, "offset")
        assert (searched.status_code, searched.json()["details"]["field"]) == (400, "offset")
    else:
        assert asked.json()["count"] == searched.json()["count"] == max(0, DOCUMENTS - offset)
        assert asked.json()["total"] == DOCUMENTS
