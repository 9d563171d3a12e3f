"""No connection leads to where the service keeps its own data, however the place is written."""

import socket

import pytest

from providers.outbound.addresses import BlockedError, ConnectPolicy
from providers.outbound.network import Network
from schemas.errors import UnavailableError
from tests.support.raw_server import HEAD, raw_server, saying

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


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


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
def test_a_proxy_is_not_asked_for_it_either(monkeypatch, host):
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
