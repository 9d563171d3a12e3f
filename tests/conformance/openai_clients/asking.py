"""What OpenAI's client for Python asks; it runs where that client is installed, and nothing of this project.

Each raw answer is validated strictly: no value may be of another type than the client's types say.
"""

from __future__ import annotations

import asyncio
import json
import os

import openai  # type: ignore[import-not-found]
from openai.types import (  # type: ignore[import-not-found]
    CreateEmbeddingResponse,
    Model,
    VectorStoreSearchResponse,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk  # type: ignore[import-not-found]

EMBEDDING = "all-MiniLM-L6-v2"
TEXTS = ["Backups are kept for thirty days.", "The coffee machine is cleaned every Friday."]
QUESTION = [{"role": "user", "content": "How long are backups kept?"}]
STORES = {"vector_store_ids": [os.environ["COLLECTION"]]}


def strictly(kind, raw):
    """Return a raw answer as one of this kind, whose every value has the very type that the client expects."""
    return kind.model_validate_json(raw.text if isinstance(raw.text, str) else raw.text(), strict=True)


def refused(kind, ask):
    """Return the error of this class with which a request is refused."""
    try:
        ask()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


def embeds(client):
    raw = strictly(
        CreateEmbeddingResponse,
        client.embeddings.with_raw_response.create(model=EMBEDDING, input=TEXTS, encoding_format="float"),
    )
    numbers = [each.embedding for each in raw.data]
    by_default = client.embeddings.create(model=EMBEDDING, input=TEXTS)
    assert [each.index for each in by_default.data] == [0, 1]
    for told, known in zip(by_default.data, numbers, strict=True):
        assert max(abs(a - b) for a, b in zip(told.embedding, known, strict=True)) < 1e-6
    assert by_default.usage.total_tokens > 0
    error = refused(openai.BadRequestError, lambda: client.embeddings.create(model=EMBEDDING, input=[[1, 2]]))
    assert "check_embedding_ctx_length" in str(error)


def lists_models(client):
    names = [each.id for each in client.models.list()]
    assert names == ["rag", "chatty", EMBEDDING], names
    for name in names:
        strictly(Model, client.models.with_raw_response.retrieve(name))
    assert refused(openai.NotFoundError, lambda: client.models.retrieve("gpt/x y")).code == "model_not_found"


def chats(client):
    raw = client.chat.completions.with_raw_response.create(model="rag", messages=QUESTION, extra_body=STORES)
    answer = strictly(ChatCompletion, raw)
    assert answer.choices[0].message.content == "So it is."
    assert answer.model_extra["rag"]["sources"][0]["title"] == "Backups"
    parts = list(client.chat.completions.create(model="rag", messages=QUESTION, extra_body=STORES, stream=True))
    for part in parts:
        ChatCompletionChunk.model_validate_json(part.model_dump_json(), strict=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == "So it is."
    assert parts[-1].choices[0].finish_reason == "stop"
    assert parts[-1].model_extra["rag"]["sources"]
    with client.chat.completions.stream(model="chatty", messages=QUESTION) as stream:
        assert stream.get_final_completion().choices[0].message.content == "So it is."


def searches(client):
    raw = client.vector_stores.with_raw_response.search(os.environ["COLLECTION"], query=QUESTION[0]["content"])
    for each in json.loads(raw.text)["data"]:
        VectorStoreSearchResponse.model_validate(each, strict=True)
    filters = {"type": "eq", "key": "title", "value": "Backups"}
    found = client.vector_stores.search(
        os.environ["COLLECTION"],
        query=[QUESTION[0]["content"], "How often?"],
        filters={"type": "and", "filters": [filters]},
        ranking_options={"score_threshold": 0.1, "ranker": "auto"},
    )
    assert [each.filename for each in found] == ["backups.md"]
    refused(openai.NotFoundError, lambda: client.vector_stores.search("vs_" + "0" * 32, query="x"))


def is_refused_as_by_openai(client):
    stranger = client.with_options(api_key="sk-nothing")
    assert refused(openai.AuthenticationError, stranger.models.list).code == "invalid_api_key"
    unknown = refused(openai.NotFoundError, lambda: client.responses.create(model="rag", input="x"))
    assert unknown.request_id
    assert unknown.code == "route_not_found"
    missing = {"vector_store_ids": ["vs_" + "0" * 32]}
    ask = client.chat.completions.create
    refused(openai.NotFoundError, lambda: ask(model="rag", messages=QUESTION, extra_body=missing))


async def asks_asynchronously():
    async with openai.AsyncOpenAI(max_retries=0) as client:
        assert [each.id async for each in client.models.list()]
        made = await client.embeddings.create(model=EMBEDDING, input=TEXTS[0])
        assert len(made.data[0].embedding) == 384
        stream = await client.chat.completions.create(model="chatty", messages=QUESTION, stream=True)
        assert "".join([part.choices[0].delta.content or "" async for part in stream]) == "So it is."


with openai.OpenAI(max_retries=0) as asking:
    for step in (embeds, lists_models, chats, searches, is_refused_as_by_openai):
        step(asking)
asyncio.run(asks_asynchronously())
