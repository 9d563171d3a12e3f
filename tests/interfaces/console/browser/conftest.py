"""The console in a real browser, of a service with two workers, two collections, and stubs of the models."""

from __future__ import annotations

import pytest
import requests

from tests.interfaces.console.browser.tabs import DESKTOP, chromium, tab_at
from tests.interfaces.console.conftest import ADMIN, ADMIN_KEY
from tests.support.live import live_service

HANDBOOK = """# Handbook

## Backups

Backups run every night at two, and are kept for thirty days.

## Travel

Take the train where there is one. Hotels are booked by the office.
"""

GARDEN = "# Garden\n\nRoses are cut in spring, and hedges in late summer.\n"


@pytest.fixture(scope="package")
def service(tmp_path_factory, models, processes):
    settings = {
        "workers": 2,
        "api_key": ADMIN_KEY,
        "chat_provider": "openai",
        "chat_url": f"{models.url}/v1",
        "chat_model": "chatty",
    }
    with live_service(tmp_path_factory.mktemp("console"), **settings) as service:
        for name, text in {"handbook": HANDBOOK, "garden": GARDEN}.items():
            document = {"source": name, "path": f"{name}.md", "title": name.title(), "text": text}
            sent = requests.post(
                f"{service.url}/api/rag/ingest",
                json={**document, "contentType": "documentation"},
                headers=ADMIN,
                timeout=60,
            )
            assert sent.status_code == 200, sent.text
        yield service


@pytest.fixture(scope="module")
def browser(processes):
    """The browser, which goes with each file: while it runs, nothing else in this process can use asyncio."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def tab(browser, service):
    """A tab that nobody has signed in with; what its pages complain of fails the test."""
    with browser.new_context(viewport=DESKTOP) as context:
        tab = tab_at(context, service.url)
        yield tab
        tab.check()


@pytest.fixture
def admin_tab(tab):
    tab.sign_in(ADMIN_KEY)
    return tab
