"""Answers of both kinds of service are bounded in time and size, and only plausible parts of them are believed."""

import base64
import json
import re
from contextlib import closing
from html import escape
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.outbound.answer_streams import BYTE_ORDER_MARK, event_data, lines, not_blank
from providers.outbound.json_client import JsonClient
from providers.outbound.network import Network
from providers.outbound.redaction import Redactor
from providers.outbound.vendor_dialect import VendorDialect
from providers.rag_wrapper.dialect import MAX_SENTENCE_CHARS, WrapperDialect
from schemas.errors import ConfigurationError, RagError, UnavailableError
from tests.registry.hostile import response
from tests.support.dripping import endless_chunks, endless_head
from tests.support.live import LIMITS_SECONDS
from tests.support.raw_server import raw_server, saying, silent

KEY = "sk-planted"
BOTH = ["wrapper", "vendor"]


@pytest.fixture
def waits():
    return []


@pytest.fixture
def ask(waits):
    """Ask a service once, as real use does; the waits before further attempts are recorded instead of slept."""

    def ask(way, url, *, network=None, **options):
        dialect = WrapperDialect(url) if way == "wrapper" else VendorDialect("service", "stub")
        client = JsonClient(url, dialect, network=network or Network(), sleep=waits.append, **options)
        with closing(client):
            return client.call("GET", "/x")

    return ask


@pytest.mark.parametrize("way", BOTH)
@pytest.mark.parametrize("speak", [endless_head, endless_chunks, silent], ids=lambda speak: speak.__name__)
def test_an_answer_that_drips_for_ever_or_does_not_come_is_given_up_and_not_requested_again(ask, waits, way, speak):
    for seconds in LIMITS_SECONDS:
        with raw_server(speak) as server, pytest.raises(UnavailableError) as caught:
            ask(way, server.url, timeout_seconds=seconds)
        if server.requests:
            break
    assert len(server.requests) == 1
    assert caught.value.details["error_type"] == "timeout"
    assert waits == []


@pytest.mark.parametrize("way", BOTH)
def test_an_answer_without_end_is_broken_off_and_one_with_a_byte_order_mark_is_read(ask, monkeypatch, way):
    with raw_server(saying(response(BYTE_ORDER_MARK + b"{}"))) as server:
        assert ask(way, server.url) == {}
    monkeypatch.setattr(WrapperDialect, "max_answer_bytes", 100_000)
    monkeypatch.setattr(VendorDialect, "max_answer_bytes", 100_000)

    def endless(server, connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b" " * 65536)

    with raw_server(endless) as server, pytest.raises(RagError, match="more than 100000 bytes"):
        ask(way, server.url)


@pytest.mark.parametrize("way", BOTH)
def test_no_retry_waits_beyond_the_end_of_the_work(ask, waits, way):
    with raw_server(saying(response(b"{}", "503 No", Retry_After="25"))) as server, Network().within(20) as network:
        with pytest.raises(UnavailableError):
            ask(way, server.url, network=network)
        assert len(server.requests) == 1
    assert waits == []


@pytest.mark.parametrize("way", BOTH)
def test_what_is_refused_for_the_sake_of_the_request_is_not_requested_again(ask, waits, way):
    for status in (400, 401, 403, 404, 409, 410, 413, 422):
        with raw_server(saying(response(b'{"message": "no"}', str(status), Retry_After="1"))) as server:
            with pytest.raises(RagError):
                ask(way, server.url)
            assert len(server.requests) == 1
    assert waits == []


@pytest.mark.parametrize("way", BOTH)
@pytest.mark.parametrize("said", [b"", b"\x15\3\3\0\2\2\x50", b"HTTP/1.1 400 No"])
def test_tls_that_is_cut_is_an_outage_and_tls_that_is_not_spoken_a_wrong_configuration(ask, waits, way, said):
    kind = ConfigurationError if b"HTTP" in said else UnavailableError
    with raw_server(saying(said)) as server, pytest.raises(kind):
        ask(way, server.url.replace("http", "https"))
    assert bool(waits) == (kind is UnavailableError)


@pytest.mark.parametrize(
    "body",
    [
        b'{"message": 7, "code": [], "details": "text"}',
        b'{"message": {"a": 1}, "code": {"a": 1}, "details": [1]}',
        b'{"message": null, "code": null, "details": null}',
        b'{"code": "collection_not_found", "details": 7}',
        b'{"code": "collection_not_found", "details": {"collection": 7}}',
        b'{"message": "' + b"x" * 100_000 + b'"}',
    ],
)
@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_a_refusal_of_another_shape_is_still_a_refusal(ask, status, body):
    with raw_server(saying(response(body, str(status), Retry_After="1"))) as server, pytest.raises(RagError) as caught:
        ask("wrapper", server.url)
    assert isinstance(caught.value.code, str)
    assert isinstance(caught.value.details, dict)
    assert len(caught.value.message) <= MAX_SENTENCE_CHARS


@pytest.mark.parametrize(
    ("status", "error_type"),
    [(401, "authentication"), (403, "authorization"), (404, "not_found"), (429, "rate_limit"), (500, "unknown")],
)
def test_the_service_does_not_choose_the_type_of_its_refusal(ask, status, error_type):
    body = b'{"message": "no", "details": {"error_type": "blocked"}}'
    with raw_server(saying(response(body, str(status)))) as server, pytest.raises(RagError) as caught:
        ask("wrapper", server.url)
    assert caught.value.details["error_type"] == error_type


ODD = [("9" * 5000, '"soon"'), ("٣", "-5"), ("-1", "[1]"), ("Mon, 01 Jan 0001 00:00:00 -0000", "null"), ("1e3", "true")]


@pytest.mark.parametrize(("header", "said"), ODD)
def test_an_odd_wait_that_a_service_names_is_not_obeyed_blindly(ask, waits, header, said):
    body = f'{{"message": "no", "details": {{"retry_after_seconds": {said}}}}}'.encode()
    with raw_server(saying(response(body, "503", Retry_After=header))) as server, pytest.raises(UnavailableError):
        ask("wrapper", server.url)
    assert all(0.0 <= wait <= 1.0 for wait in waits)


@pytest.mark.parametrize("way", BOTH)
@pytest.mark.parametrize("quoted", [KEY, "sk-\\u0070lanted", "\\u200b".join(KEY)])
def test_a_quoted_key_is_in_no_error(ask, way, quoted):
    body = f'{{"message": "no {quoted}", "code": "c", "details": {{"a": ["{quoted}"], "{quoted}": 1}}}}'.encode()
    with raw_server(saying(response(body, "400"))) as server, pytest.raises(RagError) as caught:
        ask(way, server.url, api_key=KEY)
    assert KEY not in str(vars(caught.value)) + str(caught.value)


TEXT = st.lists(st.sampled_from([b"a", "ü".encode(), b"\n", b"\r", b"\r\n", b"data: ", b":", b" "]), max_size=30)


def cut(content, places):
    begins = sorted({0, *(place % (len(content) + 1) for place in places)})
    return [content[begin:end] for begin, end in zip(begins, [*begins[1:], len(content)], strict=True)]


@given(TEXT, st.lists(st.integers(0, 1_000), max_size=10))
def test_lines_do_not_depend_on_where_the_pieces_end(parts, places):
    content = b"".join(parts)
    assert b"".join(lines(cut(BYTE_ORDER_MARK + content, places))) == b"".join(lines([content]))
    *whole, last = re.split(rb"\r\n|\r|\n", content)
    assert list(lines(cut(content, places))) == ([*whole, last] if last else whole)


def test_an_event_is_the_data_of_its_lines_and_blank_lines_hold_none():
    said = b": hello\ndata: one\n\ndata:two\ndata:  three\nid: 7\n\n\ndata\n\nevent: end\n\ndata: four".split(b"\n")
    assert list(event_data(said)) == [b"one", b"two\n three", b"four"]
    assert list(lines(b"x" for _ in range(1_000))) == [b"x" * 1_000]
    assert list(not_blank([b"", b"{}", b" \t", b"1"])) == [b"{}", b"1"]


SECRETS = (
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=12, max_size=40)
    .map(str.strip)
    .filter(lambda secret: len(secret) >= 12)
)


@given(SECRETS, st.text(max_size=9), st.text(max_size=9))
def test_no_spelling_of_a_value_is_left(secret, before, after):
    redact = Redactor([secret])
    spellings = [secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], escape(secret)]
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(f"{before}{secret}{after}".encode()).decode()
        assert redact(f"Basic {whole}") != f"Basic {whole}"
    for spelling in spellings:
        assert spelling not in redact(f"{before} {spelling} {after}")


SAID = {"planted": ["a planted b", {"n": 1, "deep": ("planted",)}], "other": None}
CLEAN = {"***": ["a *** b", {"n": 1, "deep": ("***",)}], "other": None}
IN_URLS_AND_HTML = ("a%2Fb%3Dc%26d", "a%2fb%3dc%26d", "a/b%3Dc%26d", "a/b=c&amp;d")


@pytest.mark.parametrize(
    ("secrets", "said", "shown"),
    [
        ([" planted\n"], "Bearer planted", "Bearer ***"),
        *((["a/b=c&d"], f"({spelling})", "(***)") for spelling in IN_URLS_AND_HTML),
        (["planted"], SAID, CLEAN),
        (["abc", ""], "abc", "abc"),  # too short to be a secret
        *((["planted"], value, value) for value in (None, 7, 1.5, True)),
    ],
)
def test_values_are_known_however_they_are_sent_and_nothing_else_is_hidden(secrets, said, shown):
    assert Redactor(secrets)(said) == shown


def test_every_part_of_an_error_is_cleaned():
    error = UnavailableError("sent planted", reason="planted", nested=["planted"])
    Redactor(["planted"]).clean(error)
    assert "planted" not in f"{error} {error.message} {error.details} {error.args}"
