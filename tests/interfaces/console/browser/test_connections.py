"""Pages that live by their scripts. Connections built, tested and saved in a browser: to a real Chroma server, to a
wrong one, to one behind a token. The map: points on a canvas, read and opened with keys and with the pointer."""

import re
import signal

import pytest
import requests
from playwright.sync_api import expect

from tests.interfaces.console.conftest import ADMIN
from tests.support.chroma import ChromaServer
from tests.support.live import PATIENCE_SECONDS, chroma_client_at

NEW_CHROMA = "/new-connection/rag/chromadb"


@pytest.fixture(scope="module")
def chroma(tmp_path_factory, processes):
    server = ChromaServer(tmp_path_factory.mktemp("chroma"))
    server.start()
    try:
        with chroma_client_at(server.url) as client:
            books = client.create_collection("books")
            books.add(ids=["a", "b"], documents=["one", "two"], embeddings=[[1, 0, 0], [0, 1, 0]])
        yield server
    finally:
        server.stop(signal.SIGTERM)


@pytest.fixture
def connection_id(service, request):
    name = re.sub(r"[^a-z]", "-", request.node.originalname)[:60]
    yield name
    requests.delete(f"{service.url}/api/connections/{name}", headers=ADMIN, timeout=PATIENCE_SECONDS)


def verdicts(page):
    return page.locator("#stages .badge").all_inner_texts()


def test_a_real_server(admin_tab, chroma, connection_id):
    page = admin_tab.open("/connections")
    page.get_by_role("link", name="New connection").click()
    page.get_by_role("link", name="Chroma server").click()
    page.get_by_label("Name (required)").fill(connection_id)
    page.get_by_label("Title").fill("Books of the house")
    page.get_by_label("URL").fill(chroma.url)
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#verdict")).to_contain_text("It works")
    assert verdicts(page) == ["passed"] * 6
    expect(page.locator("#behind tbody tr")).to_have_text(re.compile(r"books\s*2"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Books of the house")
    expect(page.get_by_role("status").first).to_have_text("The connection is saved.")
    expect(page.get_by_role("region", name="Collections behind it")).to_contain_text("books")
    expect(page.locator("svg.looks rect")).not_to_have_count(0)

    page.get_by_role("link", name="Connections", exact=True).first.click()
    card = page.locator("article", has_text="Books of the house")
    expect(card).to_contain_text("healthy")
    expect(card).to_contain_text("1 collection")


def test_the_form_is_judged_while_somebody_types(admin_tab):
    page = admin_tab.open(NEW_CHROMA)
    url = page.get_by_label("URL")
    url.fill("nowhere")
    expect(page.locator("#field-url-errors")).to_contain_text("URL must be http(s)://")
    expect(url).to_have_attribute("aria-invalid", "true")
    url.fill("http://${NO_SUCH_HOST}:8000")
    expect(page.locator("#field-url-errors")).to_contain_text("NO_SUCH_HOST")
    url.fill("http://127.0.0.1:8000")
    expect(page.locator("#field-url-errors")).to_be_empty()
    expect(url).not_to_have_attribute("aria-invalid", "true")
    page.get_by_text("Advanced").click()
    page.get_by_label("Timeout").fill("-1")
    expect(page.locator("#field-timeout_seconds-errors")).to_contain_text("must be at least")


def test_models_are_listed_when_the_address_is_known(admin_tab, models):
    page = admin_tab.open("/new-connection/llm/openai")
    page.get_by_label("URL").fill(f"{models.url}/v1")
    page.get_by_role("button", name="List models").click()
    expect(page.locator("#models-said")).to_have_text("1 model to choose from.")
    expect(page.locator("#field-model-list option[value='chatty']")).to_have_count(1)


def test_the_fields_of_the_choice_that_is_made_are_shown(admin_tab):
    page = admin_tab.open("/new-connection/rag/qdrant")
    url, folder = page.get_by_label("URL"), page.get_by_label("Folder", exact=True)
    expect(url).to_be_visible()
    expect(folder).to_be_hidden()
    page.get_by_label("An embedded Qdrant").check()
    expect(folder).to_be_visible()
    expect(url).to_be_hidden()


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
