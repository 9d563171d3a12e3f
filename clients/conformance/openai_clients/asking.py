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
    FileDeleted,
    FileObject,
    Model,
    VectorStore,
    VectorStoreDeleted,
    VectorStoreSearchResponse,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk  # type: ignore[import-not-found]
from openai.types.vector_stores import (  # type: ignore[import-not-found]
    VectorStoreFile,
    VectorStoreFileBatch,
    VectorStoreFileDeleted,
)

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


def strictly_listed(kind, raw):
    """Return the elements of a raw page, each checked as `strictly` does."""
    page = json.loads(raw.text)
    assert page["object"] == "list"
    assert [page["first_id"], page["last_id"]] == [
        page["data"][place]["id"] if page["data"] else None for place in (0, -1)
    ]
    return [kind.model_validate(each, strict=True) for each in page["data"]]


def keeps_files(client):
    files, raw = client.files, client.files.with_raw_response
    content = ("backups.md", TEXTS[0].encode(), "text/markdown")
    expiring = {"anchor": "created_at", "seconds": 3600}
    made = strictly(FileObject, raw.create(file=content, purpose="assistants", expires_after=expiring))
    assert (made.filename, made.bytes, made.expires_at) == ("backups.md", len(TEXTS[0]), made.created_at + 3600)
    assert strictly(FileObject, raw.retrieve(made.id)) == made
    assert files.content(made.id).read() == TEXTS[0].encode()
    assert files.wait_for_processing(made.id).status == "processed"
    others = [files.create(file=TEXTS[1].encode(), purpose="user_data").id for _ in range(4)]
    assert strictly_listed(FileObject, raw.list(purpose="user_data", limit=2))
    assert [each.id for each in files.list(purpose="user_data", limit=2)] == others[::-1]
    assert [each.id for each in files.list(purpose="user_data", limit=3, order="asc")] == others
    for each in files.list(purpose="user_data", limit=2):
        assert strictly(FileDeleted, raw.delete(each.id)).deleted
    assert not list(files.list(purpose="user_data"))
    files.delete(made.id)
    assert refused(openai.NotFoundError, lambda: files.retrieve(made.id)).code == "kept_file_not_found"
    refused(openai.NotFoundError, lambda: files.content(made.id))
    refused(openai.BadRequestError, lambda: files.create(file=b"", purpose="assistants"))


def makes_stores(client):
    stores, raw = client.vector_stores, client.vector_stores.with_raw_response
    expiring = {"anchor": "last_active_at", "days": 7}
    made = strictly(
        VectorStore, raw.create(name="Händbuch, 2nd", description="x", metadata={"team": "ops"}, expires_after=expiring)
    )
    assert (made.name, made.metadata, made.status) == ("Händbuch, 2nd", {"team": "ops"}, "completed")
    assert made.expires_at == made.last_active_at + 7 * 86_400
    assert made.file_counts.total == made.usage_bytes == 0
    assert strictly(VectorStore, raw.retrieve(made.id)).id == made.id
    changed = strictly(VectorStore, raw.update(made.id, name="Other", metadata={"a": "b"}, expires_after=None))
    assert (changed.name, changed.metadata, changed.expires_after) == ("Other", {"a": "b"}, None)
    more = [stores.create(name="same name").id for _ in range(3)] + [stores.create().id]
    assert len(strictly_listed(VectorStore, raw.list(limit=2))) == 2
    listed = [each.id for each in stores.list(limit=2)]
    assert listed[:5] == [*more[::-1], made.id]
    assert os.environ["COLLECTION"] in [each.name for each in stores.list(order="asc", limit=1)]
    for each in stores.list(limit=2):
        if each.id in more:
            assert strictly(VectorStoreDeleted, raw.delete(each.id)).deleted
    assert next(iter(stores.list())).id == made.id
    stores.delete(made.id)
    for ask in (stores.retrieve, stores.delete, lambda store: stores.search(store, query="x")):
        assert refused(openai.NotFoundError, lambda ask=ask: ask(made.id)).code == "collection_not_found"
    refused(openai.BadRequestError, lambda: stores.create(metadata={"k": "v" * 513}))
    refused(openai.BadRequestError, lambda: stores.list(after="vs_nobody"))
    refused(openai.NotFoundError, lambda: stores.create(name="none", file_ids=["file-nobody"]))
    assert "none" not in [each.name for each in stores.list()]


def attaches_files(client):
    stores = client.vector_stores
    files, raw = stores.files, stores.files.with_raw_response
    store = stores.create(name="attached").id
    first = files.upload_and_poll(vector_store_id=store, file=("backups.md", TEXTS[0].encode()))
    assert (first.status, first.last_error) == ("completed", None)
    kept = client.files.create(file=("coffee.txt", TEXTS[1].encode()), purpose="assistants").id
    static = {"type": "static", "static": {"max_chunk_size_tokens": 200, "chunk_overlap_tokens": 50}}
    attributes = {"lang": "en", "floor": 2, "clean": True, "part": 0.5}
    pending = strictly(
        VectorStoreFile, raw.create(store, file_id=kept, attributes=attributes, chunking_strategy=static)
    )
    assert (pending.id, pending.vector_store_id) == (kept, store)
    done = files.poll(kept, vector_store_id=store)
    assert (done.status, done.attributes, done.chunking_strategy.static.max_chunk_size_tokens) == (
        "completed",
        attributes,
        200,
    )
    assert strictly(VectorStoreFile, raw.retrieve(kept, vector_store_id=store)).usage_bytes == len(TEXTS[1])
    assert [each.id for each in files.list(store, limit=1)] == [kept, first.id]
    assert [each.id for each in files.list(store, order="asc", limit=1)] == [first.id, kept]
    assert [each.id for each in strictly_listed(VectorStoreFile, raw.list(store, before=first.id))] == [kept]
    assert [each.text for each in files.content(kept, vector_store_id=store)] == [TEXTS[1]]
    found = stores.search(store, query="coffee", filters={"type": "gte", "key": "floor", "value": 2}).data
    assert [(each.file_id, each.filename, each.attributes) for each in found] == [(kept, "coffee.txt", attributes)]
    changed = strictly(VectorStoreFile, raw.update(kept, vector_store_id=store, attributes={"lang": "de"}))
    assert changed.attributes == {"lang": "de"}
    assert not stores.search(store, query="coffee", filters={"type": "eq", "key": "floor", "value": 2}).data
    unreadable = client.files.create(file=("program.exe", b"MZ"), purpose="assistants").id
    failed = files.create_and_poll(unreadable, vector_store_id=store)
    assert (failed.status, failed.last_error.code) == ("failed", "unsupported_file")
    assert [each.id for each in files.list(store, filter="failed")] == [unreadable]
    counts = strictly(VectorStore, stores.with_raw_response.retrieve(store)).file_counts
    assert (counts.completed, counts.failed, counts.in_progress, counts.total) == (2, 1, 0, 3)
    for each in files.list(store, limit=1):
        assert strictly(VectorStoreFileDeleted, raw.delete(each.id, vector_store_id=store)).deleted
    assert not list(files.list(store))
    assert client.files.retrieve(kept).id == kept
    refused(openai.NotFoundError, lambda: files.retrieve(kept, vector_store_id=store))
    refused(openai.NotFoundError, lambda: files.create(store, file_id="file-nobody"))
    again = files.create_and_poll(kept, vector_store_id=store)
    assert again.status == "completed"
    client.files.delete(kept)
    assert not list(files.list(store))
    [written] = files.list(os.environ["COLLECTION"])
    assert [each.text for each in files.content(written.id, vector_store_id=os.environ["COLLECTION"])]
    stores.delete(store)


def attaches_batches(client):
    stores = client.vector_stores
    batches, raw = stores.file_batches, stores.file_batches.with_raw_response
    kept = [client.files.create(file=(f"{name}.md", name.encode()), purpose="assistants").id for name in "abcde"]
    store = stores.create(name="batches", file_ids=kept[:1]).id
    strictly(VectorStoreFileBatch, raw.create(store, file_ids=kept[:2], attributes={"n": 1}))
    of_each = [{"file_id": each, "attributes": {"place": place}} for place, each in enumerate(kept)]
    made = strictly(VectorStoreFileBatch, raw.create(store, files=of_each))
    done = batches.poll(made.id, vector_store_id=store)
    assert (done.status, done.file_counts.completed, done.file_counts.total) == ("completed", 5, 5)
    assert strictly(VectorStoreFileBatch, raw.retrieve(made.id, vector_store_id=store)) == done
    strictly_listed(VectorStoreFile, raw.list_files(made.id, vector_store_id=store))
    listed = list(batches.list_files(made.id, vector_store_id=store, limit=2, order="asc"))
    assert [(each.id, each.attributes) for each in listed] == [
        (each["file_id"], each["attributes"]) for each in of_each
    ]
    ended = strictly(VectorStoreFileBatch, raw.cancel(made.id, vector_store_id=store))
    assert ended.status == "completed"
    sent = batches.upload_and_poll(store, files=[("f.md", b"f"), ("g.exe", b"g")])
    assert (sent.status, sent.file_counts.completed, sent.file_counts.failed) == ("completed", 1, 1)
    assert batches.create_and_poll(store, file_ids=kept).file_counts.completed == 5
    assert len(list(stores.files.list(store, limit=2, filter="completed"))) == 6
    refused(openai.NotFoundError, lambda: batches.retrieve("vsfb_nobody", vector_store_id=store))
    refused(openai.BadRequestError, lambda: batches.create(store))
    stores.delete(store)
    for each in client.files.list():
        client.files.delete(each.id)


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
        store = await client.vector_stores.create(name="async")
        file = await client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=("a.md", TEXTS[0].encode())
        )
        assert file.status == "completed"
        assert [each.id async for each in client.vector_stores.files.list(store.id)] == [file.id]
        await client.files.delete(file.id)
        await client.vector_stores.delete(store.id)
        stream = await client.chat.completions.create(model="chatty", messages=QUESTION, stream=True)
        assert "".join([part.choices[0].delta.content or "" async for part in stream]) == "So it is."


STEPS = (
    *(embeds, lists_models, chats, searches),
    *(keeps_files, makes_stores, attaches_files, attaches_batches, is_refused_as_by_openai),
)

with openai.OpenAI(max_retries=0) as asking:
    for step in STEPS:
        step(asking)
asyncio.run(asks_asynchronously())
