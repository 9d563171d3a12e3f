"""What a page does with requests that no browser would send."""

import io
import json

import pytest

from interfaces.console.wire import WireRequest, snippets_of
from interfaces.passages.words import excerpt_around
from schemas.words.comparing import AskedWords
from tests.interfaces.console.conftest import ADMIN_KEY, store_documents

DEEP = "[" * 300 + "]" * 300
DEEP_FILTER = '{"a": ' * 300 + "1" + "}" * 300
WIDE_AND_DEEP = json.dumps({"$and": [{"a": json.loads("[" * 100 + "]" * 100)}]})


@pytest.fixture(scope="module")
def stored(app):
    documents = [
        {"id": "a", "text": "A text", "metadata": {"": 1, "a,b": 2, "kind": 'k"1'}, "embedding": [1.0, 0.0]},
        {"id": "long", "text": "x" * 200_000, "metadata": {"kind": "long"}, "embedding": [0.0, 1.0]},
    ]
    store_documents(app, "odd", documents)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/ask", {"where": DEEP_FILTER}),
        ("/ask", {"where": WIDE_AND_DEEP}),
        ("/ask", {"only": f'["a", {DEEP}]'}),
        ("/ask", {"only": "[1, 2, 3]"}),
        ("/collections/odd", {"where": DEEP_FILTER}),
        ("/collections/odd", {"where": "[1]"}),
        ("/collections/odd", {"field": "a", "op": "$eq", "value": DEEP}),
        ("/collections/odd/delete", {"where": DEEP_FILTER}),
    ],
)
def test_json_that_is_too_deep_or_of_another_shape_is_refused(stored, admin, path, query):
    answer = admin.get(path, q="x", **query)
    assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)


def test_an_empty_id_is_no_page_and_a_wrong_etag_is_refused_by_name(stored, admin):
    for path in ("/quality/measured?bench=", "/documents/of/odd?id="):
        assert admin.client.get(f"/console{path}").status_code == 404
    where = json.dumps({"kind": "none"})
    answer = admin.post("/collections/odd/delete", of="/ask", where=where, etag="€\r\nX: y")
    assert answer.status_code == 400
    assert "etag" in answer.text


def test_a_filter_survives_its_form_and_a_long_text_is_cut(stored, admin):
    where = {"kind": 'k"1'}
    for path in ("/ask", "/collections/odd/delete", "/collections/odd/map"):
        page = admin.read(path, q="x" if path == "/ask" else "", where=json.dumps(where))
        [hidden] = [each for each in page.all("input") if each.get("name") == "where"]
        assert json.loads(hidden["value"]) == where
    page = admin.get("/collections/odd/document", id="long")
    assert (page.status_code, "more characters are not shown" in page.text) == (200, True)
    assert len(page.text) < 150_000


def test_a_cookie_that_is_no_text_is_none(anybody):
    bad = {"HTTP_COOKIE": "rag-console=\xff; rag-console-80=\xff"}
    assert anybody.client.get("/console/sign-in", environ_overrides=bad).status_code == 200
    told = anybody.client.get("/api/me", environ_overrides={**bad, "HTTP_X_CONSOLE_TOKEN": "x"})
    assert told.status_code == 401


def test_head_changes_nothing_and_signs_nobody_in(admin, anybody):
    form = {"do": "save", "id": "by-head", "config.base_url": "http://127.0.0.1:9/", "config.model": "m"}
    admin.client.head("/console/new-connection/llm/ollama", data=form)
    assert "by-head" not in admin.get("/connections").text
    assert anybody.client.head("/console/sign-in", data={"key": ADMIN_KEY}).status_code == 200
    assert anybody.get("/ask").status_code == 303


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
def test_other_methods_are_refused_whoever_asks(anybody, admin, method):
    for visitor in (anybody, admin):
        answer = getattr(visitor.client, method)("/console/ask")
        assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
        assert getattr(visitor.client, method)("/console/nowhere").status_code == 404


class Breaking(io.RawIOBase):
    """The body of a client that stops sending it, as the service's sockets tell that."""

    def __init__(self, error):
        self._error = error

    def readable(self):
        return True

    def readinto(self, buffer):
        raise self._error


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
@pytest.mark.parametrize(("error", "status"), [(TimeoutError("slow"), 408), (ConnectionResetError(), 400)])
def test_a_form_that_comes_too_slowly_or_not_at_all_is_refused(admin, error, status, media_type):
    body = {"wsgi.input": Breaking(error), "CONTENT_LENGTH": "100", "CONTENT_TYPE": media_type}
    answer = admin.client.post("/console/sign-out", environ_overrides=body)
    assert answer.status_code == status
    assert 'role="alert"' in answer.text


def test_strangers_send_small_forms_of_few_fields(anybody, admin):
    large = anybody.client.post("/console/sign-in", data=b"key=" + b"x" * 100_000, content_type=FORM)
    assert large.status_code == 413
    assert "64 KB" in large.text
    fields = "&".join(f"a{n}=1" for n in range(2_000)).encode()
    assert anybody.client.post("/console/sign-in", data=fields, content_type=FORM).status_code == 400
    assert admin.client.post("/console/service/keys", data=fields, content_type=FORM).status_code == 400


FORM = "application/x-www-form-urlencoded"


def test_signing_in_again_ends_the_session_before(admin, new_key):
    before = admin.copied()
    assert admin.post("/sign-in", key=new_key()["key"]).status_code == 303
    assert before.get("/ask").status_code == 303


def test_what_is_pasted_obeys_nobody():
    asked = WireRequest("POST", "/api/search", {}, {"query": "x\x7f\x9b\u202e$(id)`id`'\"\n${HOME}"})
    for title, text in snippets_of(asked, "http://127.0.0.1", needs_key=True):
        assert not set("\x7f\x9b\u202e") & set(text), title


def test_an_excerpt_has_the_words_and_is_short_however_often_they_come():
    words, apart = AskedWords("otter river"), "x " * 1_000 + "otter " + "y " * 1_000 + "otter river " + "z " * 500
    assert "river" in excerpt_around(apart, words)
    assert len(excerpt_around("otter river " * 20_000, words)) < 700
