"""The page on access: its tables are the table of access, and what it says to type works."""

import shlex

import pytest

from guide.access_tables import PAGE, with_tables
from schemas.access.table import TOOLS
from tests.docs.examples import examples, reader, tokens
from tests.docs.forwarding_proxy import forwarding_proxy
from tests.support.live import live_service

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


@pytest.fixture
def proxy(service):
    with forwarding_proxy(service.port, host=PUBLIC.removeprefix("https://"), client=CLIENT) as url:
        yield url


@pytest.fixture
def run(service, proxy, tmp_path, monkeypatch):
    monkeypatch.setenv("RAG_DATA_DIR", str(service.data_dir))
    return reader(service.url, tmp_path, {PUBLIC: proxy})
