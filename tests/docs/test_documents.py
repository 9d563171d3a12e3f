"""The documents make true statements about the project: tables, links, names."""

import ast
import re
import tomllib
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import click
import pytest
import yaml

from interfaces.commands.load import load
from schemas.settings import (
    CONFIG_FILE,
    HOSTED,
    SET_BY_FILE,
    AccessSettings,
    OidcSettings,
    RegistrySettings,
    RetrievalSettings,
    TracingSettings,
    WrapperSettings,
    apply_config_file,
    read_wrapper_settings,
)
from tests.docs.examples import tokens
from tests.support.contract import Contract
from tests.support.live import eventually

PROJECT = Path(__file__).parents[2]
DOCUMENTS = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "SECURITY.md",
    PROJECT / "CHANGELOG.md",
    *PROJECT.glob("docs/**/*.md"),
]
README, DOCS = PROJECT / "README.md", PROJECT / "docs"
ROUTES, SETTINGS, OPERATIONS = DOCS / "routes.md", DOCS / "settings.md", DOCS / "operations.md"
MOST_LINES_OF_THE_README = 150
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces")
FOLLOWED = re.compile(r"(?:https?:|mailto:)")
NOTHING = "–"


def test_the_readme_is_short():
    assert len(README.read_text().splitlines()) <= MOST_LINES_OF_THE_README


def test_what_nginx_takes_for_a_whole_server_is_in_no_location_of_the_example():
    server, location = re.search(
        r"```nginx\nserver \{\n(.*?)    location / \{\n(.*?)```", OPERATIONS.read_text(), re.S
    ).groups()
    for directive in ("listen", "server_name", "large_client_header_buffers"):
        assert (f"    {directive} " in server, f" {directive} " in location) == (True, False)


def test_the_readme_links_to_every_document():
    linked = {(PROJECT / target.partition("#")[0]).resolve() for target in _links(README)}
    assert {each for each in DOCUMENTS if each.parent.name != "integrations"} - {README} <= linked


def test_what_the_readme_asks_of_the_documentation_is_written_nowhere_in_it():
    """A page that repeats the question would be the best answer to it."""
    (question,) = re.findall(r'rag-wrapper search "([^"]+)"', README.read_text())
    assert [page.name for page in DOCS.glob("**/*.md") if question in page.read_text()] == []


def test_the_page_on_integrations_links_to_each():
    page = DOCS / "integrations.md"
    linked = {(page.parent / target.partition("#")[0]).resolve() for target in _links(page)}
    assert set(DOCS.glob("integrations/*.md")) <= linked


def test_the_readme_compares_by_measured_figures():
    """Each row names its row of the benchmark, whose figures it repeats."""
    measured = {row[0].partition(",")[0]: row[2:5] for row in _rows(DOCS / "benchmarks.md", "Results") if len(row) == 6}
    for work, *figures in _rows(README, "Why not plain Chroma?"):
        name = re.search(r"\(([\w-]+)\b[^(]*\)$", work)[1]
        assert tuple(figures) == measured[name]


def test_every_setting_is_in_a_table_with_its_default():
    rows = _rows(SETTINGS)
    documented = {name: default for name, default, _ in rows}
    assert len(documented) == len(rows), "a setting is described twice"
    of_the_service = {
        f"RAG_{each.name.upper()}": _spelt(getattr(default, each.name))
        for default in (
            WrapperSettings(),
            AccessSettings(),
            OidcSettings(),
            RegistrySettings(),
            RetrievalSettings(),
            TracingSettings(),
        )
        for each in fields(default)
    }
    of_load = {
        option.envvar: _spelt(option.to_info_dict()["default"])
        for option in load.params
        if isinstance(option, click.Option) and option.envvar
    }
    keys = dict.fromkeys((f"RAG_{of}_API_KEY" for of in ("EMBEDDING", "CHAT", "RERANK", "SOURCE")), NOTHING)
    assert documented == {**of_load, **of_the_service, **keys}


def test_every_variable_the_code_names_is_in_a_table():
    named = {
        name
        for package in PACKAGES
        for file in (PROJECT / package).rglob("*.py")
        for name in re.findall(r"\bRAG_[A-Z][A-Z_]*[A-Z]\b", file.read_text())
    }
    assert named - {HOSTED, CONFIG_FILE, SET_BY_FILE} <= {row[0] for row in _rows(SETTINGS)}


def test_the_settings_file_shown_is_accepted(tmp_path, monkeypatch):
    file = tmp_path / "rag.yaml"
    file.write_text(next(token.content for token in tokens(SETTINGS) if token.info == "yaml"))
    for each in fields(WrapperSettings):
        # Set before it is deleted, so that monkeypatch restores it whatever the file sets.
        monkeypatch.setenv(f"RAG_{each.name.upper()}", "")
        monkeypatch.delenv(f"RAG_{each.name.upper()}")
    apply_config_file(file)
    settings = read_wrapper_settings()
    assert (settings.workers, settings.cors_origins) == (4, ("https://console.example",))


def test_every_route_is_in_a_table():
    documented = [(path, method) for method, path, _ in _rows(ROUTES)]
    assert len(documented) == len(set(documented))
    assert set(documented) == Contract.load().described()


LATER = {
    "rag_stream_first_byte_seconds": "the first stream",
    "rag_streams_cut_total": "the first that is cut",
    "rag_refused_requests_total": "the first refusal",
    "rag_lane_refused_total": "the first refusal",
    "rag_audit_refused_total": "the first refusal",
    "rag_query_plans_total": "the first query",
    "rag_context_searches_total": "the first context search",
    "rag_context_search_duration_seconds": "the first context search",
    "rag_embedding_duration_seconds": "the first text",
    "rag_embedded_texts_total": "the first text",
    "rag_embedded_tokens_total": "the first text",
    "rag_embedding_errors_total": "the first failure",
    "rag_question_embeddings_total": "the first question",
    "rag_service_call_duration_seconds": "the first call to another service",
    "rag_service_call_errors_total": "the first failure",
    "rag_index_lowest_recall_at_10": "the first check",
    "rag_index_recall_at_10": "the first check",
    "rag_index_filtered_recall_at_10": "the first check",
    "rag_index_lowest_filtered_recall_at_10": "the first check",
    "rag_index_search_width": "an index that found too little",
    "rag_index_bytes": "the first check",
    "rag_index_rebuilds": "the first check",
    "rag_index_rebuilt_documents": "the first rebuild",
    "rag_spans_exported_total": "a collector of traces",
    "rag_spans_dropped_total": "a collector of traces",
    "rag_backup_age_seconds": "the first backup",
    "rag_backup_interval_seconds": "a schedule",
    "rag_backup_last_success_timestamp_seconds": "the first backup",
}
"""The metrics that a service has only after something happened."""


def test_every_metric_is_in_the_table(live):
    with live.session() as session:

        def exposed():
            found = re.findall(r"^# TYPE (rag_\w+)", session.get(f"{live.url}/metrics").text, re.MULTILINE)
            return found if "rag_stored_bytes" in found and "rag_model_up" in found else []

        seen = set(eventually(exposed))
    documented = {row[0] for row in _rows(OPERATIONS, "Metrics")}
    assert seen <= documented
    assert documented - seen <= LATER.keys()
    assert documented >= LATER.keys()


def test_every_file_of_the_data_directory_is_in_the_table(live):
    documented = {name for row in _rows(OPERATIONS, "The data directory") for name in row[0].split(", ")}
    assert {path.name for path in live.data_dir.iterdir() if path.suffix != ".tmp"} <= documented


def test_the_changelog_has_a_section_for_the_next_release():
    headings = [token.content for token in _inlines(PROJECT / "CHANGELOG.md", "heading")]
    assert headings[:2] == ["Changelog", "Unreleased"]


def test_the_release_is_the_same_everywhere():
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    headings = [token.content for token in _inlines(PROJECT / "CHANGELOG.md", "heading")]
    newest = next(each for each in headings if re.match(r"\d", each))
    described = yaml.safe_load((PROJECT / "openapi.yaml").read_text())["info"]["version"]
    assert (newest.partition(" ")[0], described) == (version, version)


def test_the_changelog_sorts_changes_by_their_kind():
    """A release lists the kinds of "Keep a Changelog" in its order, each at most once."""
    kinds = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    release: list[str] = []
    for before, token in pairwise(tokens(PROJECT / "CHANGELOG.md")):
        if before.type == "heading_open" and before.tag == "h2":
            release = []
            assert re.fullmatch(r"Unreleased|\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", token.content)
        elif before.type == "heading_open" and before.tag == "h3":
            release.append(token.content)
            assert release == [each for each in kinds if each in release]


def test_every_package_says_what_it_is_for():
    """The first paragraph of its docstring is also its row in "Rooms"."""
    told = dict(_rows(DOCS / "architecture.md", "Rooms"))
    sentences = {}
    for package in PACKAGES:
        for file in (PROJECT / package).rglob("__init__.py"):
            docstring = ast.get_docstring(ast.parse(file.read_text()))
            assert docstring, f"{file} has no docstring"
            first = docstring.partition("\n\n")[0]
            sentences[f"{file.parent.relative_to(PROJECT)}/"] = " ".join(first.split()).replace("`", "")
    assert told == sentences


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document):
    for target in _links(document):
        if FOLLOWED.match(target):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), f"{document.name}: {target}"
        assert not anchor or anchor in _anchors(linked), f"{document.name}: {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_is_named_exists(document):
    named = re.findall(rf"`((?:{'|'.join(PACKAGES)}|tests|benchmarks|docs)/[\w/.-]*)`", document.read_text())
    assert not [path for path in named if not (PROJECT / path).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_documents_name_nothing_of_one_machine(document):
    text = document.read_text()
    assert str(PROJECT) not in text
    assert str(Path.home()) + "/" not in text
    assert not re.search(r"\b(?:pypi|pythonhosted|npmjs|crates)\.(?:org|com|io)\b", text)
    if document.parent != DOCS:  # a page of a folder leads to the others
        text = re.sub(r"\]\(\.\./(?=[\w-]+\.md|\.\./)", "](", text)
    assert not re.search(
        r"\.\./(?!openapi|README|compose|deploy|tests|benchmarks|CONTRIBUTING|CHANGELOG|SECURITY)", text
    )


def _rows(document, section=None):
    """Return the cells of all tables under a heading, up to the next heading of its rank, or of all tables in the
    document when no heading is named. Backticks are left out."""
    rows, inside, row = [], section is None, []
    for before, token in pairwise(tokens(document)):
        if section is not None and before.type == "heading_open" and before.tag == "h2":
            inside = token.content == section
        elif inside and before.type == "td_open":
            row.append(token.content.replace("`", ""))
        elif token.type == "tr_close" and row:
            rows.append(tuple(row))
            row = []
    assert rows, f"{document.name} has no table{f' under {section}' if section else ''}"
    return rows


def _inlines(document, kind):
    return [token for before, token in pairwise(tokens(document)) if before.type == f"{kind}_open"]


def _links(document):
    for token in tokens(document):
        for child in token.children or ():
            if child.type == "link_open":
                yield child.attrs["href"]


def _anchors(document):
    """Return the anchors that the usual forges give to headings."""
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
