"""A service that speaks TLS keeps its promises to quick clients, cuts off slow ones, and takes up a new certificate."""

import socket
import ssl
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPSConnection

import pytest
import requests
import trustme
from cryptography.x509 import load_der_x509_certificate

from tests.durability.load.large import EXPORT, TEXT, create_large, rest
from tests.support.live import PATIENCE_SECONDS, eventually, live_service
from tests.wrapper.serving.certificates import write_pair

THREADS = 8
WAIT_SECONDS = 2
HEAD = b"POST /collections HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n"


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def service(tmp_path_factory, authority, processes):
    directory = tmp_path_factory.mktemp("tls")
    pair = write_pair(directory, authority=authority)
    settings = {"workers": 2, "threads": THREADS, "client_wait_seconds": WAIT_SECONDS, "trusted_proxies": "127.0.0.1"}
    with live_service(directory, **settings, **pair.settings) as service:
        create_large(service)
        yield service


@contextmanager
def plain(service, number=1):
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_SECONDS))
            for _ in range(number)
        ]


@contextmanager
def secure(service, number=1):
    context = ssl.create_default_context(cafile=service.authority)
    with plain(service, number) as sockets, ExitStack() as stack:
        yield [stack.enter_context(context.wrap_socket(each, server_hostname="localhost")) for each in sockets]


def get(service, path, **options):
    return requests.get(service.url + path, timeout=PATIENCE_SECONDS, verify=service.authority, **options)


def serial(service):
    with secure(service) as (client,):
        return load_der_x509_certificate(client.getpeercert(True)).serial_number


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00"], ids=["nothing", "half a hello"])
def test_clients_that_do_not_shake_hands_cost_the_others_nothing_and_are_cut_off(service, said):
    with plain(service, 10 * THREADS) as clients:
        for client in clients:
            client.sendall(said)
        for path in ("/collections", "/collections/large/documents/count", "/live", "/health"):
            assert get(service, path).status_code == 200
        assert {rest(client) for client in clients} == {b""}


@pytest.mark.parametrize("start", [HEAD, HEAD + b"\r\n{"], ids=["head", "body"])
def test_clients_that_send_too_slowly_get_408(service, start):
    with secure(service, 3) as clients:
        for client in clients:
            client.sendall(start)
        assert get(service, "/collections").status_code == 200
        for client in clients:
            answer = rest(client)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b'"code":"client_too_slow"' in answer


def test_clients_that_do_not_read_are_cut_off_and_others_get_the_whole(service):
    with secure(service, 2 * THREADS) as clients:
        for client in clients:
            client.sendall(EXPORT)
        assert len(get(service, "/collections/large/export").content) > 10 * len(TEXT)


def test_the_services_own_origin_is_https(service):
    def status(origin):
        return get(service, "/collections", headers={"Origin": origin}).status_code

    assert status(f"https://127.0.0.1:{service.port}") == 200
    assert status(f"http://127.0.0.1:{service.port}") == 403


def test_http_without_tls_is_told_so_and_only_a_trusted_proxy_is_believed_about_the_scheme_and_no_prefix(service, live):
    def status(called, ca_file, scheme):
        headers = {"Origin": f"{scheme}://127.0.0.1:{called.port}", "X-Forwarded-Proto": scheme}
        return requests.get(f"{called.url}/live", headers=headers, timeout=PATIENCE_SECONDS, verify=ca_file).status_code

    assert status(service, service.authority, "http") == 200
    assert status(live, None, "https") == 403
    answer = requests.get(f"http://127.0.0.1:{service.port}/live", timeout=PATIENCE_SECONDS)
    assert (answer.status_code, answer.json()["code"]) == (400, "tls_required")
    answer = get(service, "/x/live", headers={"SCRIPT_NAME": "/x"})
    assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")


def test_a_new_certificate_is_served_and_open_connections_go_on(service, authority):
    before = serial(service)
    context = ssl.create_default_context(cafile=service.authority)
    with closing(HTTPSConnection("localhost", service.port, timeout=PATIENCE_SECONDS, context=context)) as kept:

        def asked():
            kept.request("GET", "/collections")
            answer = kept.getresponse()
            answer.read()
            return answer.status

        assert asked() == 200
        kept.auto_open = 0
        pair = write_pair(service.authority.parent, authority=authority)
        assert before != pair.serial
        # Each worker looks for itself, and one of them has the next connection.
        eventually(lambda: [serial(service) for _ in range(8)] == 8 * [pair.serial])
        assert asked() == 200

        pair.key.write_text("no key any more")
        assert [serial(service) for _ in range(8)] == 8 * [pair.serial]
        assert asked() == 200
    again = write_pair(service.authority.parent, authority=authority)
    eventually(lambda: [serial(service) for _ in range(8)] == 8 * [again.serial])
