"""Each operation of openapi.yaml is called by the Python client, sync and async, and answers as described."""

import asyncio

import pytest
from rag_wrapper_client import AsyncClient, Client
from rag_wrapper_client.operations import _Method

from tests.clients.python.walk import Walk
from tests.support.contract import OTHER_PROTOCOLS, Contract
from tests.support.live import live_service
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


def test_the_sync_client_calls_every_operation(service, recording):
    with Client(service.url, session=recording) as client:
        asyncio.run(Walk(client).everything())
    assert described() - recording.operations == set()


def test_the_async_client_calls_every_operation(service, recording):
    async def walked():
        async with AsyncClient(service.url, session=recording) as client:
            await Walk(client).everything()

    asyncio.run(walked())
    assert described() - recording.operations == set()


def test_both_clients_have_every_method():
    names = {name for kind in Client.__mro__ for name, each in vars(kind).items() if isinstance(each, _Method)}
    assert len(names) > 100
    assert all(isinstance(getattr(AsyncClient, name), _Method) for name in names)
