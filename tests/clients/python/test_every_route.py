"""Each operation of openapi.yaml is called by the Python client, sync and async, and answers as described."""

import asyncio

from rag_wrapper_client import AsyncClient, Client
from rag_wrapper_client.operations import _Method

from tests.clients.python.walk import Walk
from tests.support.contract import Contract

OTHER_PROTOCOLS = ("/api/v2/", "/v1/", "/dify/")
"""Those have clients of their own."""


def described():
    return {each for each in Contract.load().described() if not each[0].startswith(OTHER_PROTOCOLS)}


def test_the_sync_client_calls_every_operation(client, recording):
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
