"""A client of one database has the collections of that one, and nothing of the default one by mistake."""

import asyncio
import uuid

import pytest
import requests
from rag_wrapper_client import AsyncClient, Client, InvalidRequestError, NotFoundError


@pytest.fixture
def database(live):
    tenant = f"t{uuid.uuid4().hex[:10]}"
    for path, name in (("", tenant), (f"/{tenant}/databases", "main")):
        requests.post(f"{live.url}/api/v2/tenants{path}", json={"name": name}, timeout=30).raise_for_status()
    return f"{tenant}/main"


def test_collections_are_those_of_the_database(live, recording, client, database):
    name = f"docs-{uuid.uuid4().hex[:8]}"
    with Client(live.url, database=database, session=recording) as own:
        own.create_collection(name)
        own.stream_documents(name, [{"id": "a", "text": "red", "embedding": [1.0, 0.0]}])
        assert [each["name"] for each in own.collections()] == [name]
        assert own.query(name, [1.0, 0.0])["results"][0]["text"] == "red"
        assert [each["id"] for each in own.export_documents(name)] == ["a"]
    with pytest.raises(NotFoundError):
        client.collection(name)

    async def counted():
        async with AsyncClient(live.url, database=database, session=recording) as own:
            return (await own.count_documents(name))["count"]

    assert asyncio.run(counted()) == 1


def test_what_serves_the_default_database_alone_is_refused(live, recording, database):
    with Client(live.url, database=database, session=recording) as own:
        for ask in (lambda: own.search("words"), lambda: own.upload([("a.md", b"# A")])):
            with pytest.raises(InvalidRequestError, match="of the routes below /collections"):
                ask()
        assert own.me()["kind"] == "open"
