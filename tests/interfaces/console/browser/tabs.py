"""Drive a real browser: Debian's Chromium, which tests neither fetch nor configure."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

from tests.support.live import PATIENCE_SECONDS, eventually

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
TIMEOUT_MS = PATIENCE_SECONDS * 1_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the browser for the length of the block. Skips the test, aloud, where there is none."""
    if CHROMIUM is None:
        pytest.skip("Debian's package chromium is not installed: nothing is tested in a browser")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A page of the browser, at a service. What it complained of and whom it asked is in `complaints` and `asked`."""

    url: str
    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    pending: set[Request] = field(default_factory=set)

    def open(self, path: str) -> Page:
        """Show a page of the console and return it once its scripts have run, and have what they asked for."""
        return self.show(f"/console{path}")

    def show(self, path: str) -> Page:
        self.page.goto(self.url + path)
        eventually(lambda: self.page.wait_for_timeout(1) or not self.pending)
        return self.page

    def sign_in(self, key: str) -> None:
        self.page.goto(f"{self.url}/console/sign-in")
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url("**/console/ask")

    def check(self) -> None:
        """Fail when the browser complained of anything, the policy of what may be loaded included, or asked anybody
        but the service."""
        assert self.complaints == []
        assert [each for each in self.asked if not each.startswith((f"{self.url}/", "data:", "blob:"))] == []


def tab_at(context: BrowserContext, url: str) -> Tab:
    """Open a page that writes down what the browser complains of and whom it asks."""
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    tab = Tab(url, page)
    page.on("console", lambda said: said.type in ("error", "warning") and tab.complaints.append(said.text))
    page.on("pageerror", lambda error: tab.complaints.append(str(error)))
    page.on("request", lambda request: (tab.asked.append(request.url), tab.pending.add(request)))
    page.on("requestfinished", lambda request: tab.pending.discard(request))
    page.on("requestfailed", lambda request: tab.pending.discard(request))
    return tab
