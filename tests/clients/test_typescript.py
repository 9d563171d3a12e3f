"""The TypeScript client works in Node, where its own tests pass, and in a real browser, on a page of another origin
that the service allows."""

import json
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.clients.typescript_client import CLIENT, built_client, run
from tests.interfaces.conftest import serving
from tests.interfaces.console.browser.tabs import chromium, tab_at
from tests.support.live import live_service
from tests.support.model_server import model_server

KEY = "an-administrators-key-of-tests"
TEST_SECONDS = 300
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


@pytest.fixture(scope="module")
def built():
    return built_client()


@pytest.fixture(scope="module")
def application(built):
    """The port of an application that brings the client to browsers."""
    folder = partial(Quiet, directory=str(built / "dist" / "esm"))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), folder)) as server:
        yield server.server_port


@pytest.fixture(scope="module")
def service(application, tmp_path_factory, processes):
    """A service that asks for a key, has a chat model, and knows the application by its number, and not by its name."""
    with (
        model_server() as models,
        live_service(
            tmp_path_factory.mktemp("typescript"),
            api_key=KEY,
            cors_origins=f"http://127.0.0.1:{application}",
            chat_provider="openai",
            chat_url=f"{models.url}/v1",
            chat_model="chatty",
        ) as service,
    ):
        yield service


@pytest.fixture(scope="module")
def tab(service):
    with chromium() as browser, browser.new_context() as context:
        yield tab_at(context, service.url)


def test_its_own_tests_pass(built, service):
    files = sorted(str(file) for file in (built / ".tests" / "tests").glob("*.test.js"))
    assert files
    done = run(["node", "--test", *files], built, TEST_SECONDS, RAG_TEST_URL=service.url, RAG_TEST_KEY=KEY)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_lock_file_names_no_registry_and_it_needs_no_package_when_it_runs():
    packages = json.loads((CLIENT / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in packages.items() if name)
    package = json.loads((CLIENT / "package.json").read_text())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & set(package)


def test_a_page_stores_and_finds_and_streams_and_one_of_a_strange_origin_learns_nothing(tab, application):
    tab.page.goto(f"http://127.0.0.1:{application}/")
    told = tab.page.evaluate(STORED_AND_FOUND, [tab.url, KEY])
    assert told == {
        "created": 1200,
        "found": ["d0", [0, 1]],
        "exported": 1200,
        "missing": ["collection_not_found", 404],
    }
    tab.page.goto(f"http://localhost:{application}/")
    assert tab.page.evaluate(REFUSED, [tab.url, KEY]) == "network_failure"
