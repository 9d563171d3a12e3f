"""Addresses that somebody tests to reach a forbidden place are refused, however they are written and wherever they
lead."""

import itertools

import pytest

from tests.registry.hostile import failed_stage, numbers_only, response
from tests.support.notations import METADATA, NOTATIONS
from tests.support.raw_server import raw_server, saying

KEY = "${RAG_PLANTED_API_KEY}"


def resolving_to(*addresses):
    def resolve(host, port, **options):
        return [found for address in addresses for found in numbers_only(address, port, **options)]

    return resolve


@pytest.mark.parametrize("host", NOTATIONS.values(), ids=NOTATIONS)
def test_the_metadata_address_is_refused_in_every_notation(try_out, host):
    report = try_out({"url": f"http://{host}/latest/meta-data", "api_key": KEY}, policy="*")
    assert (failed_stage(report).name, report.error_type) == ("address", "blocked")


@pytest.mark.parametrize(
    "host", ["[fe80::1%25lo]", "[fe80::1%lo]", "%31%36%39.254.169.254", "[::ffff:169.254.169.254%lo]"]
)
def test_an_address_with_a_zone_or_escapes_is_refused(try_out, host):
    assert try_out({"url": f"http://{host}/"}).error_type in ("network", "blocked")


@pytest.mark.parametrize(
    "addresses",
    [[METADATA], ["fe80::1"], ["::ffff:169.254.169.254"], ["127.0.0.1", METADATA], ["64:ff9b::a9fe:a9fe"], []],
    ids=["metadata", "link-local", "mapped", "one bad among good", "NAT64", "nothing"],
)
def test_a_name_that_leads_to_a_forbidden_address_is_refused(try_out, addresses):
    report = try_out({"url": "http://service.example"}, resolve=resolving_to(*addresses))
    assert (failed_stage(report).name, report.error_type) == ("address", "blocked")


def test_a_name_that_leads_elsewhere_the_second_time_is_resolved_once(try_out):
    answers = itertools.chain([["127.0.0.1"]], itertools.repeat([METADATA]))

    def resolve(host, port, **options):
        return resolving_to(*next(answers))(host, port, **options)

    with raw_server(saying(response())) as server:
        assert try_out({"url": f"http://service.example:{server.port}"}, resolve=resolve).success


def test_a_host_that_the_operator_does_not_allow_is_not_asked(try_out):
    with raw_server(saying(response())) as server:
        for policy in ("public", "https://loopback", "10.0.0.0/8", "*.example"):
            assert try_out({"url": server.url}, policy=policy).error_type == "blocked"
        assert server.requests == []


def test_the_metadata_address_is_not_requested_through_a_proxy(try_out, monkeypatch):
    with raw_server(saying(response())) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert try_out({"url": f"http://{METADATA}"}).error_type == "blocked"
        assert try_out({"url": "http://2852039166"}).error_type == "blocked"
        assert proxy.requests == []


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent"]
)
def test_a_redirect_to_the_metadata_address_is_refused(try_out, status):
    with raw_server(saying(response(b"", status, Location=f"http://{METADATA}/latest/"))) as server:
        report = try_out({"url": server.url, "api_key": KEY})
    assert (failed_stage(report).name, report.error_type) == ("authenticate", "invalid_config")


def test_a_redirect_to_another_server_is_not_followed(try_out):
    with raw_server(saying(response())) as other:
        with raw_server(saying(response(b"", "307 Temporary Redirect", Location=other.url))) as server:
            assert not try_out({"url": server.url, "api_key": KEY}).success
        assert other.requests == []


@pytest.mark.parametrize("target", ["file:///etc/passwd", "gopher://127.0.0.1:1/_x", "//", "http://[", "\x00"])
def test_a_redirect_to_an_invalid_url_is_refused(try_out, target):
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
def test_a_url_of_another_scheme_is_refused(try_out, url):
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
def test_a_url_with_surplus_or_malformed_parts_is_refused(try_out, url):
    assert try_out({"url": url}).error_type == "invalid_config"


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..example", ".example", "xn--\u00e4", "\u202eexample", "_"])
def test_an_invalid_host_name_is_refused(try_out, host):
    assert try_out({"url": f"http://{host}/"}).error_type in ("network", "invalid_config")
