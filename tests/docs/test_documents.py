"""The documents make true statements about the project: tables, links, names."""

import ast
import re
import tomllib
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path

import click

from interfaces.commands.load import load
from schemas.access.table import TOOLS
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

PROJECT = Path(__file__).parents[2]
DOCUMENTS = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "SECURITY.md",
    PROJECT / "CHANGELOG.md",
    *PROJECT.glob("docs/**/*.md"),
]
README, DOCS = PROJECT / "README.md", PROJECT / "docs"
INTEGRATIONS = DOCS / "integrations.md"
ROUTES, SETTINGS, OPERATIONS = DOCS / "routes.md", DOCS / "settings.md", DOCS / "operations.md"
PACKAGES = ("schemas", "wrapper", "providers", "registry", "retrieval", "interfaces")
KINDS = (WrapperSettings, AccessSettings, OidcSettings, RegistrySettings, RetrievalSettings, TracingSettings)
FOLLOWED = re.compile(r"(?:https?:|mailto:)")
NOTHING = "–"


def test_the_readme_and_the_page_on_integrations_link_to_every_document():
    linked = {
        (page.parent / target.partition("#")[0]).resolve() for page in (README, INTEGRATIONS) for target in _links(page)
    }
    assert set(DOCUMENTS) - {README} <= linked


def test_the_readme_compares_by_measured_figures_and_asks_what_is_written_nowhere():
    """Each row names its row of the benchmark, whose figures it repeats."""
    measured = {row[0].partition(",")[0]: row[2:5] for row in _rows(DOCS / "benchmarks.md", "Results") if len(row) == 6}
    for work, *figures in _rows(README, "Why not plain Chroma?"):
        name = re.search(r"\(([\w-]+)\b[^(]*\)$", work)[1]
        assert tuple(figures) == measured[name]
    # A page that repeats the question would be the best answer to it.
    (question,) = re.findall(r'rag-wrapper search "([^"]+)"', README.read_text())
    assert [page.name for page in DOCS.glob("**/*.md") if question in page.read_text()] == []


def test_every_setting_is_in_a_table_with_its_default():
    rows = _rows(SETTINGS)
    documented = {name: default for name, default, _ in rows}
    assert len(documented) == len(rows), "a setting is described twice"
    of_the_service = {
        f"RAG_{each.name.upper()}": _spelt(getattr(kind(), each.name)) for kind in KINDS for each in fields(kind)
    }
    of_load = {
        option.envvar: _spelt(option.to_info_dict()["default"])
        for option in load.params
        if isinstance(option, click.Option) and option.envvar
    }
    keys = dict.fromkeys((f"RAG_{of}_API_KEY" for of in ("EMBEDDING", "CHAT", "RERANK")), NOTHING)
    assert documented == {**of_load, **of_the_service, **keys}


def test_every_variable_the_code_names_is_in_a_table():
    named = {name for text in _texts_of_the_product() for name in re.findall(r"\bRAG_[A-Z][A-Z_]*[A-Z]\b", text)}
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


def test_every_metric_is_in_the_table():
    """Each module that makes metrics names them in full; prometheus_client adds `_total` to the name of a counter."""
    named = {
        name.removesuffix("_total")
        for text in _texts_of_the_product()
        if re.search(r"\b(?:Counter|Gauge|Histogram|Summary)\(", text)
        for name in re.findall(r'"(rag_[a-z0-9_]+)"', text)
    }
    assert len(named) > 50
    assert named == {row[0].removesuffix("_total") for row in _rows(OPERATIONS, "Metrics")}
    files = [README, *DOCS.glob("**/*.md"), *(each for each in (PROJECT / "deploy").rglob("*") if each.is_file())]
    told = {name for file in files for name in re.findall(r"\brag_[a-z0-9_]+…?", file.read_text())}
    others = {*TOOLS, "rag_wrapper", "rag_wrapper_client", "rag_jsonlines", "rag_own"}
    told = {name for name in told - others if not name.endswith(("_", "…"))}
    assert {re.sub("_(total|bucket|sum|count)$", "", name) for name in told} <= named


def test_every_file_of_the_data_directory_is_in_the_table(app):
    documented = {name for row in _rows(OPERATIONS, "The data directory") for name in row[0].split(", ")}
    data_dir = app.extensions["rag.service"].settings.data_dir
    assert {path.name for path in data_dir.iterdir() if path.suffix != ".tmp"} <= documented


def test_the_release_is_the_same_everywhere():
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    headings = [token.content for token in _inlines(PROJECT / "CHANGELOG.md", "heading")]
    newest = next(each for each in headings if re.match(r"\d", each))
    assert (newest.partition(" ")[0], Contract.load().document["info"]["version"]) == (version, version)


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


def test_every_link_leads_somewhere_and_one_that_leads_nowhere_is_found():
    assert [f"{page.name}: {target}" for page in DOCUMENTS for target in _links(page) if _is_broken(page, target)] == []
    page = DOCS / "operations.md"
    wrong = ["nowhere.md", "#no-such-heading", "settings.md#no-such-heading"]
    right = ["settings.md", "#metrics", "https://elsewhere.example/"]
    assert [target for target in (*right, *wrong) if _is_broken(page, target)] == wrong


def _is_broken(page, target):
    if FOLLOWED.match(target):
        return False
    path, _, anchor = target.partition("#")
    linked = (page.parent / path).resolve() if path else page
    return not linked.exists() or bool(anchor and anchor not in _anchors(linked))


def test_every_file_that_is_named_exists_and_nothing_of_one_machine_is_named():
    pattern = rf"`((?:{'|'.join(PACKAGES)}|tests|benchmarks|clients|docs)/[\w/.-]*)`"
    named = [(page.name, path) for page in DOCUMENTS for path in re.findall(pattern, page.read_text())]
    assert len(named) > 100
    assert [(page, path) for page, path in named if not (PROJECT / path).exists()] == []
    # A page of a folder leads to the others.
    foreign = re.compile(
        rf"{re.escape(str(PROJECT))}|{re.escape(str(Path.home()))}/|\b(?:pypi|pythonhosted|npmjs|crates)\.(?:org|com|io)\b"
        r"|\.\./(?!openapi|README|compose|deploy|tests|benchmarks|CONTRIBUTING|CHANGELOG|SECURITY)"
    )
    found = []
    for page in DOCUMENTS:
        text = page.read_text()
        if page.parent != DOCS:
            text = re.sub(r"\]\(\.\./(?=[\w-]+\.md|\.\./)", "](", text)
        found += [(page.name, each) for each in foreign.findall(text)]
    assert found == []


def _texts_of_the_product():
    return [file.read_text() for package in PACKAGES for file in (PROJECT / package).rglob("*.py")]


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


@cache
def _anchors(document):
    """Return the anchors that the usual forges give to headings."""
    titles = (token.content.lower().replace("`", "") for token in _inlines(document, "heading"))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def _spelt(default):
    if isinstance(default, bool):
        return "on" if default else "off"
    if isinstance(default, tuple):
        default = ",".join(default)
    return str(default) if default not in ("", None) else NOTHING
