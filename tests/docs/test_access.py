"""The page on access: its tables are the table of access, and what it says to type works."""

import shlex

import pytest
import requests

from guide.access_tables import PAGE, with_tables
from schemas.access.table import TOOLS
from tests.docs.examples import examples, reader, tokens
from tests.support.http_stub import running
from tests.support.live import PATIENCE_SECONDS, live_service

PUBLIC = "https://rag.example"
"""Where the page has its proxy."""
CLIENT = "203.0.113.7"
"""The page's client of the proxy."""


def test_the_tables_are_those_of_the_service():
    assert PAGE.read_text() == with_tables(PAGE.read_text()), "run python -m guide.access_tables"


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


OF_ONE_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
"""Headers that are not passed on, in lower case: those of one connection, and those that are set anew."""


class ForwardingProxy:
    """A reverse proxy that says of its clients what nginx and Caddy say: they call it by its public name, with https as
    far as it tells."""

    def __init__(self, service):
        self._behind = service.url

    def answer(self, method, target, headers, body):
        told = {name: text for name, text in headers.items() if name.lower() not in OF_ONE_CONNECTION}
        said = next((told.pop(name) for name in list(told) if name.lower() == "x-forwarded-for"), None)
        told |= {"Host": PUBLIC.removeprefix("https://"), "X-Forwarded-Proto": "https"}
        told["X-Forwarded-For"] = CLIENT if said is None else f"{said}, {CLIENT}"
        asked = {"headers": told, "allow_redirects": False, "timeout": PATIENCE_SECONDS}
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request(method, self._behind + target, json=body, **asked)
        kept = {name: text for name, text in answer.headers.items() if name.lower() not in OF_ONE_CONNECTION}
        return answer.status_code, kept, answer.content


@pytest.fixture
def proxy(service):
    with running(ForwardingProxy(service)) as proxy:
        yield proxy.url


@pytest.fixture
def run(service, proxy, tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_DATA_DIR", str(service.data_dir))
    return reader(service.url, tmp_path, {PUBLIC: proxy})
