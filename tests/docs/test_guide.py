"""The guide has every page, leads nowhere else and loads nothing from elsewhere, and the service shows it."""

import re
import shutil
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest

from guide import building
from guide.building import BuildError, build
from guide.checking import faults_of
from guide.reference import reference_pages
from guide.self_contained import ThemeError, make_self_contained
from guide.spelling import cell, prose
from interfaces.web.guide import FOLDER
from tests.support.contract import OPENAPI, Contract

pytestmark = pytest.mark.slow  # the site is made anew

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guide") / "site"
    assert build(folder) > len(list((PROJECT / "docs").rglob("*.md")))
    return folder


@pytest.fixture
def guide(site, app, client, monkeypatch):
    """A client of a service that was installed with the site."""
    monkeypatch.setitem(app.extensions, FOLDER, site)
    return client


def test_every_document_has_its_page_and_every_picture_is_shown(site):
    docs = PROJECT / "docs"
    documents = [page.relative_to(docs).with_suffix("") for page in docs.rglob("*.md")]
    pages = [*documents, "contributing", "security", "changelog"]
    assert [page for page in pages if not (site / page / "index.html").is_file()] == []
    assert (site / "search.json").stat().st_size > 100_000
    pages = "".join((site / page / "index.html").read_text() for page in ("concepts", "console"))
    shown = set(re.findall(r'<img [^>]*src="\.\./pictures/([^"]+)"', pages))
    assert shown == {path.name for path in (PROJECT / "docs" / "pictures").iterdir()}


def test_pictures_can_be_read_on_dark_pages_and_by_those_who_do_not_see():
    pictures = sorted((PROJECT / "docs" / "pictures").glob("*.svg"))
    assert pictures
    for picture in pictures:
        root = ElementTree.parse(picture).getroot()
        names = [each.tag.rpartition("}")[2] for each in root]
        assert names[:2] == ["title", "desc"], picture
        panel = root[names.index("rect")]
        assert [panel.get("width"), panel.get("height")] == root.get("viewBox").split()[2:], picture
        assert panel.get("fill") == "#eef1f8", f"{picture}: dark words stand on a light panel, whatever is around it"


def test_every_operation_is_in_the_reference_once(site):
    pages = [
        (site / "reference" / name.removesuffix(".md") / "index.html").read_text() for name in reference_pages(OPENAPI)
    ]
    found = [unescape(each) for page in pages for each in re.findall(r"<h2[^>]*><code>([^<]+)</code>", page)]
    assert sorted(found) == sorted(f"{method} {path}" for path, method in Contract.load().described())


def test_the_reference_tells_the_scope_the_fields_and_the_answers():
    pages = reference_pages(OPENAPI)
    assert "**Needs:** a key with the scope `write`" in pages["documents.md"]
    assert "**Needs:** no key" in pages["service.md"]
    search = pages["retrieval.md"].partition("## `POST /collections/{name}/text-search`")[2]
    assert "| `query` (required) | string | Words to search for." in search
    assert "| `where` | [Where](schemas.md#where) |" in search
    assert "| 404 | `application/json` |" in search


def test_nothing_of_the_description_means_anything_to_a_browser(tmp_path):
    evil = "<script>x()</script> `<b>` a | b"
    assert prose(evil) == "&lt;script&gt;x()&lt;/script&gt; `<b>` a | b"
    assert cell(evil) == "&lt;script&gt;x()&lt;/script&gt; `<b>` a &#124; b"
    assert cell("`a | <b>`") == "<code>a &#124; &lt;b&gt;</code>"


def test_code_is_escaped_in_the_pages_and_shown_in_cells_without_the_backslash_that_tables_want(site):
    """Documents and descriptions name things such as `rw_<id>_…`; an element that no page has would be one of these."""
    for page in site.rglob("index.html"):
        inside = re.search(r"<article.*</article>", page.read_text(), re.DOTALL)[0]
        tags = set(re.findall(r"<([a-zA-Z][\w-]*)", inside))
        assert tags <= set(KNOWN_ELEMENTS.split()), page
    shown = (site / "terminal" / "index.html").read_text()
    assert r"\|" in (PROJECT / "docs" / "terminal.md").read_text()
    assert r"\|" not in shown
    assert "<code>&#124;</code>" in shown or "<code>|</code>" in shown


KNOWN_ELEMENTS = """
article section div nav form details summary header footer aside h1 h2 h3 h4 p a strong em code pre span ul ol li
blockquote br hr table thead tbody tr th td img button svg path circle rect
"""


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("a.html", '<a href="nowhere/">', "leads nowhere"),
        ("a.html", '<a href="b.html#missing">', "names an anchor that is not there"),
        ("a.html", '<a href="/absolute/">', "is not relative to the site"),
        ("a.html", '<script src="https://cdn.example/a.js"></script>', "is on another host"),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/a.css">', "is on another host"),
        ("a.html", "<script>run()</script>", "is inside the page"),
        ("a.html", '<p style="color: red">', "is inside the page"),
        ("a.css", "a { background: url(https://pictures.example/a.png) }", "loads https://pictures.example/a.png"),
        ("a.css", '@import "//fonts.example/a.css";', "loads //fonts.example/a.css"),
        ("a.js", 'load("https://unpkg.com/a.js")', 'loads "https://unpkg.com/a.js'),
    ],
)
def test_a_fault_of_the_site_is_found(tmp_path, file, text, fault):
    (tmp_path / "b.html").write_text('<h1 id="there">')
    (tmp_path / file).write_text(text)
    [found] = faults_of(tmp_path)
    assert found.startswith(f"{file}: ")
    assert found.endswith(fault)


def test_a_site_without_faults_has_none(tmp_path):
    (tmp_path / "b.html").write_text('<h1 id="there"><a href="https://elsewhere.example/">')
    (tmp_path / "a.html").write_text('<a href="b.html#there"><script id="x" type="application/json">{}</script>')
    (tmp_path / "a.js").write_text('make("http://www.w3.org/2000/svg")')
    assert faults_of(tmp_path) == []


def test_a_theme_that_is_not_known_and_a_page_that_nobody_would_find_stop_the_build(tmp_path, monkeypatch):
    (tmp_path / "a.js").write_text("nothing known")
    with pytest.raises(ThemeError):
        make_self_contained(tmp_path)
    settings = tmp_path / "site.yaml"
    settings.write_text(building.SETTINGS.read_text().replace("  - Start: tutorial.md\n", ""))
    monkeypatch.setattr(building, "SETTINGS", settings)
    into = tmp_path / "site"
    into.mkdir()
    (into / "before").touch()
    with pytest.raises(BuildError, match=r"tutorial\.md"):
        build(into)
    assert (into / "before").exists()


def test_the_service_shows_the_guide_and_nothing_else(guide):
    mimetypes = {
        "": "text/html",
        "reference/documents/": "text/html",
        "reference/documents/index.html": "text/html",
        "search.json": "application/json",
        "pictures/catalogue.svg": "image/svg+xml",
    }
    for file, mimetype in mimetypes.items():
        answer = guide.get(f"/docs/guide/{file}", buffered=True)
        assert (answer.status_code, answer.mimetype) == (200, mimetype), file
        assert answer.headers["Cache-Control"] == "no-cache"
        again = guide.get(f"/docs/guide/{file}", headers={"If-None-Match": answer.headers["ETag"]}, buffered=True)
        assert (again.status_code, again.data) == (304, b""), file
    escapes = ("../compose.py", "%2e%2e/compose.py", "%2e%2e%2fcompose.py", "a/%2e%2e/%2e%2e/cli.py", "//etc/passwd")
    for file in ("no-such-page/", "operations", "a%00b", *escapes):
        assert guide.get(f"/docs/guide/{file}").status_code == 404, file
    answer = guide.get("/docs/guide")
    assert (answer.status_code, answer.headers["Location"]) == (308, "guide/")


def test_scripts_and_styles_are_served_as_such_and_a_page_may_load_what_comes_from_the_service_alone(guide):
    page = guide.get("/docs/guide/operations/", buffered=True)
    for pattern, mimetypes in (
        (r'<script src="\.\./([^"]+)"', {"text/javascript"}),
        (r'stylesheet" href="\.\./([^"]+)"', {"text/css"}),
    ):
        files = re.findall(pattern, page.text)
        assert files
        for file in files:
            answer = guide.get(f"/docs/guide/{file}", buffered=True)
            assert (answer.status_code, answer.mimetype in mimetypes) == (200, True), file
    headers = guide.get("/docs/guide/", buffered=True).headers
    policy = dict(each.split(" ", 1) for each in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert "http" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_service_without_the_guide_says_how_to_get_it(app, client, tmp_path, monkeypatch):
    monkeypatch.setitem(app.extensions, FOLDER, tmp_path)
    for path in ("/docs/guide/", "/docs/guide/operations/"):
        answer = client.get(path)
        assert (answer.status_code, answer.json["code"]) == (404, "guide_not_built")
        assert "`make docs`" in answer.json["message"]


def test_an_installed_service_has_the_guide_that_was_built_before(site, tmp_path):
    """The files of the site are data of the package, so a wheel contains them."""
    from setuptools import Distribution

    shutil.copytree(
        PROJECT / "interfaces", tmp_path / "interfaces", ignore=shutil.ignore_patterns("guide", "__pycache__")
    )
    shutil.copytree(site, tmp_path / "interfaces" / "guide")
    command = Distribution(
        {"packages": ["interfaces"], "package_dir": {"": str(tmp_path)}, "package_data": {"interfaces": ["guide/**/*"]}}
    ).get_command_obj("build_py")
    command.ensure_finalized()
    packed = {Path(file).name for _, _, _, files in command.data_files for file in files}
    assert {"index.html", "search.json", "catalogue.svg"} <= packed
