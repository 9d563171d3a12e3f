"""Each operation of openapi.yaml is called by the Python client, sync and async, and answers as described and typed;
the examples of its page run."""

import asyncio
import runpy
import subprocess
import sys

import pytest
from rag_wrapper_client import AsyncClient, Client

from clients.conformance.python_client.documented import program
from tests.clients.python.walk import VARIABLE, Walk
from tests.docs.examples import PROJECT
from tests.support.contract import OTHER_PROTOCOLS, Contract
from tests.support.live import PATIENCE_SECONDS, live_service
from tests.support.model_server import as_json


def described():
    """Return the operations but those of other protocols, which have clients of their own."""
    return {each for each in Contract.load().described() if not each[0].startswith(OTHER_PROTOCOLS)}


def reranked(body):
    count = len(body["documents"])
    return as_json({"results": [{"index": place, "relevance_score": 1 / (place + 1)} for place in range(count)]})


@pytest.fixture(scope="module")
def service(tmp_path_factory, models, processes):
    """A service that has all there is: models, kept originals, and a folder for backups."""
    folder = tmp_path_factory.mktemp("clients")
    models.routes["/rerank"] = reranked
    url = f"{models.url}/v1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "a-key-of-tests")
        with live_service(
            folder,
            access="open",
            embedding_provider="openai",
            embedding_url=url,
            embedding_model="stub",
            chat_provider="openai",
            chat_url=url,
            chat_model="chatty",
            rerank_provider="cohere",
            rerank_url=models.url,
            keep_originals="on",
            backup_dir=folder / "backups",
        ) as service:
            yield service


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_each_client_calls_every_operation(service, recording, kind):
    async def walked():
        if kind is Client:
            with Client(service.url, session=recording) as client:
                await Walk(client).everything()
        else:
            async with AsyncClient(service.url, session=recording) as client:
                await Walk(client).everything()

    asyncio.run(walked())
    assert described() - recording.operations == set()


def test_the_examples_of_the_page_run(service):
    wanted = program(PROJECT / "docs" / "integrations" / "python.md", service.url)
    assert wanted.count("assert") > 5
    command = [sys.executable, "-W", "error", "-c", wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr


def test_the_types_of_answers_are_made_from_the_description():
    written = runpy.run_path(str(PROJECT / "clients/python/wire_types.py"))["written"]()
    stale = [path.name for path, text in written.items() if not path.is_file() or path.read_text() != text]
    assert stale == [], "run: .venv/bin/python clients/python/wire_types.py"
    assert {path.name for path in next(iter(written)).parent.glob("*.py")} == {path.name for path in written}
