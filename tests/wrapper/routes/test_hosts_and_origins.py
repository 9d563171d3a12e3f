"""Before every route, the service checks the name it is called by and the page that calls."""

import socket

import pytest

from schemas.settings import OPEN, AccessSettings
from tests.support.contract import Contract
from tests.support.live import ORIGIN

REQUESTS = [*sorted(Contract.load().described()), ("/no-such-route", "POST"), ("/health", "PATCH")]
FOREIGN = {
    "a foreign name": ({"Host": "evil.example"}, 421, "host_not_allowed"),
    "a page of a foreign origin": ({"Origin": "https://evil.example"}, 403, "origin_not_allowed"),
    "a foreign page that loads an image": (
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        403,
        "origin_not_allowed",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("headers", "status", "code"), FOREIGN.values(), ids=FOREIGN)
def test_no_route_answers_to(client, headers, status, code):
    """Nor do the two that do not exist; no body is sent."""
    answered = []
    for path, method in REQUESTS:
        answer = client.open(path.replace("{", "").replace("}", ""), method=method, headers=headers)
        if (answer.status_code, answer.json["code"]) != (status, code):
            answered.append((method, path, answer.status_code))
    assert answered == []


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost", None, 200),
        ("127.0.0.1:1", None, 200),
        ("[::1]:5006", None, 200),
        ("127.0.0.1.evil.example", None, 421),
        ("localhost, evil.example", None, 421),
        ("10.0.0.7", None, 421),
        ("localhost:5006", "http://localhost:5006", 200),
        ("[::1]:5006", "http://[::1]:5006", 200),
        ("localhost:5006", ORIGIN, 200),
        ("localhost:5006", "https://localhost:5006", 403),
        ("localhost:5006", "http://127.0.0.1:5006", 403),
        ("localhost:5006", "http://localhost:5007", 403),
        ("localhost", "null", 403),
        ("localhost", "", 403),
        ("localhost", "http://localhost.evil.example", 403),
    ],
)
def test_only_the_services_own_names_its_pages_and_allowed_origins_may_call(client, host, origin, status):
    headers = {"Host": host} if origin is None else {"Host": host, "Origin": origin}
    answer = client.get("/live", headers=headers)
    readable_by = ORIGIN if origin == ORIGIN else None
    assert (answer.status_code, answer.headers.get("Access-Control-Allow-Origin")) == (status, readable_by)


def test_a_preflight_of_a_foreign_page_is_refused(client):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}
    answer = client.options("/collections/abc/metadata", headers=headers)
    assert (answer.status_code, "Access-Control-Allow-Origin" in answer.headers) == (403, False)


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


OF_AN_ALLOWED_ORIGIN = {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, OF_AN_ALLOWED_ORIGIN]
)
def test_own_pages_a_browsers_user_and_a_page_of_an_allowed_origin_may_call(client, filled, headers):
    assert client.post(f"/collections/{filled()}/index/check", headers=headers).status_code == 202


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


@pytest.mark.parametrize(
    ("listens_on", "own", "foreign"),
    [
        ("fd00::7", ["[FD00:0::7]:5006"], "[fd00::8]:5006"),
        ("0.0.0.0", ["10.0.0.7:5006", "[fd00::7]", socket.gethostname(), "0.0.0.0:5006"], "evil.example"),
    ],
)
def test_the_host_it_listens_on_is_the_services_own_or_any_address(open_client, listens_on, own, foreign):
    """A page can make a name lead to this machine, but not an address."""
    with open_client(AccessSettings(OPEN), host=listens_on) as client:
        for host in own:
            assert client.get("/live", headers={"Host": host}).status_code == 200, host
        assert client.get("/live", headers={"Host": foreign}).status_code == 421


def test_only_a_probe_by_the_old_protocol_may_omit_the_host(client):
    for protocol, status in (("HTTP/1.0", 200), ("HTTP/1.1", 421)):
        without = {"SERVER_PROTOCOL": protocol, "HTTP_HOST": None}
        assert client.get("/live", environ_overrides=without).status_code == status
