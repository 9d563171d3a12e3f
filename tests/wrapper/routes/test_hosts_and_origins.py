"""Before every route, the service checks the name it is called by and the page that calls."""

import socket

import pytest

from schemas.settings import OPEN, AccessSettings
from tests.support.contract import Contract
from tests.support.live import ORIGIN

REQUESTS = [*sorted(Contract.load().described()), ("/no-such-route", "POST"), ("/health", "PATCH")]


@pytest.fixture(params=REQUESTS, ids=lambda asked: f"{asked[1]} {asked[0]}")
def ask(request, client):
    """`ask(**headers)` returns the answer of each route, and of two that do not exist; no body is sent."""
    path, method = request.param
    path = path.replace("{", "").replace("}", "")

    def send(**headers):
        return client.open(
            path, method=method, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    return send


def test_no_route_answers_to_a_foreign_name(ask):
    for host in ("evil.example", "evil.example:5006", "127.0.0.1.evil.example", "localhost, evil.example", "10.0.0.7"):
        answer = ask(Host=host)
        assert (answer.status_code, answer.json["code"]) == (421, "host_not_allowed")


def test_no_route_answers_a_page_of_a_foreign_origin(ask):
    for origin in ("https://evil.example", "null", "", "http://localhost.evil.example", "http://localhost:3000"):
        answer = ask(Origin=origin)
        assert (answer.status_code, answer.json["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:5006", "127.0.0.1:1", "127.8.8.8", "[::1]:5006"])
def test_every_loopback_name_is_the_services_own(client, host):
    assert client.get("/live", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:5006", "http://localhost:5006", 200),
        ("localhost", "http://localhost:80", 200),
        ("[::1]:5006", "http://[::1]:5006", 200),
        ("localhost:5006", ORIGIN, 200),
        ("localhost:5006", "https://localhost:5006", 403),
        ("localhost:5006", "http://127.0.0.1:5006", 403),
        ("localhost:5006", "http://localhost:5007", 403),
        ("localhost:5006", f"{ORIGIN}.evil.example", 403),
    ],
)
def test_only_the_services_own_pages_and_allowed_origins_may_call(client, host, origin, status):
    assert client.get("/live", headers={"Host": host, "Origin": origin}).status_code == status


def test_a_preflight_of_a_foreign_page_is_refused(client):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}
    answer = client.options("/collections/abc/metadata", headers=headers)
    assert (answer.status_code, "Access-Control-Allow-Origin" in answer.headers) == (403, False)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_route_answers_a_foreign_page_that_a_browser_does_not_name(ask, site):
    """As those that load an image from here."""
    answer = ask(Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="image")
    assert (answer.status_code, answer.json["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize(
    ("method", "mode", "shown_as", "status"),
    [
        ("GET", "navigate", "document", 200),
        ("GET", "navigate", "iframe", 403),
        ("GET", "no-cors", "script", 403),
        ("GET", None, None, 403),
        ("HEAD", "navigate", "document", 403),
        ("POST", "navigate", "document", 403),
    ],
)
def test_a_link_to_a_page_of_the_service_may_be_followed(client, method, mode, shown_as, status):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": shown_as}
    sent = {name: value for name, value in headers.items() if value is not None}
    assert client.open("/docs", method=method, headers=sent).status_code == status


def test_a_page_of_an_allowed_origin_may_call_from_another_site(client):
    headers = {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    assert client.get("/live", headers=headers).status_code == 200


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_a_browsers_own_pages_and_its_user_may_call(client, filled, site):
    answer = client.post(f"/collections/{filled()}/index/check", headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 202


def test_the_operators_names_are_the_services_own(open_client):
    with open_client(allowed_hosts=("rag.corp.example", "*.lan", "rag.example:8443")) as client:
        for host, status in (
            ("rag.corp.example", 200),
            ("rag.corp.example:5006", 200),
            ("a.lan", 200),
            ("lan", 421),
            ("rag.example:8443", 200),
            ("rag.example", 421),
            ("10.0.0.7", 421),
        ):
            assert client.get("/live", headers={"Host": host}).status_code == status, host
        own = {"Host": "rag.corp.example", "Origin": "http://rag.corp.example"}
        assert client.get("/live", headers=own).status_code == 200


def test_the_host_it_listens_on_is_the_services_own(open_client):
    with open_client(AccessSettings(OPEN), host="fd00::7") as client:
        assert client.get("/live", headers={"Host": "[FD00:0::7]:5006"}).status_code == 200
        assert client.get("/live", headers={"Host": "[fd00::8]:5006"}).status_code == 421


def test_on_all_addresses_any_address_and_the_machines_name_are_accepted(open_client):
    """A page can make a name lead to this machine, but not an address."""
    with open_client(AccessSettings(OPEN), host="0.0.0.0") as client:
        for host in ("10.0.0.7:5006", "[fd00::7]", socket.gethostname(), "0.0.0.0:5006"):
            assert client.get("/live", headers={"Host": host}).status_code == 200, host
        assert client.get("/live", headers={"Host": "evil.example"}).status_code == 421


def test_only_a_probe_by_the_old_protocol_may_omit_the_host(client):
    for protocol, status in (("HTTP/1.0", 200), ("HTTP/1.1", 421)):
        without = {"SERVER_PROTOCOL": protocol, "HTTP_HOST": None}
        assert client.get("/live", environ_overrides=without).status_code == status
