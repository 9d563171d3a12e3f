"""Connections built, tested and saved in a browser: to a real Chroma server, to a wrong one, to one behind a token."""

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
