"""Which addresses a connection may lead to, however they are written: none that gives credentials away, and none where the
service keeps its own data."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.outbound.addresses import (
    DEFAULT_POLICY,
    MAX_URL_CHARACTERS,
    BlockedError,
    ConnectPolicy,
    embedded,
    reach_of,
    split_url,
)
from providers.outbound.network import Network
from schemas.errors import ConfigurationError, InvalidInputError, UnavailableError
from tests.support.raw_server import HEAD, raw_server, saying

METADATA = "169.254.169.254"
FORBIDDEN = [
    *(METADATA, "169.254.0.1", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    *("0.0.0.0", "0.1.2.3", "224.0.0.1", "239.255.255.250", "255.255.255.255", "::", "ff02::1"),
    *("fe80::1", "fe80::a9fe:a9fe", "febf::1"),
    *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:a9fe:a9fe::1", "fd00:42::42"),
    # The same, carried by IPv6: mapped, compatible, by NAT64 at each length of its prefix, by 6to4.
    *("::ffff:169.254.169.254", "::ffff:0.0.0.0", "::ffff:0:169.254.169.254", "::169.254.169.254"),
    *("64:ff9b::169.254.169.254", "64:ff9b::0.0.0.1", "64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::"),
    *("2001:db8::169.254.169.254", "2001:db8:a9fe:a9fe::", "2001:db8:12a9:fea9:fe::", "2001:db8:122:a9fe:a9:fe00::"),
    *("2001:db8:122:3a9:fe:a9fe::", "2001:db8:122:344:a9:fea9:fe00::"),
    *("2002:a9fe:a9fe::", "2002:a9fe:a9fe:1234::1"),
    "2001:0:c000:201:0:0:5601:5601",  # Teredo: the client's address is written inverted
]
LOOPBACK = ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::"]
PRIVATE = ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1", "2002:a00:1::1"]
PUBLIC = ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1"]


@pytest.mark.parametrize(
    ("written", "reach"),
    [
        *((each, "never") for each in FORBIDDEN),
        *((each, "loopback") for each in LOOPBACK),
        *((each, "private") for each in PRIVATE),
        *((each, "public") for each in PUBLIC),
    ],
)
def test_every_address_has_its_reach(written, reach):
    assert reach_of(ipaddress.ip_address(written)) == reach


@pytest.mark.parametrize("written", FORBIDDEN)
@pytest.mark.parametrize("policy", [DEFAULT_POLICY, "*", "0.0.0.0/0, ::/0", "169.254.0.0/16,fe80::/10"])
def test_no_policy_allows_addresses_that_give_credentials_away(policy, written):
    assert not ConnectPolicy.parse(policy).allows("http", "host", ipaddress.ip_address(written))


@given(st.ip_addresses(v=4))
def test_an_address_has_the_reach_of_the_address_it_carries(address):
    carriers = [
        ipaddress.IPv6Address(b"\0" * 10 + b"\xff\xff" + address.packed),
        ipaddress.IPv6Address(ipaddress.IPv6Address("64:ff9b::").packed[:12] + address.packed),
        ipaddress.IPv6Address(b"\x20\x02" + address.packed + b"\0" * 10),
    ]
    for carrier in carriers:
        assert embedded(carrier) == address
        assert reach_of(carrier) == reach_of(address)


@pytest.mark.parametrize(
    ("policy", "scheme", "host", "address", "allowed"),
    [
        *(("public", "http", "host", each, False) for each in ("10.0.0.1", "127.0.0.1", "::ffff:10.0.0.1")),
        *((each, "http", "host", "1.1.1.1", True) for each in ("public", " LOOPBACK , Public")),
        *(("private", "http", "host", "10.0.0.1", True), ("loopback", "http", "host", "::1", True)),
        *(("10.0.0.0/8", "http", "host", each, True) for each in ("10.1.2.3", "::ffff:10.1.2.3")),
        ("10.0.0.0/8", "http", "host", "11.0.0.1", False),
        *((each, "http", "host", "fd12::1", True) for each in ("[fd12::]/16", "fd12::1")),
        ("fd12::1", "http", "host", "fd12::2", False),
        ("*.example.com", "http", "a.example.com", "10.0.0.1", True),
        *(("*.example.com", "http", each, "10.0.0.1", False) for each in ("example.com", "example.com.evil.net")),
        *(
            ("https://api.example.com", each, "api.example.com", "1.1.1.1", each == "https")
            for each in ("https", "http")
        ),
        *(("https://public, loopback", "http", "host", each, each == "127.0.0.1") for each in ("1.1.1.1", "127.0.0.1")),
    ],
)
def test_a_policy_allows_exactly_what_it_names(policy, scheme, host, address, allowed):
    assert ConnectPolicy.parse(policy).allows(scheme, host, ipaddress.ip_address(address)) is allowed


@pytest.mark.parametrize("text", ["", " , ", "ftp://public", "://public", "10.0.0.1/8", "host:8000", "a b", "http://"])
def test_an_unreadable_policy_stops_the_start(text):
    with pytest.raises(ConfigurationError, match="RAG_CONNECT_POLICY"):
        ConnectPolicy.parse(text)


NO_URLS = {
    "scheme": ("file:///etc/passwd", "gopher://host/1", "ftp://host", "http+unix://%2Fvar%2Frun%2Fdocker.sock/"),
    "no host": ("", "host:80", "//host", "http://", "http:///path"),
    "user": ("http://user@host", "http://user:hunter2@host", "http://@host", f"http://good.example@{METADATA}/"),
    "backslash": (f"http://good.example\\@{METADATA}/",),
    "query": ("http://host?", "http://host?key=hunter2"),
    "fragment": ("http://host#", "http://host#@good.example"),
    "port": ("http://host:0", "http://host:65536", "http://host:port"),
    "brackets": ("http://[::1", "http://[127.0.0.1]"),
    "white space": ("http://ho\nst", "http://ho\tst", " http://host", "http://host/ HTTP/1.1\r\nX-Injected: yes"),
    "characters": ("http://host\x00.example", "http://host\uff0f@evil.example"),
    "length": ("http://host/" + "a" * MAX_URL_CHARACTERS,),
}


@pytest.mark.parametrize("url", [url for urls in NO_URLS.values() for url in urls])
def test_a_url_that_cannot_be_a_services_is_refused_unquoted(url):
    with pytest.raises(InvalidInputError) as caught:
        split_url(url)
    assert caught.value.details == {"field": "url", "error_type": "invalid_config"}
    assert "hunter2" not in str(caught.value)
    for written, host in (("https://host:8443/v1/", "host"), ("HTTP://[::1]:80", "::1"), ("http://127.1/@x", "127.1")):
        assert split_url(written).hostname == host


def test_the_resolver_knows_the_notations_that_are_judged():
    # The tests of the network rely on this: to the resolver these are numbers, not names to ask anybody about.
    [found, *_] = socket.getaddrinfo("0xa9fea9fe", 80, type=socket.SOCK_STREAM)
    assert found[4][0] == METADATA


PORT = 8123
OK = HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
NAMES = {"localhost": "127.0.0.1", "chroma.internal": "10.1.2.3", "other.internal": "10.1.2.4", "alias": "10.1.2.3"}
THIS_MACHINE = [
    *("127.0.0.1", "127.9.9.9", "127.1", "2130706433", "0x7f000001", "0.0.0.0", "localhost", "LOCALHOST."),
    *("::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::7f00:1", "::"),
]


def resolve(host, port, **options):
    return socket.getaddrinfo(NAMES.get(host, host), port, flags=socket.AI_NUMERICHOST, **options)


def network(*places, **options):
    return Network(ConnectPolicy.parse("*,loopback,private"), resolve=resolve, off_limits=lambda: places, **options)


@pytest.mark.parametrize("host", THIS_MACHINE)
@pytest.mark.parametrize("engine", ["127.0.0.1", "localhost", "::1", "0.0.0.0"])
def test_no_spelling_of_this_machine_leads_to_its_engine(host, engine):
    for scheme in ("http", "https"):
        with pytest.raises(BlockedError):
            network((engine, PORT)).endpoints(scheme, host, PORT)


@pytest.mark.parametrize("host", ["chroma.internal", "Chroma.Internal.", "alias", "10.1.2.3", "::ffff:10.1.2.3"])
def test_no_spelling_of_another_machine_leads_to_its_engine(host):
    way = network(("postgres.internal", 5432), ("chroma.internal", PORT))
    with pytest.raises(BlockedError):
        way.endpoints("http", host, PORT)
    assert way.endpoints("http", host, PORT + 1)
    assert way.endpoints("http", "other.internal", PORT)


def test_what_is_off_limits_is_asked_for_each_connection_and_nothing_at_such_a_place():
    places = [("127.0.0.1", PORT)]
    way = Network(resolve=resolve, off_limits=lambda: places)
    assert way.endpoints("http", "127.0.0.1", PORT + 1)
    places[:] = [("127.0.0.1", PORT + 1)]
    assert way.endpoints("http", "127.0.0.1", PORT)
    with pytest.raises(BlockedError):
        way.endpoints("http", "127.0.0.1", PORT + 1)
    with raw_server(saying(OK)) as server:
        way = network(("127.0.0.1", server.port))
        with way.session(server.url) as session, pytest.raises(BlockedError):
            session.get(server.url)
        with way.within(30) as brief, brief.session(server.url) as session, pytest.raises(BlockedError):
            session.get(server.url)
        with pytest.raises(BlockedError):
            way.reach(server.url, 1)
        assert server.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "alias", "chroma.internal", "hidden.internal"])
def test_a_proxy_is_not_asked_for_what_is_off_limits_either(monkeypatch, host):
    with raw_server(saying(OK)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        way = network(("127.0.0.1", PORT), ("chroma.internal", PORT), ("hidden.internal", PORT))
        with pytest.raises(BlockedError):
            way.proxy_for(f"http://{host}:{PORT}/")


def test_while_the_engines_name_cannot_be_resolved_nothing_else_is_taken_for_another_host():
    way = network(("hidden.internal", PORT))
    with pytest.raises(BlockedError):
        way.endpoints("http", "10.1.2.3", PORT)
    with pytest.raises(UnavailableError):
        way.endpoints("http", "unknown.internal", PORT)
    assert network(("127.0.0.1", PORT)).endpoints("http", "127.0.0.1", PORT + 1)


def test_an_address_of_this_machine_is_this_machine():
    own = own_address()
    for engine, asked in ((own, "127.0.0.1"), ("127.0.0.1", own)):
        with pytest.raises(BlockedError):
            network((engine, PORT)).endpoints("http", asked, PORT)


def own_address():
    """Return an address of this machine beside loopback, where it has one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address beside loopback")
        return probe.getsockname()[0]
