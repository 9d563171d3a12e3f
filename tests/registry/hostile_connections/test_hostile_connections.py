"""Connections that somebody tests to reach a forbidden place, to get a secret out or to keep the service busy: refused,
bounded, cut in time, and silent about secrets."""

import socket
import struct

import pytest
import structlog

from providers.outbound.json_client import RetryPolicy
from providers.outbound.vendor_dialect import MAX_ANSWER_BYTES, VendorDialect
from registry.provider_registry import ProviderRegistry
from tests.providers.outbound import conftest
from tests.registry.hostile import ENVIRON, SECRET, cut_in, failed_stage, gzip_bomb, response, wait_for_ends_of_tests
from tests.registry.hostile import try_out as report_of
from tests.registry.test_connection_trial import Shelf
from tests.support.dripping import DRIPPING
from tests.support.live import LIMITS_SECONDS
from tests.support.notations import METADATA
from tests.support.raw_server import HEAD, raw_server, saying, silent

KEY = "${RAG_PLANTED_API_KEY}"
no_proxies = conftest.no_proxies


@pytest.mark.slow
def test_a_giant_answer_is_cut_also_where_it_is_packed(try_out):
    def giant(server, connection):
        connection.sendall(HEAD + b"Content-Length: 1000000000000\r\n\r\n")
        while True:
            connection.sendall(b" " * (1 << 20))

    with raw_server(giant) as server:
        assert try_out({"url": server.url}).error_type == "unknown"
    with raw_server(gzip_bomb) as server:
        assert try_out({"url": server.url}).error_type == "unknown"
    assert MAX_ANSWER_BYTES < 1 << 29


@pytest.mark.parametrize(
    ("scheme", "speak"), [*(("http", speak) for speak in DRIPPING), ("http", silent), ("https", silent)]
)
def test_an_answer_that_drips_or_does_not_come_times_out(try_out, scheme, speak):
    with raw_server(speak) as server:
        config = {"url": f"{scheme}://127.0.0.1:{server.port}", "api_key": KEY}
        report = cut_in("authenticate", config, try_out=try_out)
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "timeout")


def test_a_server_that_does_not_even_accept_times_out(try_out):
    # With a full backlog the kernel answers no further connections.
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        full = []
        for _ in range(4):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
            full.append(waiting)
        report = try_out({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}, seconds=LIMITS_SECONDS[0])
        for waiting in full:
            waiting.close()
    assert report.error_type == "timeout"


def reset(server, connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


OTHER_PROTOCOLS = {
    "SSH": saying(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "SMTP": saying(b"220 mail.example ESMTP\r\n"),
    "TLS": saying(b"\x15\x03\x01\x00\x02\x02\x50"),
    "zeros": saying(b"\x00" * 100),
    "nothing": saying(b""),
    "reset": reset,
    "no status": saying(b"HTTP/1.1 abc OK\r\n\r\n"),
    "giant header": saying(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n{}"),
    "ten thousand headers": saying(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n{}"),
    "no chunk": saying(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
    "giant chunk": saying(HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx"),
    "half an answer": saying(HEAD + b"Content-Length: 100\r\n\r\n{}"),
}


UNUSABLE = {
    "deep list": response(b"[" * 1_000_000),
    "deep object": response(b'{"data":' * 100_000),
    "broken base64": response(b'{"data": [{"embedding": "' + b"A" * 10_001 + b'"}]}'),
    "no Unicode": response(b"\xff\xfe"),
    "no gzip": response(b"not gzip", Content_Encoding="gzip"),
    "a thousand packings": response(b"x", Content_Encoding=", ".join(["gzip"] * 1000)),
    "no content": response(b"", "204 No Content"),
    "odd status": response(b"", "999 Beyond"),
}


FAILING = {
    **{name: (speak, "network") for name, speak in OTHER_PROTOCOLS.items()},
    **{name: (saying(answer), "unknown") for name, answer in UNUSABLE.items()},
}


@pytest.mark.parametrize(("speak", "error_type"), FAILING.values(), ids=FAILING)
def test_another_protocol_is_a_network_error_and_an_unusable_answer_an_unknown_one(try_out, speak, error_type):
    with raw_server(speak) as server:
        report = try_out({"url": server.url, "api_key": KEY})
    assert (failed_stage(report).name, report.error_type) == ("authenticate", error_type)


def test_a_service_that_says_too_much_is_cut_short(try_out):
    class Talkative(Shelf):
        def check(self):
            return {"version": "x" * 10_000}

        def try_out(self):
            return {"collections": ["y" * 600] * 1200, "collections_count": 1200}

    registry = ProviderRegistry()
    registry.register(Talkative)
    report = try_out({}, kind="rag", provider="shelf", registry=registry)
    assert (len(report.details["version"]), len(report.collections), report.collections_count) == (512, 1000, 1200)


@pytest.mark.parametrize(
    "key", [f"{SECRET}\r\nX-Injected: yes", f"{SECRET}\nHost: evil", f"{SECRET}\x00", f"{SECRET} x", f"{SECRET}ü"]
)
def test_a_key_that_would_be_another_header_is_refused(try_out, key):
    with raw_server(saying(response())) as server:
        for config in ({"api_key": key}, {"api_key": "${RAG_BAD_API_KEY}"}):
            report = try_out({"url": server.url, **config}, environ={"RAG_BAD_API_KEY": key})
            assert report.error_type == "invalid_config"
        assert not any(server.requests)


@pytest.mark.parametrize("status", ["400 Bad", "401 No", "403 No", "404 No", "422 No", "429 No", "500 No", "302 Found"])
def test_a_key_quoted_in_an_answer_stays_hidden(try_out, status):
    said = f'{{"error": {{"message": "you sent Bearer {SECRET} to {METADATA}"}}, "detail": "{SECRET}"}}'
    answer = response(said.encode(), status, X_Echo=SECRET, Location=f"/{SECRET}", Retry_After="99")
    with raw_server(saying(answer)) as server:
        assert not try_out({"url": server.url, "api_key": KEY}).success


def test_a_key_in_what_a_service_says_of_itself_stays_hidden(try_out):
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


def test_a_secret_in_the_host_name_stays_hidden(try_out):
    report = try_out({"url": "${RAG_PLANTED_URL}"})
    assert (failed_stage(report).name, report.error_type) == ("address", "network")
    assert SECRET in ENVIRON["RAG_PLANTED_URL"]


ZONES_AND_ESCAPES = ("[fe80::1%25lo]", "[fe80::1%lo]", "%31%36%39.254.169.254", "[::ffff:169.254.169.254%lo]")
NO_NAMES = ("a" * 64 + ".example", "a..example", ".example", "xn--\u00e4", "\u202eexample", "_")


@pytest.mark.parametrize("host", [*ZONES_AND_ESCAPES, *NO_NAMES])
def test_an_address_with_a_zone_or_escapes_and_an_invalid_name_are_refused(try_out, host):
    other = "invalid_config" if host in NO_NAMES else "blocked"
    assert try_out({"url": f"http://{host}/"}).error_type in ("network", other)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Have no test wait before a request is repeated."""
    monkeypatch.setattr(VendorDialect, "retry", RetryPolicy(first_wait_seconds=0.001))


@pytest.fixture
def try_out(caplog, capfd):
    """`hostile.try_out`, with a check that nothing planted appears in a report, the log or the output."""
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
