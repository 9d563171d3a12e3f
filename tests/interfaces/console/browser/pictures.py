"""Take the pictures of docs/console.md anew: `python -m tests.interfaces.console.browser.pictures`.

A service on a scratch directory loads this project's documentation; each page is taken on a desktop in light and on a
phone in dark, and all pages of a device are put on one sheet.
"""

import base64
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import requests
from playwright.sync_api import Browser, ViewportSize

from interfaces.commands.scratch_service import command
from tests.interfaces.console.browser.tabs import DESKTOP, PHONE, chromium, tab_at
from tests.support.live import LiveService, live_service

PROJECT = Path(__file__).resolve().parents[4]
PICTURES = PROJECT / "docs" / "pictures"
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
    "connection": "/new-connection/rag/chromadb",
    "quality": "/quality",
    "service": "/service",
    "traffic": "/service/traffic",
    "keys": "/service/keys",
    "backups": "/service/backups",
    "settings": "/service/settings",
}


@dataclass(frozen=True)
class Kind:
    """A device with its colour scheme; its sheet has `columns` pictures beside each other, each `width` wide."""

    device: str
    scheme: Literal["light", "dark"]
    viewport: ViewportSize
    columns: int
    width: int


KINDS = (Kind("desktop", "light", DESKTOP, 3, 520), Kind("phone", "dark", PHONE, 7, 216))
JPEG_QUALITY = 70
SHEET = """<!doctype html><style>
body {{ margin: 8px; display: grid; grid-template-columns: repeat({columns}, {width}px); gap: 8px 16px;
  font: 14px sans-serif; background: #fff; color: #222 }}
figure {{ margin: 8px 0 }} img {{ width: {width}px; border: 1px solid #bbb; border-radius: 4px }}
</style>{figures}"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rag-wrapper-pictures-") as directory:
        folder = Path(directory)
        with live_service(folder, backup_dir=folder / "backups", workers=1) as service, chromium() as browser:
            _prepare(service)
            for kind in KINDS:
                _take(browser, service, kind)


def _prepare(service: LiveService) -> None:
    load = command("load", str(PROJECT / "docs"), "--url", service.url)
    subprocess.run(load, check=True, capture_output=True)
    requests.post(f"{service.url}/api/backups", json={}, timeout=60).raise_for_status()
    hits = requests.post(f"{service.url}/api/search", json={"query": "What survives kill -9?"}, timeout=60).json()
    for grade, hit in zip((1, 1, 0), hits["results"], strict=False):
        judged = {
            "question": "What survives kill -9?",
            "collection": hit["collection"],
            "document_id": hit["doc_id"],
            "grade": grade,
        }
        requests.post(f"{service.url}/api/judgements", json=judged, timeout=60).raise_for_status()


def _take(browser: Browser, service: LiveService, kind: Kind) -> None:
    """Put the pictures of all pages on one sheet."""
    scale = kind.width / kind.viewport["width"]
    context = browser.new_context(viewport=kind.viewport, color_scheme=kind.scheme, device_scale_factor=scale)
    tab = tab_at(context, service.url)
    figures = []
    for name, path in PAGES.items():
        picture = base64.b64encode(tab.open(path).screenshot(type="png")).decode()
        figures.append(f"<figure><img src='data:image/png;base64,{picture}'><figcaption>{name}</figcaption></figure>")
    context.close()
    sheet = browser.new_page(viewport={"width": kind.columns * (kind.width + 16) + 16, "height": 400})
    sheet.set_content(SHEET.format(columns=kind.columns, width=kind.width, figures="".join(figures)))
    path = PICTURES / f"console-{kind.device}.jpg"
    sheet.screenshot(path=path, type="jpeg", quality=JPEG_QUALITY, full_page=True)
    sheet.close()


if __name__ == "__main__":
    main()
