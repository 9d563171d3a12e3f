"""What holds for every page, in light and dark, on a desktop and on a phone."""

from pathlib import Path

import axe_playwright_python
import pytest
import requests
from playwright.sync_api import Page

from tests.interfaces.console.browser.tabs import DESKTOP, PHONE, tab_at
from tests.interfaces.console.conftest import ADMIN, ADMIN_KEY
from tests.support.live import PATIENCE_SECONDS

DRESSINGS = {"dark-phone": ("dark", PHONE), "light-desktop": ("light", DESKTOP)}
PAGES = {
    "ask": "/ask",
    "found": "/ask?q=How+long+are+backups+kept%3F",
    "why": "/ask?q=How+long+are+backups+kept%3F&why=1",
    "nothing-fits": "/ask?q=xylophone+quantum+pancake",
    "collections": "/collections",
    "collection": "/collections/rag-documents",
    "filtered": "/collections/rag-documents?where=%7B%22title%22%3A%22Handbook%22%7D",
    "delete": "/collections/rag-documents/delete?where=%7B%22title%22%3A%22Handbook%22%7D",
    "documents": "/documents",
    "connections": "/connections",
    "connection": "/connections/default",
    "connection-new": "/new-connection",
    "connection-choices": "/new-connection/rag/qdrant",
    "connection-models": "/new-connection/llm/openai",
    "connection-delete": "/connections/default/delete",
    "service": "/service",
    "keys": "/service/keys",
    "traffic": "/service/traffic",
    "backups": "/service/backups",
    "audit": "/service/audit",
    "settings": "/service/settings",
    "no-such-page": "/nowhere",
}
"""Every kind of page by its name; pages of one document, job and the like are found from these."""

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
_RUN_AXE = """async () => (await axe.run()).violations
    .filter(({impact}) => ["serious", "critical"].includes(impact))
    .map(({id, nodes}) => [id, ...nodes.map(({html, failureSummary}) => html + "\\n" + failureSummary)])"""
_OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def faults_of(page: Page) -> list[list[str]]:
    """Return what axe-core finds serious or critical: [rule, element, …]."""
    page.evaluate(AXE)
    found: list[list[str]] = page.evaluate(_RUN_AXE)
    return found


def overflow_of(page: Page) -> int:
    """Return the pixels by which a page is wider than its window."""
    return int(page.evaluate(_OVERFLOW))


@pytest.fixture(scope="module")
def tab(browser, service):
    """A tab of somebody who has signed in."""
    with browser.new_context(viewport=DESKTOP, reduced_motion="reduce") as context:
        tab = tab_at(context, service.url)
        tab.sign_in(ADMIN_KEY)
        yield tab


def dress(page, dressing):
    scheme, viewport = DRESSINGS[dressing]
    page.emulate_media(color_scheme=scheme)  # without motion: a colour that is on its way may be too faint
    page.set_viewport_size(viewport)


def check(tab, name):
    """Fail when the page of the tab cannot be used by everybody: in one dressing, which its name chooses, or when it is
    too wide in any."""
    page = tab.page
    for dressing in sorted(DRESSINGS, reverse=len(name) % 2 == 0):
        dress(page, dressing)
        assert overflow_of(page) <= 0, dressing
    assert faults_of(page) == [], dressing
    assert page.locator("h1").count() == 1
    tab.check()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_used_by_everybody_and_asks_the_service_alone(tab, name):
    tab.open(PAGES[name])
    if name == "no-such-page":
        tab.complaints.clear()  # the browser says that the page was 404
    check(tab, name)


def test_a_page_of_one_document_shows_its_section_its_vector_and_what_is_near(tab):
    page = tab.open("/ask?q=How+long+are+backups+kept%3F")
    page.locator("#hit-1 h3 a").click()
    assert "Backups run every night" in page.locator("main").inner_text()
    for heading in ("Vector", "Nearest", "The section it belongs to"):
        assert page.get_by_role("heading", name=heading).count() == 1
    check(tab, "document")


def test_the_page_of_one_key_can_be_used_by_everybody(tab, service):
    wanted = {"name": "a colleague", "scopes": ["read"], "collections": ["rag-documents"], "limits": {"concurrent": 5}}
    made = requests.post(f"{service.url}/api/keys", json=wanted, headers=ADMIN, timeout=PATIENCE_SECONDS).json()
    page = tab.open("/service/keys")
    page.locator(f"tr:has-text('{made['id']}') th a").click()
    assert page.get_by_label("Name").input_value() == "a colleague"
    check(tab, "key")


def test_the_first_page_is_light(browser, service):
    with browser.new_context(viewport=DESKTOP, reduced_motion="reduce") as context:
        sizes, tab = [], tab_at(context, service.url)
        tab.page.on("requestfinished", lambda request: sizes.append(request.sizes()))
        page = tab.show("/")
        assert page.get_by_role("heading", name="Sign in").count() == 1
        received = sum(each["responseBodySize"] + each["responseHeadersSize"] for each in sizes)
        assert 10_000 < received < 150_000


def test_everything_can_be_reached_by_keyboard(tab):
    dress(tab.page, "light-desktop")
    page = tab.open("/ask?q=How+long+are+backups+kept%3F")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name"))
    assert {"q", "Search", "Answer", "Collections", "Documents", "Service", "Sign out", "why these?"} <= reached
