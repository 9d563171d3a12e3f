"""The map in a browser: points on a canvas, read and opened with keys and with the pointer."""

import re

import pytest
import requests
from playwright.sync_api import expect

from tests.interfaces.console.conftest import ADMIN
from tests.support.live import PATIENCE_SECONDS

KINDS = ("pdf", "md", "html")


@pytest.fixture(scope="module")
def mapped(service):
    """A collection whose documents lie in three corners, by their kinds."""
    documents = [
        {
            "id": f"d{n}",
            "text": f"The text of document {n}.",
            "metadata": {"kind": KINDS[n % 3], "title": f"Title {n}"},
            "embedding": [float(n % 3 == axis) + n / 1_000 for axis in range(3)],
        }
        for n in range(30)
    ]
    for path, body in (("", {"name": "mapped"}), ("/mapped/documents", {"documents": documents})):
        answer = requests.post(f"{service.url}/collections{path}", json=body, headers=ADMIN, timeout=PATIENCE_SECONDS)
        assert answer.status_code in (201, 202), answer.text
    return "mapped"


PIXELS = """
    const canvas = document.querySelector("#map canvas");
    // In a copy that is for reading: the browser warns of reading the other.
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
    const isPainted = (value, index) => index % 4 === 3 && value > 0;
"""


def painted(page):
    """Return how many pixels of the canvas are not empty."""
    return page.evaluate(f"() => {{ {PIXELS} return data.filter(isPainted).length; }}")


def until_painted(page, least, most):
    """Wait until between `least` and `most` pixels of the canvas are not empty."""
    page.wait_for_function(
        f"([least, most]) => {{ {PIXELS} const found = data.filter(isPainted).length;"
        " return least <= found && found <= most; }",
        arg=[least, most],
    )


def test_points_are_read_with_keys_and_opened(admin_tab, mapped):
    page = admin_tab.open(f"/collections/{mapped}")
    page.get_by_role("link", name="Map").click()
    expect(page.get_by_role("img", name="mapped as points, coloured by kind")).to_be_visible()
    box = page.get_by_role("group", name="Map")
    box.focus()
    box.press("+")
    expect(page.locator("#told")).to_contain_text("The text of document")
    expect(page.locator(".tip")).to_contain_text(re.compile("Title .*kind: (pdf|md|html)"))
    told = page.locator(".tip strong").inner_text()
    box.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(told)


def test_groups_are_hidden_and_shown_and_the_map_moves(admin_tab, mapped):
    page = admin_tab.open(f"/collections/{mapped}/map")
    until_painted(page, 1, 10**9)
    everything = painted(page)
    for kind in KINDS:
        page.get_by_label(f"Show {kind}").uncheck()
    until_painted(page, 0, 0)
    for kind in KINDS:
        page.get_by_label(f"Show {kind}").check()
    until_painted(page, everything, everything)
    page.get_by_role("button", name="Zoom in").click(click_count=9)
    until_painted(page, 0, everything - 1)
    page.get_by_role("button", name="Whole map").click()
    until_painted(page, everything, everything)


def test_a_point_under_the_pointer_tells_its_text_and_opens_at_a_click(admin_tab, mapped):
    page = admin_tab.open(f"/collections/{mapped}/map?field=")
    until_painted(page, 1, 10**9)
    # The first pixels are of the point that is highest.
    left, top = page.evaluate(
        f"""() => {{ {PIXELS}
            const first = data.findIndex(isPainted) >> 2;
            return [first % canvas.width, Math.floor(first / canvas.width) + 2].map((pixels) => pixels / devicePixelRatio);
        }}"""
    )
    canvas = page.locator("#map canvas")
    canvas.hover(position={"x": left, "y": top})
    expect(page.locator(".tip")).to_contain_text("The text of document")
    told = page.locator(".tip strong").inner_text()
    canvas.click(position={"x": left, "y": top})
    expect(page.get_by_role("heading", level=1)).to_have_text(told)
