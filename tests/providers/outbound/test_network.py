"""The way out works on real sockets on loopback; names come from resolvers of the tests."""

import itertools
import socket
import ssl
import threading
import traceback
from contextlib import suppress

import pytest
import requests
import trustme

from providers.outbound import deadlines
from providers.outbound.addresses import BlockedError, ConnectPolicy
from providers.outbound.http_sessions import AnswerTimeout, answer_within
from providers.outbound.network import Network
from providers.outbound.trust import Trust
from schemas.errors import NoThreadError, UnavailableError
from tests.providers.outbound.conftest import numbers_only
from tests.support.dripping import DRIPPING, endless_body, endless_head
from tests.support.live import LIMITS_SECONDS, PATIENCE_SECONDS, no_thread_begins
from tests.support.notations import METADATA, NOTATIONS
from tests.support.raw_server import HEAD, raw_server, saying, silent

ELSEWHERE = "192.0.2.1"
"""An address from the documentation range (RFC 5737)."""
OK = HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}"
PATIENCE = {"timeout": (1, 5), "allow_redirects": False}


def answering(*answers):
    """Return a resolver that gives these lists of addresses for any name, one after the other and the last one for
    ever; `asked` counts the calls."""
    following = itertools.chain(answers, itertools.repeat(answers[-1]))

    def resolve(host, port, **options):
        with suppress(socket.gaierror):
            return numbers_only(host, port, **options)
        resolve.asked += 1
        return [found for address in next(following) for found in numbers_only(address, port, **options)]

    resolve.asked = 0
    return resolve


def get(network, url, **options):
    with network.session(url) as session:
        return session.get(url, **{**PATIENCE, **options})


def words_of(error):
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("host", NOTATIONS.values(), ids=NOTATIONS)
def test_no_notation_leads_to_an_address_that_gives_credentials_away(host):
    network = Network(ConnectPolicy.parse("*"), resolve=numbers_only)
    for url in (f"http://{host}/latest/meta-data/", f"https://{host}:8443/"):
        with pytest.raises(BlockedError) as caught:
            network.reach(url, 1)
        assert METADATA not in str(caught.value)
        # Some notations are not URLs that requests would ask anybody for.
        with pytest.raises((BlockedError, requests.exceptions.InvalidURL)):
            get(network, url)


def test_a_zone_does_not_hide_an_address():
    def resolve(host, port, **options):
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", port, 0, 2))]

    with pytest.raises(BlockedError):
        get(Network(resolve=resolve), "http://service.example/")


@pytest.mark.parametrize(
    "addresses",
    [[METADATA], ["127.0.0.1", METADATA], [METADATA, "127.0.0.1"], ["127.0.0.1", "::ffff:169.254.169.254"], []],
)
def test_a_name_with_one_bad_address_is_refused(addresses):
    with raw_server(saying(OK)) as server:
        with pytest.raises(BlockedError):
            get(Network(resolve=answering(addresses)), f"http://service.example:{server.port}/")
        assert server.requests == []


def test_a_name_is_resolved_once_for_a_connection_and_refused_when_it_turns_bad():
    resolve = answering(["127.0.0.1"], [METADATA])
    with raw_server(saying(OK)) as server:
        url = f"http://service.example:{server.port}/"
        assert get(Network(resolve=resolve), url).json() == {}
        assert resolve.asked == 1
        assert b"Host: service.example:" in server.requests[0]
    network = Network(resolve=answering(["127.0.0.1"], [METADATA]))
    with raw_server(saying(OK)) as server, network.session(server.url) as session:
        url = f"http://service.example:{server.port}/"
        session.get(url, **PATIENCE)
        with pytest.raises(BlockedError):
            session.get(url, **PATIENCE)
        assert len(server.requests) == 1


def test_a_piece_of_work_keeps_the_first_answer_and_an_address_that_does_not_accept_is_followed_by_the_next():
    resolve = answering(["127.0.0.1"], [METADATA])
    with raw_server(saying(OK)) as server, Network(resolve=resolve).within(30) as network:
        for host in ("service.example", "SERVICE.example."):
            assert get(network, f"http://{host}:{server.port}/").json() == {}
        network.endpoints("http", "service.example", server.port)
    assert resolve.asked == 1
    with raw_server(saying(OK)) as server:
        network = Network(resolve=answering(["127.0.0.2", "127.0.0.1"]))
        assert get(network, f"http://service.example:{server.port}/").json() == {}


def test_no_error_quotes_a_name_or_says_where_it_leads():
    with pytest.raises(UnavailableError) as caught:
        get(Network(resolve=numbers_only), "http://hunter2.example/")
    assert caught.value.details == {"error_type": "network"}
    assert "hunter2" not in caught.value.message
    with socket.socket() as taken:
        taken.bind(("127.0.0.3", 0))  # bound but not listening: refused
        network = Network(resolve=answering(["127.0.0.3"]))
        with pytest.raises(requests.ConnectionError) as caught:
            get(network, f"http://service.example:{taken.getsockname()[1]}/")
    assert "127.0.0.3" not in words_of(caught.value)


def redirect_to(url):
    return saying(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + url.encode() + b"\r\n\r\n")


@pytest.mark.parametrize("allow_redirects", [True, False])
def test_a_redirect_is_not_followed_even_when_asked_to_nor_its_endless_body_read(allow_redirects):
    with raw_server(saying(OK)) as elsewhere, raw_server(redirect_to(elsewhere.url)) as server:
        assert get(Network(), server.url, allow_redirects=allow_redirects).status_code == 302
        assert elsewhere.requests == []

    def endless(server, connection):
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    with raw_server(endless) as server, get(Network(), server.url, stream=True) as response:
        assert response.status_code == 302


def test_neither_a_password_of_netrc_nor_a_cookie_is_sent(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with raw_server(saying(OK)) as server:
        get(Network(), server.url)
        assert b"Authorization" not in server.requests[0]
    with (
        raw_server(saying(HEAD + b"Set-Cookie: a=1; Path=/\r\nConnection: close\r\n\r\n")) as server,
        Network().session(server.url) as session,
    ):
        for _ in range(2):
            session.get(server.url, **PATIENCE)
        assert b"Cookie" not in server.requests[1]


def test_the_proxy_of_the_environment_is_asked_and_by_tls_as_a_tunnel(monkeypatch):
    with raw_server(saying(OK)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        for resolve in (answering([ELSEWHERE]), numbers_only):
            assert get(Network(resolve=resolve), "http://service.example/v1").json() == {}
        network = Network(ConnectPolicy.parse("10.0.0.0/8"), resolve=answering(["10.1.1.1"]))
        network.reach("http://service.example/v1", 1).close()
        assert [request[:33] for request in proxy.requests[:2]] == [b"GET http://service.example/v1 HTT"] * 2
    with raw_server(saying(b"HTTP/1.1 403 Forbidden\r\n\r\n")) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        with pytest.raises(requests.ConnectionError):
            get(Network(resolve=answering([ELSEWHERE])), "https://service.example/v1")
        assert proxy.requests[0].startswith(b"CONNECT service.example:443 ")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_proxy_is_not_asked_for_this_machine_in_any_notation(monkeypatch, host):
    with raw_server(saying(OK)) as proxy, raw_server(saying(OK)) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        network = Network(resolve=numbers_only)
        assert get(network, f"http://{host}:{server.port}/").json() == {}
        network.reach(f"http://{host}:{server.port}/", 1).close()
        assert proxy.requests == []


@pytest.mark.parametrize("host", [METADATA, "2852039166", "service.example"])
def test_a_blocked_address_is_not_requested_through_a_proxy_either(monkeypatch, host):
    with raw_server(saying(OK)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        network = Network(resolve=answering([METADATA]))
        for ask in (lambda: get(network, f"http://{host}/"), lambda: network.reach(f"http://{host}/", 1)):
            with pytest.raises(BlockedError):
                ask()
        assert proxy.requests == []


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def trusted(authority, monkeypatch, tmp_path):
    """Make this process trust the tests' certificate authority."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))


def certified(authority, name):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def check_refused(network, certificate, host="service.example"):
    """Check that a server with this certificate is not believed to be the host."""
    with raw_server(saying(OK), certificate) as server, pytest.raises(requests.exceptions.SSLError):
        get(network, f"https://{host}:{server.port}/")


@pytest.mark.usefixtures("trusted")
def test_tls_is_verified_against_the_name_and_a_file_of_authorities_is_all_that_is_trusted(authority, tmp_path):
    network = Network(resolve=answering(["127.0.0.1"]))
    certificate = certified(authority, "service.example")
    with raw_server(saying(OK), certificate) as server:
        assert get(network, f"https://service.example:{server.port}/").json() == {}
    check_refused(network, certificate, "other.example")
    check_refused(network, certified(authority, "127.0.0.1"))
    other = trustme.CA()
    other.cert_pem.write_to_path(str(tmp_path / "other.pem"))
    network = Network(resolve=answering(["127.0.0.1"]), trust=Trust(str(tmp_path / "other.pem")))
    with raw_server(saying(OK), certified(other, "service.example")) as server:
        assert get(network, f"https://service.example:{server.port}/").json() == {}
    check_refused(network, certified(other, "service.example"), "other.example")
    check_refused(network, certificate)


def test_a_certificate_that_nobody_vouches_for_is_refused(authority):
    check_refused(Network(resolve=answering(["127.0.0.1"])), certified(authority, "service.example"))


@pytest.mark.usefixtures("trusted")
def test_a_services_own_certificate_is_believed_under_any_name_and_no_other_is(authority, tmp_path):
    issued = authority.issue_cert("service.example")
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "own.pem"))
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued.configure_cert(own)
    network = Network(trust=Trust(str(tmp_path / "own.pem"), is_own=True))
    with raw_server(saying(OK), own) as server:
        assert get(network, f"https://127.0.0.1:{server.port}/").json() == {}
    check_refused(network, certified(authority, "service.example"), "127.0.0.1")


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize(
    ("scheme", "speak"), [*(("http", speak) for speak in DRIPPING), ("https", endless_head), ("https", endless_body)]
)
def test_an_answer_that_drips_ends_with_its_time_also_through_tls(authority, scheme, speak):
    certificate = certified(authority, "service.example") if scheme == "https" else None
    for seconds in LIMITS_SECONDS:
        with raw_server(speak, certificate) as server:
            with pytest.raises(AnswerTimeout), answer_within(seconds):
                get(Network(resolve=answering(["127.0.0.1"])), f"{scheme}://service.example:{server.port}/")
            if server.requests:
                break
    assert len(server.requests) == 1


def test_a_time_limit_needs_a_thread_and_is_for_one_request_and_not_for_the_connection():
    with no_thread_begins(), pytest.raises(NoThreadError), answer_within(1):
        pytest.fail("nobody watches the time")
    is_over = threading.Event()

    def patient(server, connection):
        answer = HEAD + b"Content-Length: 2\r\n\r\n{}"
        connection.sendall(answer)
        connection.recv(65536)
        assert is_over.wait(PATIENCE_SECONDS)
        connection.sendall(answer)

    for seconds in LIMITS_SECONDS:
        with raw_server(patient) as server, Network().session(server.url) as session, suppress(AnswerTimeout):
            with answer_within(seconds):
                session.get(server.url, **PATIENCE)
            threading.Timer(1.5 * seconds, is_over.set).start()
            assert session.get(server.url, timeout=2 * PATIENCE_SECONDS).json() == {}
            break
    assert len(server.requests) == 1


def get_to_the_end(network, url):
    # An answer without a length ends where it is cut, without an error.
    with suppress(requests.RequestException):
        get(network, url, timeout=None)
    assert network.seconds_left() == 0


def test_an_answer_is_cut_off_that_nobody_wants_any_more():
    with raw_server(silent) as server, deadlines.while_wanted(lambda: bool(server.requests)):
        with pytest.raises(requests.ConnectionError), answer_within(PATIENCE_SECONDS):
            get(Network(), server.url, timeout=None)
        with pytest.raises(AnswerTimeout), answer_within(PATIENCE_SECONDS):
            get(Network(), server.url)


@pytest.mark.parametrize("speak", [*DRIPPING, silent], ids=lambda speak: speak.__name__)
def test_a_dripping_or_silent_answer_is_cut_at_the_end_of_the_work(speak):
    with raw_server(speak) as server, Network().within(0.3) as network:
        get_to_the_end(network, server.url)


@pytest.mark.parametrize(("scheme", "speak"), [("http", endless_head), ("http", silent), ("https", silent)])
def test_a_proxy_that_drips_or_is_silent_is_cut_too(monkeypatch, scheme, speak):
    with raw_server(speak) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", proxy.url)
        with Network(resolve=numbers_only).within(0.3) as network:
            get_to_the_end(network, f"{scheme}://service.example/")


def test_nothing_is_opened_after_the_end_of_the_work():
    with raw_server(silent) as server:
        with Network().within(30) as network:
            kept = network.open_socket("http", "127.0.0.1", server.port, 5)
        assert kept.recv(1) == b""
        kept.close()
        with pytest.raises(TimeoutError):
            network.open_socket("http", "127.0.0.1", server.port, 5)
        with pytest.raises(requests.ConnectTimeout):
            get(network, server.url)
        assert [request for request in server.requests if request] == []
