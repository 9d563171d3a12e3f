"""Connection tests that somebody makes to get at something: refused or cut in time, and nothing internal is answered."""

import itertools
import socket
import struct
import threading
from functools import partial

import pytest
import structlog

from providers import remote_service
from providers.remote_service import MAX_ANSWER_BYTES, RetryPolicy
from registry.registry import ProviderRegistry
from tests.registry.hostile import (
    ENVIRON,
    SECONDS,
    SECRET,
    failed_stage,
    gzip_bomb,
    numbers_only,
    response,
    wait_for_ends_of_tests,
)
from tests.registry.hostile import try_out as report_of
from tests.registry.test_connection_test import Shelf
from tests.support.dripping import DRIPPING
from tests.support.notations import METADATA, NOTATIONS
from tests.support.raw_server import HEAD, raw_server, saying, silent

KEY = "${RAG_PLANTED_API_KEY}"

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def try_out(caplog, capfd):
    """Like `hostile.try_out`; what was planted is in no report, log or output."""
    caplog.set_level("DEBUG")

    def attempt(config, **options):
        with structlog.testing.capture_logs() as logs:
            report = report_of(config, **options)
            wait_for_ends_of_tests()
        out, err = capfd.readouterr()
        said = str(report) + str(logs) + caplog.text + out + err
        for planted in (SECRET, METADATA, "a9fe", "planted-", "Traceback"):
            assert planted not in said
        return report

    return attempt


def resolving_to(*addresses):
    def resolve(host, port, **options):
        return [found for address in addresses for found in numbers_only(address, port, **options)]

    return resolve


@pytest.mark.parametrize("host", NOTATIONS.values(), ids=NOTATIONS)
def test_metadata_address_as(try_out, host):
    report = try_out({"url": f"http://{host}/latest/meta-data", "api_key": KEY}, policy="*")
    assert (failed_stage(report).name, report.error_type) == ("address", "blocked")


@pytest.mark.parametrize(
    "host", ["[fe80::1%25lo]", "[fe80::1%lo]", "%31%36%39.254.169.254", "[::ffff:169.254.169.254%lo]"]
)
def test_address_with_a_zone_or_escapes(try_out, host):
    assert try_out({"url": f"http://{host}/"}).error_type in ("network", "blocked")


@pytest.mark.parametrize(
    "addresses",
    [[METADATA], ["fe80::1"], ["::ffff:169.254.169.254"], ["127.0.0.1", METADATA], ["64:ff9b::a9fe:a9fe"], []],
    ids=["metadata", "link-local", "mapped", "one bad among good", "NAT64", "nothing"],
)
def test_name_that_leads_to(try_out, addresses):
    report = try_out({"url": "http://service.example"}, resolve=resolving_to(*addresses))
    assert (failed_stage(report).name, report.error_type) == ("address", "blocked")


def test_name_that_leads_elsewhere_the_second_time(try_out):
    answers = itertools.chain([["127.0.0.1"]], itertools.repeat([METADATA]))

    def resolve(host, port, **options):
        return resolving_to(*next(answers))(host, port, **options)

    with raw_server(saying(response())) as server:
        assert try_out({"url": f"http://service.example:{server.port}"}, resolve=resolve).success


def test_host_that_the_operator_does_not_allow(try_out):
    with raw_server(saying(response())) as server:
        for policy in ("public", "https://loopback", "10.0.0.0/8", "*.example"):
            assert try_out({"url": server.url}, policy=policy).error_type == "blocked"
        assert server.requests == []


def test_metadata_through_the_proxy(try_out, monkeypatch):
    with raw_server(saying(response())) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert try_out({"url": f"http://{METADATA}"}).error_type == "blocked"
        assert try_out({"url": "http://2852039166"}).error_type == "blocked"
        assert proxy.requests == []


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent"]
)
def test_redirect_to_metadata(try_out, status):
    with raw_server(saying(response(b"", status, Location=f"http://{METADATA}/latest/"))) as server:
        report = try_out({"url": server.url, "api_key": KEY})
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "invalid_config")


def test_redirect_to_another_server(try_out):
    with raw_server(saying(response())) as other:
        with raw_server(saying(response(b"", "307 Temporary Redirect", Location=other.url))) as server:
            assert not try_out({"url": server.url, "api_key": KEY}).success
        assert other.requests == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://127.0.0.1:1/_x", "//", "http://[", "\x00"])
def test_redirect_to_what_is_no_url(try_out, target):
    with raw_server(saying(response(b"", "302 Found", Location=target))) as server:
        assert not try_out({"url": server.url}).success


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "dict://127.0.0.1:11211/stat",
        "ftp://127.0.0.1/",
        "unix:///var/run/docker.sock",
        "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
        "jar:http://127.0.0.1!/",
        "javascript:alert(1)",
        "//127.0.0.1/",
        "http:/127.0.0.1/",
        "127.0.0.1:80",
    ],
)
def test_scheme(try_out, url):
    assert failed_stage(try_out({"url": url})).faults[0].pointer == "/url"


@pytest.mark.parametrize(
    "url",
    [
        "http://user:planted-word@127.0.0.1/",
        "http://planted-word@127.0.0.1/",
        f"http://good.example@{METADATA}/",
        f"http://good.example\\@{METADATA}/",
        f"http://good.example#@{METADATA}/",
        f"http://good.example?@{METADATA}/",
        "http://127.0.0.1/?key=planted-word",
        "http://127.0.0.1/v1\r\nX-Injected: planted-word",
        "http://127.0.0.1\n/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1:-1/",
        "http://127.0.0.1:1e3/",
        "http://[::1/",
        "http://exa\x00mple/",
        "http://" + "a" * 3000,
    ],
)
def test_url_with_more_in_it(try_out, url):
    assert try_out({"url": url}).error_type == "invalid_config"


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example", ".example", "xn--\u00e4", "\u202eexample", "_"])
def test_host_name_that_is_none(try_out, host):
    assert try_out({"url": f"http://{host}/"}).error_type in ("network", "invalid_config")


@pytest.mark.parametrize(
    "key", [f"{SECRET}\r\nX-Injected: yes", f"{SECRET}\nHost: evil", f"{SECRET}\x00", f"{SECRET} x", f"{SECRET}ü"]
)
def test_key_that_would_be_another_header(try_out, key):
    with raw_server(saying(response())) as server:
        for config in ({"api_key": key}, {"api_key": "${RAG_BAD_API_KEY}"}):
            report = try_out({"url": server.url, **config}, environ={"RAG_BAD_API_KEY": key})
            assert report.error_type == "invalid_config"
        assert not any(server.requests)


def test_answer_that_is_giant(try_out):
    def giant(server, connection):
        connection.sendall(HEAD + b"Content-Length: 1000000000000\r\n\r\n")
        while True:
            connection.sendall(b" " * (1 << 20))

    with raw_server(giant) as server:
        assert try_out({"url": server.url}).error_type == "unknown"


def test_answer_that_is_packed_giant(try_out):
    with raw_server(gzip_bomb) as server:
        assert try_out({"url": server.url}).error_type == "unknown"
    assert MAX_ANSWER_BYTES < 1 << 29


@pytest.mark.parametrize("speak", DRIPPING, ids=lambda speak: speak.__name__)
def test_answer_that_drips(try_out, speak):
    with raw_server(speak) as server:
        report = try_out({"url": server.url, "api_key": KEY}, seconds=SECONDS)
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "timeout")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_server_that_accepts_and_says_nothing(try_out, scheme):
    with raw_server(silent) as server:
        report = try_out({"url": f"{scheme}://127.0.0.1:{server.port}"}, seconds=SECONDS)
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "timeout")


def test_server_that_does_not_even_accept(try_out):
    # A full backlog: the kernel answers no more.
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        full = []
        for _ in range(4):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
            full.append(waiting)
        report = try_out({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}, seconds=SECONDS)
        for waiting in full:
            waiting.close()
    assert report.error_type == "timeout"


def reset(server, connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    "speak",
    [
        saying(b"SSH-2.0-OpenSSH_9.6\r\n"),
        saying(b"220 mail.example ESMTP\r\n"),
        saying(b"\x15\x03\x01\x00\x02\x02\x50"),
        saying(b"\x00" * 100),
        saying(b""),
        reset,
        saying(b"HTTP/1.1 abc OK\r\n\r\n"),
        saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n{}"),
        saying(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n{}"),
        saying(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        saying(HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx"),
        saying(HEAD + b"Content-Length: 100\r\n\r\n{}"),
    ],
    ids=[
        "SSH",
        "SMTP",
        "TLS",
        "zeros",
        "nothing",
        "reset",
        "no status",
        "giant header",
        "ten thousand headers",
        "no chunk",
        "giant chunk",
        "half an answer",
    ],
)
def test_server_that_speaks_something_else(try_out, speak, monkeypatch):
    monkeypatch.setattr(remote_service, "RetryPolicy", partial(RetryPolicy, first_wait_seconds=0.001))
    with raw_server(speak) as server:
        report = try_out({"url": server.url, "api_key": KEY})
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "network")


@pytest.mark.parametrize(
    "answer",
    [
        response(b"[" * 1_000_000),
        response(b'{"data":' * 100_000),
        response(b'{"data": [{"embedding": [NaN]}]}'),
        response(b'{"data": [{"embedding": [1e999]}]}'),
        response(b'{"data": [{"embedding": "' + b"A" * 10_001 + b'"}]}'),
        response(b'{"data": [{"index": {"a": 1}, "embedding": [1]}]}'),
        response(b'{"data": 7}'),
        response(b"null"),
        response(b"\xff\xfe"),
        response(b"not gzip", Content_Encoding="gzip"),
        response(b"x", Content_Encoding=", ".join(["gzip"] * 1000)),
        response(b"", "204 No Content"),
        response(b"", "999 Beyond"),
    ],
    ids=[
        "deep list",
        "deep object",
        "NaN",
        "infinity",
        "broken base64",
        "odd index",
        "no list",
        "null",
        "no Unicode",
        "no gzip",
        "a thousand packings",
        "no content",
        "odd status",
    ],
)
def test_answer_that_breaks_its_reader(try_out, answer):
    with raw_server(saying(answer)) as server:
        report = try_out({"url": server.url, "api_key": KEY})
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "unknown")


@pytest.mark.parametrize("status", ["400 Bad", "401 No", "403 No", "404 No", "422 No", "429 No", "500 No", "302 Found"])
def test_answer_that_quotes_the_key(try_out, status):
    said = f'{{"error": {{"message": "you sent Bearer {SECRET} to {METADATA}"}}, "detail": "{SECRET}"}}'
    answer = response(said.encode(), status, X_Echo=SECRET, Location=f"/{SECRET}", Retry_After="99")
    with raw_server(saying(answer)) as server:
        assert not try_out({"url": server.url, "api_key": KEY}).success


def test_service_that_hides_the_key_in_what_it_says_of_itself(try_out):
    hidden = "\u200b".join(SECRET)

    class Echo(Shelf):
        def check(self):
            return {"version": f"v{self.config['token']}", "name": hidden, "long": "x" * 508 + SECRET, "list": [SECRET]}

        def try_out(self):
            return {"collections": [SECRET, hidden, "fine"], SECRET[:3]: 1}

    registry = ProviderRegistry()
    registry.register(Echo)
    report = try_out({"token": KEY}, kind="rag", provider="shelf", registry=registry)
    assert [each["name"] for each in report.collections] == ["***", "***", "fine"]
    assert report.details == {"version": "v***", "name": "***", "long": "x" * 508 + "***", SECRET[:3]: 1}


def test_service_that_says_too_much(try_out):
    class Talkative(Shelf):
        def check(self):
            return {"version": "x" * 10_000}

        def try_out(self):
            return {"collections": ["y" * 10_000] * 5000, "collections_count": 5000}

    registry = ProviderRegistry()
    registry.register(Talkative)
    report = try_out({}, kind="rag", provider="shelf", registry=registry)
    assert (len(report.details["version"]), len(report.collections), report.collections_count) == (512, 1000, 5000)


def test_secret_in_the_host_name(try_out):
    report = try_out({"url": "${RAG_PLANTED_URL}"})
    assert (failed_stage(report).name, report.error_type) == ("address", "network")
    assert SECRET in ENVIRON["RAG_PLANTED_URL"]


def test_secret_in_a_field_of_another_type(try_out):
    assert failed_stage(try_out({"batch_size": KEY, "timeout_seconds": KEY})).name == "placeholders"


@pytest.mark.parametrize(
    "placeholder",
    [
        "${PATH}",
        "${HOME}",
        "${RAG_CATALOG_URL}",
        "${file:/etc/passwd}",
        "${file:/proc/self/environ}",
        "${file:/dev/zero}",
    ],
)
def test_placeholder_for_what_is_none_of_the_callers_business(try_out, placeholder):
    with raw_server(saying(response())) as server:
        report = try_out(
            {"url": server.url, "model": placeholder}, environ={"RAG_CATALOG_URL": "x", "PATH": "/planted-"}
        )
        assert failed_stage(report).name == "placeholders"
        assert server.requests == []


def test_file_that_never_ends(try_out, tmp_path):
    (tmp_path / "endless").symlink_to("/dev/zero")
    report = try_out({"model": f"${{file:{tmp_path}/endless}}"}, secret_dirs=[tmp_path])
    assert failed_stage(report).name == "placeholders"
    assert str(tmp_path) not in str(report)


def test_resolver_that_hangs(try_out):
    released = threading.Timer(SECONDS * 2, lambda: over.set())
    over = threading.Event()

    def hang(host, port, **options):
        over.wait(20)
        return numbers_only("127.0.0.1", port, **options)

    released.start()
    report = try_out({"url": "http://service.example"}, seconds=SECONDS, resolve=hang)
    assert (failed_stage(report).name, report.error_type) == ("address", "timeout")
    released.join()
