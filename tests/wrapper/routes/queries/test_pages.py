"""Documents are read by pages with limits, offsets, orders and cursors."""

import base64
from itertools import pairwise, product

import pytest

from tests.wrapper.routes.conftest import numbered_document


def _ids(answer):
    return [document["id"] for document in answer["documents"]]


@pytest.fixture
def walk(page):
    """`walk(name, **arguments)` returns all ids by cursor, page after page."""

    def walk(name, **arguments):
        found, cursor = [], {}
        while True:
            answer = page(name, **arguments, **cursor).json
            found += _ids(answer)
            if answer["next_cursor"] is None:
                return found
            assert answer["count"] == arguments["limit"]
            cursor = {"cursor": answer["next_cursor"]}

    return walk


def test_the_default_order_is_that_of_insertion_and_survives_replacement(page, client, filled):
    name = filled([numbered_document(number) for number in (3, 1, 2)])
    changed = [{**numbered_document(1), "text": "new"}, numbered_document(0)]
    client.post(f"/collections/{name}/documents", json={"documents": changed})
    assert _ids(page(name).json) == ["doc-3", "doc-1", "doc-2", "doc-0"]


@pytest.mark.parametrize(
    ("limit", "count"), [(1, 1), (1000, 120), (1001, 120), (5000, 120), (10**12, 120), (None, 100)]
)
def test_a_limit_bounds_the_page(page, filled, limit, count):
    name = filled([numbered_document(number) for number in range(120)])
    answer = page(name, **({} if limit is None else {"limit": limit})).json
    assert (answer["count"], answer["total"]) == (count, 120)
    assert (answer["next_cursor"] is None) == (count == 120)


@pytest.mark.slow
def test_pages_by_cursor_show_each_document_once_in_order(page, walk, filled):
    documents = [
        numbered_document(number, **({"rank": number * 7 % 10} if number % 4 else {}), kind="abc"[number % 3])
        for number in range(20)
    ]
    name = filled(documents)
    filters = ({}, {"kind": {"$in": ["a", "b"]}}, {"$not": {"kind": "a"}})
    orders = (None, "rank", "-rank", "kind,-rank", "-missing", "-kind,rank")
    for where, order_by in product(filters, orders):
        arguments = {"where": where, **({} if order_by is None else {"order_by": order_by})}
        everything = _ids(page(name, **arguments, limit=1000).json)
        assert walk(name, **arguments, limit=3) == everything, arguments
        assert len(set(everything)) == len(everything), arguments


def _content(cursor):
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))


def test_a_cursor_that_was_changed_is_refused(page, filled):
    name = filled([numbered_document(number) for number in range(3)])
    content = _content(page(name, limit=1).json["next_cursor"])
    for place in range(len(content)):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        cursor = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        answer = page(name, cursor=cursor)
        assert (answer.status_code, answer.json["code"]) == (400, "invalid_cursor")


def test_a_cursor_does_not_tell_how_many_documents_come_before(client, filled):
    """Some of them may be hidden from its reader."""
    url = f"/collections/{filled([numbered_document(number) for number in range(120)])}/documents"
    cursors = [client.get(f"{url}?limit=1&offset={offset}").json["next_cursor"] for offset in range(118)]
    assert {len(each) for each in cursors} == {len(cursors[0])}
    for nearby in pairwise(cursors):
        same = sum(one == other for one, other in zip(*map(_content, nearby), strict=True))
        assert same < 10, "the contents of neighbours look alike"


def test_a_cursor_excludes_an_offset(page, filled):
    name = filled([numbered_document(number) for number in range(3)])
    cursor = page(name, limit=1).json["next_cursor"]
    answer = page(name, cursor=cursor, offset=1)
    assert (answer.status_code, answer.json["details"]["field"]) == (400, "cursor")
