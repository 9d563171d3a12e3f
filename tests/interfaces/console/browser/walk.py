"""The pages of the console that a test walks through, and what is asked of each."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

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
