"""The console in a real browser, of a service with two workers, two collections, and stubs of the models."""

from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from tests.interfaces.console.browser.tabs import DESKTOP, chromium, tab_at
from tests.interfaces.console.conftest import ADMIN, ADMIN_KEY
from tests.support.live import PATIENCE_SECONDS, live_service

RUNNING = pytest.StashKey()
"""The browser, and what ends it."""

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
                f"{service.url}/api/rag/ingest", json=document, headers=ADMIN, timeout=PATIENCE_SECONDS
            )
            assert sent.status_code == 200, sent.text
        yield service


@pytest.fixture(scope="module")
def browser(request, processes):
    """The browser, which is started once for all files of this folder."""
    if RUNNING not in request.config.stash:
        with ExitStack() as stack:
            browser = stack.enter_context(chromium())
            request.config.stash[RUNNING] = (browser, stack.pop_all())
    return request.config.stash[RUNNING][0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """End the browser behind the last test of this folder: while it runs, nothing else in this process can use
    asyncio."""
    if RUNNING in item.config.stash and (nextitem is None or Path(__file__).parent not in nextitem.path.parents):
        _, stack = item.config.stash[RUNNING]
        del item.config.stash[RUNNING]
        stack.close()


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
