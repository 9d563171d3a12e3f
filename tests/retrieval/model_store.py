"""A storage provider in plain Python: what `retrieval` may expect of any of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.errors import CollectionNotFoundError, InvalidInputError


class ModelStore:
    """Collections of documents by id, as on the wire. `calls` names the writes it was asked for, in order."""

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
        self.collections.setdefault(name, {"name": name, "metadata": metadata, "dimension": None})
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


def matches(document: dict[str, Any], where: dict[str, Any] | None, ids: list[str] | None) -> bool:
    """Equality of several fields is the only filter the model knows."""
    fields = document["metadata"]
    return (ids is None or document["id"] in ids) and all(fields.get(k) == v for k, v in (where or {}).items())
