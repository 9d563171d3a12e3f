"""The TypeScript client works in a real browser, on a page of another origin that the service allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.clients.typescript_client import built_client
from tests.interfaces.console.browser.tabs import chromium, tab_at
from tests.support.live import live_service

KEY = "an-administrators-key-of-tests"
STORED_AND_FOUND = """async ([url, apiKey]) => {
  const { RagWrapper, decodeEmbeddings } = await import("/index.js");
  const client = new RagWrapper({ url, apiKey });
  await client.collections.create({ name: "letters" });
  const letters = client.collection("letters");

  async function* many() {
    for (let n = 0; n < 1200; n += 1) yield { id: `d${n}`, text: `Letter ${n}`, metadata: { n }, embedding: new Float32Array([n, 1]) };
  }
  const written = await letters.write(many());

  const answer = decodeEmbeddings(
    await letters.query({ query_embedding: new Float32Array([0, 1]), top_k: 1, include: ["text", "embedding"] }),
  );
  const exported = [];
  for await (const document of letters.export()) exported.push(document.id);
  const missing = await client.collection("nowhere").get("x").catch((error) => [error.code, error.status]);
  const { results: [{ id, embedding }] } = answer;
  return { created: written.created, found: [id, [...embedding]], exported: new Set(exported).size, missing };
}"""
REFUSED = """async ([url, apiKey]) => {
  const { RagWrapper } = await import("/index.js");
  return new RagWrapper({ url, apiKey, retries: 0 }).health().then(() => "answered", (error) => error.code);
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def served(folder) -> Iterator[int]:
    """Serve a folder on a port of loopback for the length of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def page(tmp_path_factory, processes):
    """A tab, and the port of an application that the service knows by its number, and not by its name."""
    folder = built_client() / "dist" / "esm"
    with chromium() as browser, served(folder) as port:
        settings = {"api_key": KEY, "cors_origins": f"http://127.0.0.1:{port}"}
        with live_service(tmp_path_factory.mktemp("browser"), **settings) as service, browser.new_context() as context:
            yield tab_at(context, service.url), port


def test_a_page_stores_and_finds_and_streams(page):
    tab, port = page
    tab.page.goto(f"http://127.0.0.1:{port}/")
    told = tab.page.evaluate(STORED_AND_FOUND, [tab.url, KEY])
    assert told == {
        "created": 1200,
        "found": ["d0", [0, 1]],
        "exported": 1200,
        "missing": ["collection_not_found", 404],
    }


def test_a_page_of_a_strange_origin_learns_nothing(page):
    tab, port = page
    tab.page.goto(f"http://localhost:{port}/")
    assert tab.page.evaluate(REFUSED, [tab.url, KEY]) == "network_failure"
