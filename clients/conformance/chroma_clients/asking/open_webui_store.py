"""What Open WebUI asks of Chroma, by its own class, taken out of its wheel as it is.

Of Open WebUI itself there are only stand-ins for what the class imports: its settings, made from the variables that Open
WebUI documents, and a function that cleans text.
"""

from __future__ import annotations

import os
import sys
import types

import chromadb
from steps import HOST, KEY, PORT, refused, step

os.environ |= {"CHROMA_HTTP_HOST": HOST, "CHROMA_HTTP_PORT": str(PORT)}
os.environ["CHROMA_HTTP_HEADERS"] = f"Authorization=Bearer {KEY}"


def stand_in(name, **has):
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__.update(has)


stand_in(
    "open_webui.config",
    CHROMA_DATA_PATH="",
    CHROMA_TENANT=chromadb.DEFAULT_TENANT,
    CHROMA_DATABASE=chromadb.DEFAULT_DATABASE,
    CHROMA_HTTP_HOST=os.environ["CHROMA_HTTP_HOST"],
    CHROMA_HTTP_PORT=int(os.environ["CHROMA_HTTP_PORT"]),
    CHROMA_CLIENT_AUTH_PROVIDER=os.environ.get("CHROMA_CLIENT_AUTH_PROVIDER", ""),
    CHROMA_CLIENT_AUTH_CREDENTIALS=os.environ.get("CHROMA_CLIENT_AUTH_CREDENTIALS", ""),
    CHROMA_HTTP_HEADERS=dict(pair.split("=") for pair in os.environ["CHROMA_HTTP_HEADERS"].split(",")),
    CHROMA_HTTP_SSL=False,
)
stand_in("open_webui.env", USE_SLIM=False, RAG_METADATA_MAX_VALUE_CHARS=None)
stand_in("open_webui.utils.misc", sanitize_text_for_db=lambda text: text)

from open_webui.retrieval.vector.dbs.chroma import ChromaClient  # noqa: E402

client = ChromaClient()
FILE = "file-5c0e"
items = [
    {
        "id": "a",
        "text": "the fox",
        "vector": [1, 0.5],
        "metadata": {"file_id": "1", "name": "fox", "pages": [1], "no": None},
    },
    {"id": "b", "text": "the dog", "vector": [0.5, 1], "metadata": {"file_id": "2", "hash": "h", "more": {"x": 1}}},
]
many = [{"id": f"m{n}", "text": f"text {n}", "vector": [n, 1.0], "metadata": {"n": n}} for n in range(12_000)]


def told(result):
    return result and result.model_dump()


step("a collection that is not there", lambda: client.has_collection(FILE))
step("searched", lambda: told(client.search(FILE, [[1, 0]])))
step("emptied", lambda: client.delete(FILE, ids=["a"]))
step("insert", lambda: client.insert(FILE, items))
step("it is there", lambda: client.has_collection(FILE))
step("search", lambda: told(client.search(FILE, [[1, 0]], limit=5)))
step("search with a filter", lambda: told(client.search(FILE, [[1, 0]], filter={"file_id": "2"}, limit=5)))
step("query", lambda: told(client.query(FILE, {"file_id": "1"})))
step("query with a limit", lambda: told(client.query(FILE, {"file_id": {"$in": ["1", "2"]}}, limit=1)))
step("get", lambda: told(client.get(FILE)))
step("upsert", lambda: client.upsert(FILE, [{**items[0], "text": "the wolf", "metadata": {"file_id": "3"}}]))
step("get what was upserted", lambda: told(client.get(FILE)))
refused("another dimension", lambda: client.insert(FILE, [{**items[0], "id": "c", "vector": [1, 2, 3]}]))
step("delete ids", lambda: client.delete(FILE, ids=["a"]))
step("delete by filter", lambda: client.delete(FILE, filter={"hash": "h"}))
step("get nothing", lambda: told(client.get(FILE)))
step("insert many", lambda: client.insert("knowledge", many))
step(
    "get many",
    lambda: [(len(each[0]), sorted(map(str, each[0]))[:3]) for each in told(client.get("knowledge")).values()],
)
step("delete a collection", lambda: client.delete_collection(FILE))
refused("delete it again", lambda: client.delete_collection(FILE))
refused("reset", client.reset)
