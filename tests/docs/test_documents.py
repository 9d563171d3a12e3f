"""What the documents say of the project is so: tables, links, names."""

import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import click
import pytest

from interfaces.load_command import load
from schemas.settings import (
    CONFIG_FILE,
    HOSTED,
    RegistrySettings,
    RetrievalSettings,
    WrapperSettings,
    apply_config_file,
    read_wrapper_settings,
)
from tests.docs.examples import tokens
from tests.support.contract import Contract

PROJECT = Path(__file__).parents[2]
DOCUMENTS = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "SECURITY.md",
    PROJECT / "CHANGELOG.md",
    *PROJECT.glob("docs/*.md"),
]
README, OPERATIONS = PROJECT / "README.md", PROJECT / "docs" / "operations.md"
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces")
FOLLOWED = re.compile(r"(?:https?:|mailto:)")
NOTHING = "–"


def test_every_setting_is_in_the_table_with_its_default():
    documented = {name: default for name, default, _ in _rows(README, "Settings")}
    of_the_service = {
        f"RAG_{each.name.upper()}": _spelt(getattr(default, each.name))
        for default in (WrapperSettings(), RegistrySettings(), RetrievalSettings())
        for each in fields(default)
    }
    of_load = {
        option.envvar: _spelt(option.to_info_dict()["default"])
        for option in load.params
        if isinstance(option, click.Option) and option.envvar
    }
    keys = {"RAG_EMBEDDING_API_KEY": NOTHING, "RAG_CHAT_API_KEY": NOTHING}
    assert documented == {**of_load, **of_the_service, **keys}


def test_every_variable_the_code_names_is_in_the_table():
    named = {
        name
        for package in PACKAGES
        for file in (PROJECT / package).rglob("*.py")
        for name in re.findall(r"\bRAG_[A-Z][A-Z_]*[A-Z]\b", file.read_text())
    }
    assert named - {HOSTED, CONFIG_FILE} <= {row[0] for row in _rows(README, "Settings")}


def test_the_settings_file_shown_is_accepted(tmp_path, monkeypatch):
    file = tmp_path / "rag.yaml"
    file.write_text(next(token.content for token in tokens(README) if token.info == "yaml"))
    for each in fields(WrapperSettings):
        # Set before it is removed, so that it is put back whatever the file sets.
        monkeypatch.setenv(f"RAG_{each.name.upper()}", "")
        monkeypatch.delenv(f"RAG_{each.name.upper()}")
    apply_config_file(file)
    settings = read_wrapper_settings()
    assert (settings.workers, settings.cors_origins) == (4, ("https://console.example",))


def test_every_route_is_in_the_table():
    documented = [(path, method) for method, path, _ in _rows(README, "Routes")]
    assert len(documented) == len(set(documented))
    assert set(documented) == Contract.load().described()


def test_every_metric_is_in_the_table(live):
    with live.session() as session:
        session.get(f"{live.url}/query")
        exposed = set(re.findall(r"^# TYPE (rag_\w+)", session.get(f"{live.url}/metrics").text, re.MULTILINE))
    documented = {row[0] for row in _rows(OPERATIONS, "Metrics")}
    assert exposed <= documented
    later = {
        "rag_context_searches_total",
        "rag_context_search_duration_seconds",
        "rag_query_plans_total",
        "rag_refused_requests_total",
        "rag_index_bytes",
    } | {each for each in documented if each.startswith("rag_index_re")}
    assert documented - exposed <= later, "they appear with the first search, query, refusal and collection"


def test_every_file_of_the_data_directory_is_in_the_table(live):
    documented = {name for row in _rows(OPERATIONS, "The data directory") for name in row[0].split(", ")}
    assert {path.name for path in live.data_dir.iterdir() if path.suffix != ".tmp"} <= documented


def test_the_changelog_has_a_place_for_what_comes_next():
    headings = [token.content for token in _inlines(PROJECT / "CHANGELOG.md", "heading")]
    assert headings[:2] == ["Changelog", "Unreleased"]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in _links(document):
        if FOLLOWED.match(target):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), f"{document.name}: {target}"
        assert not anchor or anchor in _anchors(linked), f"{document.name}: {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(document):
    named = re.findall(rf"`((?:{'|'.join(PACKAGES)}|tests|benchmarks|docs)/[\w/.-]*)`", document.read_text())
    assert not [path for path in named if not (PROJECT / path).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_nothing_of_one_machine_is_in_the_documents(document):
    text = document.read_text()
    assert str(PROJECT) not in text
    assert str(Path.home()) + "/" not in text
    assert not re.search(r"\b(?:pypi|pythonhosted|npmjs|crates)\.(?:org|com|io)\b", text)
    assert not re.search(r"\.\./(?!openapi|README|compose|tests|benchmarks|CONTRIBUTING|CHANGELOG)", text)


def _rows(document, section):
    """The cells of all tables under a heading, without the marks of code, up to the next heading of its rank."""
    rows, inside, row = [], False, []
    for before, token in pairwise(tokens(document)):
        if before.type == "heading_open" and before.tag == "h2":
            inside = token.content == section
        elif inside and before.type == "td_open":
            row.append(token.content.replace("`", ""))
        elif token.type == "tr_close" and row:
            rows.append(tuple(row))
            row = []
    assert rows, f"{document.name} has no table under {section}"
    return rows


def _inlines(document, kind):
    return [token for before, token in pairwise(tokens(document)) if before.type == f"{kind}_open"]


def _links(document):
    for token in tokens(document):
        for child in token.children or ():
            if child.type == "link_open":
                yield child.attrs["href"]


def _anchors(document):
    """The anchors that headings get on the usual forges."""
    titles = (token.content.lower().replace("`", "") for token in _inlines(document, "heading"))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def _spelt(default):
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        default = ",".join(default)
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(default) if default not in ("", None) else NOTHING
