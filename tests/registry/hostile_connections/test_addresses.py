"""Addresses that somebody tests to reach a forbidden place are refused, however they are written and wherever they
lead."""

import pytest

from tests.registry.hostile import failed_stage, response
from tests.support.notations import METADATA, NOTATIONS
from tests.support.raw_server import raw_server, saying

KEY = "${RAG_PLANTED_API_KEY}"


@pytest.mark.parametrize("host", NOTATIONS.values(), ids=NOTATIONS)
def test_the_metadata_address_is_refused_in_every_notation(try_out, host):
    report = try_out({"url": f"http://{host}/latest/meta-data", "api_key": KEY}, policy="*")
    assert (failed_stage(report).name, report.error_type) == ("address", "blocked")


@pytest.mark.parametrize(
    "host", ["[fe80::1%25lo]", "[fe80::1%lo]", "%31%36%39.254.169.254", "[::ffff:169.254.169.254%lo]"]
)
def test_an_address_with_a_zone_or_escapes_is_refused(try_out, host):
    assert try_out({"url": f"http://{host}/"}).error_type in ("network", "blocked")


def test_a_host_that_the_operator_does_not_allow_is_not_asked(try_out):
    with raw_server(saying(response())) as server:
        for policy in ("public", "https://loopback", "10.0.0.0/8", "*.example"):
            assert try_out({"url": server.url}, policy=policy).error_type == "blocked"
        assert server.requests == []


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent"]
)
def test_a_redirect_to_the_metadata_address_is_refused(try_out, status):
    with raw_server(saying(response(b"", status, Location=f"http://{METADATA}/latest/"))) as server:
        report = try_out({"url": server.url, "api_key": KEY})
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "invalid_config")


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example", ".example", "xn--\u00e4", "\u202eexample", "_"])
def test_an_invalid_host_name_is_refused(try_out, host):
    assert try_out({"url": f"http://{host}/"}).error_type in ("network", "invalid_config")


# All that is refused is in tests/providers/outbound/test_addresses.py.
@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "gopher://127.0.0.1:6379/_FLUSHALL", "//127.0.0.1/", "127.0.0.1:80"),
        *("http://planted-word@127.0.0.1/", f"http://good.example\\@{METADATA}/", "http://127.0.0.1/?key=planted-word"),
        *("http://127.0.0.1/v1\r\nX-Injected: planted-word", "http://127.0.0.1:0/", "http://exa\x00mple/"),
    ],
)
def test_a_url_that_cannot_be_a_services_is_refused(try_out, url):
    assert try_out({"url": url}).error_type == "invalid_config"
