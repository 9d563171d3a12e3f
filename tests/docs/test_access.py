"""The page on access: its tables are the table of access, and what it says to type works."""

import shlex
from http.client import HTTPConnection

import pytest
import requests

from schemas.access.table import TOOLS
from tests.docs.access_tables import PAGE, with_tables
from tests.docs.examples import examples, reader, tokens
from tests.docs.forwarding_proxy import forwarding_proxy
from tests.support.live import eventually, live_service

PUBLIC = "https://rag.example"
"""Where the page has its proxy."""
CLIENT = "203.0.113.7"
"""The page's client of the proxy."""
STRANGER = "127.0.0.2"
"""An address of this machine that is no trusted proxy's."""


def test_the_tables_are_those_of_the_service():
    assert PAGE.read_text() == with_tables(PAGE.read_text()), "run python -m tests.docs.access_tables"


def test_the_tools_over_http_are_those_that_the_page_names(app):
    assert "four whose names begin with `rag_context_`" in PAGE.read_text()
    served = set(app.extensions["rag.layers"].tools)
    assert served == {name for name in TOOLS if name.startswith("rag_context_")}
    assert len(served) == 4


def test_what_the_page_says_to_type_gives_the_answers_shown(run):
    found = examples(PAGE)
    assert len(found) >= 10
    assert sum(PUBLIC in each.command for each in found) >= 2
    for example in found:
        fault = example.fault(run(example.command))
        assert not fault, f"docs/access.md:{example.line}: {fault}"


def test_the_page_says_which_settings_a_proxy_needs():
    assert _settings_typed().keys() == {"allowed_hosts", "trusted_proxies"}


def test_a_key_works_through_the_proxy_under_its_public_name_alone(proxy, new_key):
    key = {"Authorization": f"Bearer {new_key('read')}"}

    def told(**headers):
        answer = requests.get(f"{proxy.url}/api/me", headers=key | headers, timeout=60).json()
        return answer.get("code") or answer["kind"]

    assert told() == told(Origin=PUBLIC) == "key"
    assert told(Authorization="") == "key_missing"
    assert told(Origin=PUBLIC.replace("https", "http")) == "origin_not_allowed"
    for name in ("elsewhere.example", "rag.example.elsewhere.example", "sub.rag.example"):
        proxy.host = name
        assert told() == "host_not_allowed"


def test_the_audit_log_has_the_client_that_the_proxy_tells_and_believes_nobody_else(service, proxy, new_key):
    key = new_key("admin")
    asking = {"Authorization": f"Bearer {key}", "X-Forwarded-For": "198.51.100.1"}
    assert requests.get(f"{proxy.url}/api/keys/aaaaaaaa", headers=asking, timeout=60).status_code == 404
    connection = HTTPConnection("127.0.0.1", service.port, timeout=60, source_address=(STRANGER, 0))
    connection.request("GET", "/api/keys/bbbbbbbb", headers=asking | {"Host": proxy.host})
    assert connection.getresponse().status == 404
    connection.close()
    entries = requests.get(
        f"{service.url}/api/audit", params={"key": key[3:11]}, headers={"X-API-Key": key}, timeout=60
    ).json()["entries"]
    found = {each["subject"]: each["address"] for each in entries if each["route"] == "/api/keys/{id}"}
    assert found == {"aaaaaaaa": CLIENT, "bbbbbbbb": STRANGER}


@pytest.fixture
def new_key(service, run):
    """`new_key(scope)`: the text of a new key, once the service has noticed that it needs one."""

    def make(scope):
        key = run(f"rag-wrapper keys create made --scope {scope}").strip()
        eventually(lambda: requests.get(f"{service.url}/api/me", timeout=60).status_code == 401)
        return key

    return make


def _settings_typed():
    """Return the settings that the page says to type for a service behind a proxy, as `live_service` takes them."""
    blocks = [each.content for each in tokens(PAGE) if each.type == "fence" and each.info.strip() == "sh"]
    (typed,) = (each for each in blocks if "RAG_TRUSTED_PROXIES" in each)
    pairs = (word.removeprefix("RAG_").split("=", 1) for word in shlex.split(typed) if word.startswith("RAG_"))
    return {name.lower(): value for name, value in pairs}


@pytest.fixture(scope="module")
def service(tmp_path_factory, processes):
    with live_service(tmp_path_factory.mktemp("access"), **_settings_typed()) as service:
        yield service


@pytest.fixture
def proxy(service):
    with forwarding_proxy(service.port, host=PUBLIC.removeprefix("https://"), client=CLIENT) as proxy:
        yield proxy


@pytest.fixture
def run(service, proxy, tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_DATA_DIR", str(service.data_dir))
    return reader(service.url, tmp_path, {PUBLIC: proxy.url})
