"""What pages count against the limits of a key: one request each, unless they search or write more than once. A page
whose reader has left asks for nothing more; one whose key ends while it is made leads to the sign-in."""

import re
import socket

import pytest

from schemas.errors import UnauthorizedError
from tests.interfaces.console.conftest import Reader, store_documents, store_files
from wrapper.web.callers import PART_BYTES
from wrapper.web.slow_clients import Patience, PatientSocket

SLOW = 0.001
"""Requests per second that no test waits for."""


@pytest.fixture(scope="module", autouse=True)
def _stored(app):
    store_files(app, "counted", door="The door opens at nine.")


@pytest.fixture
def limited(signed_in):
    """`limited(n)`: a visitor whose key has n requests left once they have signed in."""

    def limited(left, **limits):
        return signed_in(limits={"requests_per_second": SLOW, "burst": left + 1, **limits})

    return limited


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/collections", 1),
        ("/collections/counted", 1),
        ("/collections/counted/map", 1),
        ("/documents", 1),
        ("/quality", 1),
        ("/ask?q=door", 1),
        ("/ask?q=door&why=1", 3),
    ],
)
def test_a_page_counts_as_one_request_unless_it_searches_again(limited, path, count):
    visitor = limited(count)
    assert visitor.client.get(f"/console{path}", buffered=True).status_code == 200
    assert visitor.get("/collections").status_code == 429
    if count > 1:
        assert limited(count - 1).client.get(f"/console{path}", buffered=True).status_code == 429


def test_a_refused_page_says_when_to_try_again_and_each_form_counts(limited):
    visitor = limited(0)
    answer = visitor.get("/collections")
    assert answer.status_code == 429
    assert "Too many requests for your key" in answer.text
    seconds = answer.headers["Retry-After"]
    assert re.search(rf"again in {seconds} seconds", answer.text)
    visitor = limited(3)
    token = visitor.token("/collections")
    form = {"question": "When?", "collection": "counted", "document_id": "nobody", "grade": "1"}
    sent = [visitor.post("/quality/judge", token=token, **form).status_code for _ in range(3)]
    assert sent == [404, 404, 429]


def test_a_page_is_under_way_until_it_is_made_and_a_file_until_it_is_sent(limited, client):
    visitor = limited(100, concurrent=1)
    assert visitor.get("/ask", q="door", why="1").status_code == 200
    for path in ("/collections", "/collections/nowhere"):
        made = visitor.client.get(f"/console{path}", buffered=False)
        assert visitor.get("/collections").status_code == 200
        made.close()
    visitor = limited(100, concurrent=1)
    passage = Reader(visitor.get("/ask", q="door", collection="counted").text)
    [document_id] = {each["value"] for each in passage.all("input") if each.get("name") == "document_id"}
    verdict = {"question": "door", "collection": "counted", "document_id": document_id, "grade": "1"}
    assert visitor.post("/quality/judge", of="/collections", **verdict).status_code == 303
    under_way = visitor.client.get("/console/quality/export?collection=counted", buffered=False)
    assert (under_way.status_code, visitor.get("/collections").status_code) == (200, 429)
    under_way.close()
    assert visitor.get("/collections").status_code == 200
    for each in client.get("/api/judgements").json["judgements"]:
        assert client.delete(f"/api/judgements/{each['id']}").status_code == 200


def test_no_header_makes_requests_count_together(app, new_key):
    key = new_key(limits={"requests_per_second": SLOW, "burst": 1})["key"]
    headers = {"Authorization": f"Bearer {key}", "rag.counted_together": "1", "Rag-Counted-Together": "1"}
    statuses = [app.test_client().get("/collections", headers=headers).status_code for _ in range(2)]
    assert statuses == [200, 429]


def test_a_page_whose_reader_has_left_asks_for_nothing(admin):
    browser, service = socket.socketpair()
    browser.close()
    with PatientSocket(service.detach(), Patience(1.0, 1)) as connection:
        as_gunicorn_hands_it_over = {"gunicorn.socket": connection}
        answer = admin.client.get("/console/collections", environ_overrides=as_gunicorn_hands_it_over)
    assert (answer.status_code, answer.data) == (499, b"")


def test_a_key_that_ends_while_its_page_is_made_leads_to_the_sign_in(app, signed_in, monkeypatch):
    """The page is made of an answer in several parts; its key ends before each of them."""
    store_documents(app, "long", [{"id": "long", "text": "word " * (PART_BYTES // 2), "embedding": [1.0, 0.0]}])
    reader, access = signed_in(), app.extensions["rag.access"]
    still, left, answers = access.still, [], []

    def ending(*given, **options):
        if not left:
            raise UnauthorizedError("The key has ended", code="key_expired")
        left.pop()
        return still(*given, **options)

    monkeypatch.setattr(access, "still", ending)
    while not answers or answers[-1].status_code != 200:
        left = [None] * len(answers)
        answers.append(reader.get("/collections/long"))
        assert len(answers) < 200
    assert len(answers) > 2
    assert {each.status_code for each in answers[:-1]} == {303}
    assert {each.location for each in answers[:-1]} == {"/console/sign-in?next=/collections/long&ended=key_expired"}
