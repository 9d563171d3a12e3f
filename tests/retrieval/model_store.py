"""A storage provider in plain Python: what `retrieval` may expect of any provider."""

from typing import Any

import numpy as np
import orjson

from providers.base import RagProvider, SupportsDynamicCollections, SupportsEmbeddings, SupportsMetadataFiltering
from providers.contract_tests import model
from schemas.connections import CollectionInfo
from schemas.errors import CollectionNotFoundError, InvalidInputError
from schemas.records import Document, Page
from schemas.where import EVERYTHING, to_json


class ModelStore:
    """Collections of documents by id, as on the wire; `calls` names the writes in order."""

    def __init__(self) -> None:
        self.collections: dict[str, dict[str, Any]] = {}
        self.stored: dict[str, dict[str, dict[str, Any]]] = {}
        self.calls: list[str] = []

    def collection(self, name):
        if name not in self.collections:
            raise CollectionNotFoundError(name)
        return self.collections[name] | {"count": len(self.stored[name])}

    def ensure_collection(self, name, metadata):
        self.calls.append("ensure_collection")
        self.stored.setdefault(name, {})
        self.collections.setdefault(name, {"name": name, "metadata": metadata, "dimension": None, "revision": 1})
        return self.collection(name)

    def documents(self, name, where=None, *, ids=None, order_by=(), include=()):
        self.collection(name)
        found = [document for document in self.stored[name].values() if matches(document, where, ids)]
        for field in reversed(order_by):
            key = field.removeprefix("-")
            found.sort(key=lambda document: document["metadata"][key], reverse=field.startswith("-"))
        for document in found:
            yield {key: value for key, value in document.items() if key != "embedding" or key in include}

    def add_documents(self, name, documents, *, replace_where=None):
        self.calls.append("add_documents")
        collection = self.collections[name]
        dimension = collection["dimension"]
        for index, document in enumerate(documents):
            dimension = dimension or len(document["embedding"])
            if len(document["embedding"]) != dimension:
                raise InvalidInputError(f"documents[{index}] has another dimension than {dimension}", index=index)
        collection["dimension"] = dimension
        stored, counts = self.stored[name], {"created": 0, "updated": 0, "unchanged": 0}
        ids = {document["id"] for document in documents}
        for key in [key for key, found in stored.items() if replace_where and matches(found, replace_where, None)]:
            if key not in ids:
                del stored[key]
        for document in documents:
            document = document | {"embedding": np.asarray(document["embedding"], np.float32).tolist()}
            before = stored.get(document["id"])
            counts["created" if before is None else "unchanged" if before == document else "updated"] += 1
            stored[document["id"]] = document
        return {"status": "added", "count": len(documents), "indexed": True, **counts}

    def delete_documents(self, name, *, ids=None, where=None):
        self.calls.append("delete_documents")
        gone = [key for key, found in self.stored[name].items() if matches(found, where, ids)]
        for key in gone:
            del self.stored[name][key]
        return len(gone)


class ModelProvider(RagProvider, SupportsMetadataFiltering, SupportsEmbeddings, SupportsDynamicCollections):
    """A `ModelStore` behind the contract of providers."""

    id = "model"
    display_name = "Model"

    def __init__(self, store: ModelStore | None = None) -> None:
        super().__init__({})
        self.store = store or ModelStore()

    @classmethod
    def connection_schema(cls):
        return {"type": "object"}

    def check(self):
        return {}

    def collections(self):
        return [self.collection(name) for name in sorted(self.store.collections)]

    def collection(self, name):
        found = self.store.collection(name)
        return CollectionInfo(name, found["count"], found["metadata"], "cosine", found["dimension"])

    def create_collection(self, name, metadata, *, metric="cosine"):
        self.store.ensure_collection(name, metadata)
        return self.collection(name)

    def delete_collection(self, name):
        del self.store.collections[name], self.store.stored[name]

    def documents(self, collection, where=EVERYTHING, *, limit=100, cursor=None, with_embeddings=False):
        found = list(self.store.documents(collection, to_json(where), include=["embedding"] if with_embeddings else ()))
        start = int(cursor or 0)
        end = start + min(limit, 3)  # small, so that every test reads several pages
        return Page(
            [document_of(each) for each in found[start:end]], len(found), str(end) if end < len(found) else None, 0
        )

    def documents_by_id(self, collection, ids, *, with_embeddings=False):
        found = self.store.documents(collection, ids=list(ids), include=["embedding"] if with_embeddings else ())
        return [document_of(each) for each in found]

    def add_documents(self, collection, batch, *, replace_where=None):
        rows = zip(batch.ids, batch.texts, batch.metadatas, batch.embeddings, strict=True)
        documents = [dict(zip(("id", "text", "metadata", "embedding"), row, strict=True)) for row in rows]
        replaced = None if replace_where is None else to_json(replace_where)
        return self.store.add_documents(collection, documents, replace_where=replaced)["indexed"]

    def delete_documents(self, collection, *, ids=None, where=None):
        self.store.delete_documents(collection, ids=ids, where=None if where is None else to_json(where))


def document_of(stored):
    embedding = stored.get("embedding")
    vector = None if embedding is None else np.asarray(embedding, np.float32)
    return Document(stored["id"], stored["text"], orjson.dumps(stored["metadata"]).decode(), 0, vector)


def matches(document: dict[str, Any], where: dict[str, Any] | None, ids: list[str] | None) -> bool:
    return (ids is None or document["id"] in ids) and model.matches(where or {}, document["metadata"])
