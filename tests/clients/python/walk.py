"""Call every method of the Python client, sync or async, against a service."""

import asyncio
import inspect
import time
import uuid

import numpy as np
import pytest
from rag_wrapper_client import ConflictError, GoneError, InvalidRequestError, NotFoundError

from tests.support.live import PATIENCE_SECONDS

ROUTES_WITHOUT_METHOD = (
    ("GET", "/docs"),
    ("GET", "/docs/assets/swagger-ui.css"),
    ("GET", "/docs/guide"),
    ("GET", "/docs/guide/"),
    ("GET", "/docs/guide/index.html"),
)
"""Pages for people, reached by `request`."""
POLL_SECONDS = 0.05
VARIABLE = "WALK_API_KEY"
"""The name of a variable that the service has."""


async def told(value):
    return await value if inspect.isawaitable(value) else value


async def all_of(items):
    return [item async for item in items] if hasattr(items, "__aiter__") else list(items)


class Walk:
    """Calls the methods of a client one after the other. Each step checks what a user would look at."""

    def __init__(self, client):
        self.client = client
        self.name = f"walk-{uuid.uuid4().hex[:12]}"

    async def everything(self):
        await self.collections()
        await self.documents()
        await self.finding()
        await self.streams()
        await self.rag()
        await self.chats()
        await self.files()
        await self.tools()
        await self.quality()
        await self.connections()
        await self.keys()
        await self.service()
        await self.the_end()

    async def ask(self, method, *args, **kwargs):
        return await told(getattr(self.client, method)(*args, **kwargs))

    async def collections(self):
        made = await self.ask("create_collection", self.name, metadata={"language": "en"})
        assert (made["status"], made["metric"]) == ("created", "cosine")
        assert (await self.ask("replace_metadata", self.name, {"a": 1}))["metadata"] == {"a": 1}
        assert (await self.ask("merge_metadata", self.name, {"a": None, "b": 2}))["metadata"] == {"b": 2}
        found = await all_of(self.client.collections(prefix=self.name, with_index=True, page_size=1))
        assert [each["name"] for each in found] == [self.name]
        assert "index" in found[0]
        assert (await self.ask("create_collection", self.name, get_or_create=True))["status"] == "exists"
        assert (await self.ask("collection", self.name))["count"] == 0
        assert (await self.ask("index", self.name))["state"] in ("ready", "pending")
        assert (await self.ask("check_index", self.name))["collection"] == self.name
        assert (await self.ask("rebuild_index", self.name, records="full"))["records"] == "full"
        assert (await self.ask("reembed", self.name, connection="default"))["collection"] == self.name
        # What comes after depends on the model that the collection has by then.
        done = await self.reembedded()
        assert (done["model"], done["from_model"]) == ("stub", None)
        assert (await self.ask("drop_vectors", self.name))["collection"] == self.name
        with pytest.raises(NotFoundError):
            await self.ask("switch_back", self.name)

    async def reembedded(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (state := await self.ask("reembedding", self.name))["status"] != "complete":
            assert time.monotonic() < deadline, state
            await asyncio.sleep(POLL_SECONDS)
        return state

    async def documents(self):
        documents = [
            {"id": f"d{n}", "text": f"Text {n}", "metadata": {"n": n, "part": n // 2}, "embedding": [1.0, n, 0.5]}
            for n in range(4)
        ]
        added = await self.ask("add_documents", self.name, documents)
        assert (added["created"], added["ids"]) == (4, ["d0", "d1", "d2", "d3"])
        again = await self.ask("add_documents", self.name, documents[:1], replace_where={"n": 3})
        assert (again["unchanged"], again["deleted"]) == (1, 1)
        ordered = await all_of(self.client.documents(self.name, {"n": {"$gte": 1}}, order_by=["-n"], page_size=1))
        assert [each["id"] for each in ordered] == ["d2", "d1"]
        page = await self.ask("document_page", self.name, {"n": 1}, limit=5, include=["embedding"])
        assert page["documents"][0]["embedding"] == [1.0, 1.0, 0.5]
        by_id = await self.ask("documents_by_id", self.name, ["d2", "gone", "d0"])
        assert [each["id"] for each in by_id] == ["d2", "d0"]
        change = {"metadata": {"n": None}, "embedding": np.array([1, 0, 0]), "embedding_model": "stub"}
        changed = await self.ask("change_document", self.name, "d1", **change)
        assert changed["metadata"] == {"part": 0}
        assert (await self.ask("document", self.name, "d1"))["text"] == "Text 1"
        assert (await self.ask("count_documents", self.name, {"part": 0}))["count"] == 2
        assert (await self.ask("metadata_values", self.name, "part"))["values"] == ["0", "1"]
        assert (await self.ask("facets", self.name, ["part"]))["facets"]["part"]["distinct"] == 2
        assert (await self.ask("projection", self.name, field="part"))["total"] == 3
        one = {"text": "One", "embedding": [0.0, 0.0, 1.0], "uri": "a:b"}
        assert (await self.ask("put_document", self.name, "one", one))["status"] == "created"
        await self.refuses_another_model()
        assert (await self.ask("change_documents", self.name, {"seen": True}, ids=["one"]))["updated"] == 1
        assert (await self.ask("document", self.name, "one"))["uri"] == "a:b"
        assert (await self.ask("delete_document", self.name, "one"))["count"] == 1

    async def refuses_another_model(self):
        await self.ask("merge_metadata", self.name, {"embedding_model": "newer"})
        older = {"embedding_model": "older"}
        document = {"id": "one", "text": "One", "embedding": [0.0, 0.0, 1.0]}
        for method, *given in (
            ("add_documents", [document]),
            ("stream_documents", [document]),
            ("import_documents", [document]),
            ("put_document", "one", document),
        ):
            with pytest.raises(ConflictError, match="was embedded with 'newer', not with 'older'"):
                await self.ask(method, self.name, *given, **older)
        with pytest.raises(ConflictError, match="was embedded with 'newer', not with 'older'"):
            await self.ask("change_document", self.name, "one", text="New", **older)
        await self.ask("merge_metadata", self.name, {"embedding_model": None})

    async def finding(self):
        nearest = await self.ask("query", self.name, np.array([1.0, 2.0, 0.5]), top_k=1, gather={"by": "part"})
        assert nearest["results"][0]["id"] == "d2"
        assert nearest["groups"][0]["key"] == 1
        asked = [{"ids": ["d2"], "top_k": 1}, {"query_embedding": np.array([1.0, 0, 0.5]), "top_k": 1}]
        (near, also) = await self.ask("query_many", self.name, asked)
        assert (near["results"][0]["id"], also["results"][0]["id"]) == ("d0", "d0")
        assert (await self.ask("query", self.name, ids=["d2"], top_k=5))["results"][0]["id"] != "d2"
        assert (await self.ask("probe_query"))["status"] == "ready"
        body = {"collection": self.name, "query_embedding": [1.0, 2.0, 0.5]}
        assert (await self.ask("request", "POST", "/query", json=body)).status == 200
        words = await self.ask("text_search", self.name, "text 2", top_k=1)
        assert words["results"][0]["id"] == "d2"
        grouped = await self.ask("gather", self.name, by="part", ids=["d0"], order_by="n", text=True)
        assert grouped["groups"][0]["total"] == 2

    async def streams(self):
        exported = await all_of(self.client.export_documents(self.name))
        assert [each["id"] for each in exported] == ["d0", "d1", "d2"]
        assert exported[2]["embedding"].dtype == np.float32
        *changes, place = await all_of(self.client.changes(self.name, include=["embedding"]))
        assert {each["id"] for each in changes} == {"d0", "d1", "d2"}
        assert np.array_equal(changes[0]["embedding"], exported[int(changes[0]["id"][1])]["embedding"])
        assert not place["more"]
        assert await all_of(self.client.changes(self.name, place, limit=1)) == [place]
        with pytest.raises(GoneError):
            await all_of(self.client.changes(self.name, {**place, "history": "another"}))
        copy = f"{self.name}-copy"
        await self.ask("create_collection", copy)
        assert (await self.ask("import_documents", copy, exported, count=3))["created"] == 3
        streamed = await self.ask("stream_documents", copy, [*exported, {"id": "bad", "text": "no embedding"}])
        assert (streamed["unchanged"], streamed["errors_total"]) == (3, 1)
        assert (await self.ask("delete_documents", copy, ids=["d0"]))["count"] == 1
        gone = {"gone": {"$exists": False}}
        assert (await self.ask("delete_documents", copy, where=gone, all_matching=True))["count"] == 2
        assert (await self.ask("empty_collection", copy))["count_deleted"] == 0
        other, alias = f"{self.name}-other", f"{self.name}-alias"
        assert (await self.ask("rename_collection", copy, f"{copy}2"))["previous_name"] == copy
        assert (await self.ask("copy_collection", self.name, other))["count"] == 3
        assert (await self.ask("set_alias", alias, other))["status"] == "created"
        assert (await self.ask("alias", alias))["collection"] == other
        assert [each["alias"] for each in (await self.ask("aliases", collection=other))["aliases"]] == [alias]
        assert "default_tenant" in [each["tenant"] for each in (await self.ask("databases"))["databases"]]
        assert (await self.ask("delete_alias", alias))["status"] == "deleted"
        for name in (f"{copy}2", other):
            await self.ask("delete_collection", name)

    async def rag(self):
        text = "# Backups\n\nBackups are kept for thirty days."
        made = await self.ask("ingest", source=self.name, path="b.md", title="Backups", text=text, tags=["ops"])
        assert made["status"] == "created"
        listed = await all_of(self.client.ingested_documents(source=self.name))
        assert [each["documentId"] for each in listed] == [made["documentId"]]
        assert (await self.ask("rag_search", "backups kept", filters={"source": self.name}))["resultCount"] == 1
        assert (await self.ask("rag_metrics"))["documents"] >= 1
        rule = {"filename": "r.md", "content": text, "metadata": {"source": self.name, "doc_type": "no"}}
        batch = await self.ask("ingest_batch", [rule], collection=f"{self.name}-rules")
        assert batch["documents_failed"] == 1
        assert (await self.ask("retrieve", "backups", "rules", min_relevance=0))["context_id"]
        found = await self.ask("search", "backups kept", collections="rag-*", min_relevance=0, explain=True)
        # Among what earlier walks have left; the vectors of a stub say nothing of which is nearer.
        assert any(each["content"].endswith("thirty days.") for each in found["results"])
        ordered = await self.ask("rerank", "a", [{"id": "1", "text": "b"}, {"id": "2", "text": "a"}])
        assert len(ordered["reranked"]) == 2
        collected = await self.ask("collect", "backups?", [{"service": "local", "name": "rag-documents"}])
        assert collected["result"] in ("match", "partial", "none")
        assert (await self.ask("delete_ingested_document", made["documentId"]))["chunkCount"] == 1

    async def chats(self):
        said = await self.ask("chat", "Hello?", conversation_id=self.name, system="Be brief.")
        assert said["data"]["message"] == "So it is."
        events = await all_of(self.client.stream_chat("And now?", conversation_id=self.name))
        assert "".join(each.get("delta", "") for each in events) == "So it is."
        assert events[-1]["done"]
        assert len((await self.ask("conversation", self.name))["messages"]) == 4
        assert (await self.ask("delete_conversation", self.name))["status"] == "deleted"

    async def files(self):
        name = f"{self.name}.md"
        sent = await self.ask("upload", [(name, b"# Title\n\nWords of a file.\n"), (f"{name}.exe", b"x")])
        assert [each["status"] for each in sent["files"]] == ["queued", "refused"]
        job = await self.ask("wait_for_job", sent["job"]["id"])
        assert job["status"] == "done"
        assert (await self.ask("job", job["id"]))["files"] == job["files"]
        assert job["id"] in [each["id"] for each in await all_of(self.client.jobs(status="done"))]
        assert (await self.ask("cancel_job", job["id"]))["status"] == "done"
        assert (await self.ask("compare_files", {name: "0" * 64}))["changed"] == [name]
        (found,) = await all_of(self.client.stored_documents(source=name))
        assert (await self.ask("stored_document", found["id"]))["chunks"] == 1
        assert (await self.ask("stored_document_with_chunks", found["id"]))["chunks"][0]["chunk_index"] == 0
        assert b"".join(await all_of(self.client.original(found["id"]))) == b"# Title\n\nWords of a file.\n"
        assert (await self.ask("delete_stored_document", found["id"]))["status"] == "deleted"
        report = {"instance": "1", "state": "watching", "collection": "rag-documents"}
        assert (await self.ask("report_watcher", self.name, report))["state"] == "watching"
        assert (await self.ask("watcher", self.name))["name"] == self.name
        assert self.name in [each["name"] for each in (await self.ask("watchers"))["watchers"]]
        await self.ask("report_watcher", self.name, report | {"state": "stopped"})
        assert (await self.ask("forget_watcher", self.name))["status"] == "deleted"

    async def tools(self):
        assert len((await self.ask("tools"))["tools"]) == 4
        indexed = await self.ask("context_index", f"Words of {self.name}.", contentType="documentation", source="walk")
        assert indexed["chunksIndexed"] == 1
        assert (await self.ask("context_search", self.name, limit=1))["results"]
        assert (await self.ask("context_health"))["storage"]["healthy"]
        assert (await self.ask("context_stats", "1h"))["totalQueries"] >= 1
        assert (await self.ask("call_tool", "rag_context_stats", {"timeRange": "7d"}))["timeRange"] == "7d"
        answer = await self.ask("mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert await self.ask("mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}) is None

    async def quality(self):
        text = "# Q\n\nRestores are rehearsed in spring."
        made = await self.ask("ingest", source=self.name, path="q.md", title="Q", text=text)
        found = await self.ask("search", "restores rehearsed", collections="rag-documents", min_relevance=0)
        hit = next(each for each in found["results"] if each["doc_id"] == made["documentId"])
        question = f"When, {self.name}?"
        judged = await self.ask("judge", question, collection="rag-documents", document_id=hit["doc_id"], grade=1)
        assert [each["id"] for each in await all_of(self.client.judgements(question=question))] == [judged["id"]]
        assert (await self.ask("query_set", "rag-documents"))[:2] == b"PK"
        bench = await self.ask("start_bench", "rag-documents")
        assert (await self.ask("bench", bench["id"]))["collection"] == "rag-documents"
        assert bench["id"] in [each["id"] for each in (await self.ask("benches"))["benches"]]
        await self.ask("end_bench", bench["id"])
        assert (await self.ask("forget_judgement", judged["id"]))["status"] == "deleted"

    async def connections(self):
        config = {"url": self.client.url}
        offered = {"type": "rag", "provider": "chromadb-wrapper", "config": config}
        assert (await self.ask("validate_connection", **offered))["valid"]
        assert (await self.ask("test_connection", **offered))["success"]
        for kind, provider in (("embedding", "openai"), ("llm", "openai"), ("rerank", "cohere")):
            tested = await self.ask("test_connection", type=kind, provider=provider, config={"url": "no"})
            assert not tested["success"]
        body = {"type": "rag", "provider": "chromadb-wrapper", "config": config}
        assert (await self.ask("request", "POST", "/api/connections/test", json=body)).status == 200
        stages = await all_of(self.client.stream_connection_test(**offered))
        assert stages[0]["stage"]["name"] == "config"
        assert stages[-1]["success"]
        for kind in ("embedding", "llm"):
            with pytest.raises(InvalidRequestError):
                await self.ask("discover_models", type=kind, provider="openai", config={"url": "no"})
        assert (await self.ask("create_connection", self.name, **offered))["origin"] == "stored"
        assert (await self.ask("change_connection", self.name, config, display_name="Walk"))["display_name"] == "Walk"
        assert (await self.ask("connection", self.name))["config"]["url"] == self.client.url
        assert self.name in [each["id"] for each in await all_of(self.client.connections())]
        assert (await self.ask("connection_health", self.name))["status"] == "healthy"
        health = await all_of(self.client.health_of_connections(page_size=2))
        assert self.name in [each["id"] for each in health]
        behind = await self.ask("collections_of_connection", self.name)
        assert self.name in [each["name"] for each in behind["collections"]]
        assert (await self.ask("delete_connection", self.name))["status"] == "deleted"
        assert (await self.ask("providers"))["rag"]
        assert (await self.ask("provider", "openai", type="llm"))["type"] == "llm"
        assert (await self.ask("connection_schema", "openai", type="llm"))["fields"]
        assert VARIABLE in [each["name"] for each in (await self.ask("env_vars"))["variables"]]
        assert not (await self.ask("validate_env_vars", names=["NO_SUCH_VARIABLE"]))["valid"]
        assert (await self.ask("suggest_env_vars", provider="openai", field="api_key"))["field"] == "api_key"

    async def keys(self):
        assert (await self.ask("me"))["kind"] == "open"
        made = await self.ask("create_key", self.name, ["read"], limits={"concurrent": 2})
        assert made["id"] in [each["id"] for each in (await self.ask("keys"))["keys"]]
        assert (await self.ask("change_key", made["id"], {"limits": {"concurrent": None}}))["limits"] == {}
        successor = await self.ask("rotate_key", made["id"], grace_seconds=0)
        assert (await self.ask("key", successor["id"]))["name"] == self.name
        assert (await self.ask("revoke_key", successor["id"]))["status"] == "revoked"

    async def service(self):
        assert (await self.ask("about"))["service"] == "rag-wrapper"
        assert (await self.ask("health"))["status"] in ("healthy", "degraded")
        assert (await self.ask("ready"))["status"] == "ready"
        assert (await self.ask("live"))["status"] == "alive"
        assert "rag_requests_total" in await self.ask("metrics")
        assert len((await self.ask("recent_requests"))["minutes"]) > 0
        assert (await self.ask("description"))["openapi"].startswith("3.1")
        assert any(each["name"] == "RAG_KEEP_ORIGINALS" for each in (await self.ask("settings"))["settings"])
        assert (await self.ask("audit_entries", collection=self.name, limit=5))["entries"]
        for of_mcp in (False, True):
            with pytest.raises(NotFoundError):
                await self.ask("protected_resource", of_mcp=of_mcp)
        begun = await self.ask("begin_backup")
        done = await self.ask("wait_for_backup", begun["id"])
        assert done["state"] == "done"
        assert (await self.ask("backup", begun["id"]))["verified"]
        assert begun["id"] in [each["id"] for each in (await self.ask("backups"))["backups"]]
        assert sum(map(len, await all_of(self.client.backup_content(begun["id"])))) == done["bytes"]
        assert (await self.ask("delete_backup", begun["id"]))["status"] == "deleted"
        for method, path in ROUTES_WITHOUT_METHOD:
            try:
                await self.ask("request", method, path)
            except NotFoundError as error:
                assert error.code == "guide_not_built"

    async def the_end(self):
        erased = await self.ask("erase", collection=self.name, document="d2")
        assert erased["receipt"]["documents"] == 1
        assert (await self.ask("delete_collection", self.name))["status"] == "deleted"
