"""Take the pictures of docs/console.md anew: `python -m tests.interfaces.console.browser.pictures`.

A service on a scratch directory loads this project's documentation; each page is taken on a desktop in light and on a
phone in dark, small enough for the documentation.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import requests
from playwright.sync_api import Browser

from interfaces.commands.scratch_service import command
from tests.interfaces.console.browser.tabs import DESKTOP, PHONE, chromium, tab_at
from tests.support.live import LiveService, live_service

PROJECT = Path(__file__).resolve().parents[4]
PICTURES = PROJECT / "docs" / "pictures" / "console"
QUESTION = "What+survives+kill+-9%3F"
DOCUMENTS = "/collections/rag-documents"
PAGES = {
    "ask": f"/ask?q={QUESTION}",
    "why": f"/ask?q={QUESTION}&why=1",
    "collections": "/collections",
    "collection": f"{DOCUMENTS}?field=source&op=%24eq&value=docs%2Freliability.md",
    "map": f"{DOCUMENTS}/map?field=source",
    "documents": "/documents",
    "connections": "/connections",
    "connection": "/connections/new/rag/chromadb",
    "quality": "/quality",
    "service": "/service",
    "traffic": "/service/traffic",
    "keys": "/service/keys",
    "backups": "/service/backups",
    "settings": "/service/settings",
}
KINDS = (("desktop", "light", DESKTOP, 0.6), ("phone", "dark", PHONE, 0.7))
"""The name of a device, its colour scheme, its window, and the pixels of a picture for each of the window's."""
JPEG_QUALITY = 72


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-pictures-") as directory:
        folder = Path(directory)
        with live_service(folder, backup_dir=folder / "backups", workers=1) as service, chromium() as browser:
            _prepare(service)
            for kind in KINDS:
                _take(browser, service, *kind)


def _prepare(service: LiveService) -> None:
    load = command("load", str(PROJECT / "docs"), "--url", service.url, "--full-speed")
    subprocess.run(load, check=True, capture_output=True)
    requests.post(f"{service.url}/api/backups", json={}, timeout=60).raise_for_status()
    hits = requests.post(f"{service.url}/api/search", json={"query": "What survives kill -9?"}, timeout=60).json()
    for grade, hit in zip((1, 1, 0), hits["results"], strict=False):
        judged = {
            "question": "What survives kill -9?",
            "collection": hit["collection"],
            "document_id": hit["chunk_id"],
            "grade": grade,
        }
        requests.post(f"{service.url}/api/judgements", json=judged, timeout=60).raise_for_status()


def _take(
    browser: Browser, service: LiveService, device: str, scheme: str, viewport: dict[str, int], scale: float
) -> None:
    context = browser.new_context(viewport=viewport, color_scheme=scheme, device_scale_factor=scale)
    tab = tab_at(context, service.url)
    for name, path in PAGES.items():
        page = tab.open(path)
        page.screenshot(path=PICTURES / f"{name}-{device}.jpg", type="jpeg", quality=JPEG_QUALITY)
    context.close()


if __name__ == "__main__":
    main()
