"""The routes of documents over HTTP, with the plain model of a store behind them."""

import json
import re
from base64 import b64decode
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from providers.contract_tests import model
from schemas.errors import CollectionNotFoundError, InvalidInputError, NotFoundError, RagError

PAGE = 3  # small, so that every test reads several pages


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
        found = [document for document in self.stored[name].values() if _matches(document, where, ids)]
        for field in reversed(order_by):
            key = field.removeprefix("-")
            found.sort(key=lambda document: document["metadata"][key], reverse=field.startswith("-"))
        for document in found:
            yield {key: value for key, value in document.items() if key != "embedding" or key in include}

    def add_documents(self, name, documents, *, replace_where=None):
        stored, counts = self.stored[name], {"created": 0, "updated": 0, "unchanged": 0}
        ids = {document["id"] for document in documents}
        for key in [key for key, found in stored.items() if replace_where and _matches(found, replace_where, None)]:
            if key not in ids:
                del stored[key]
        for document in documents:
            document = document | {"embedding": np.asarray(document["embedding"], np.float32).tolist()}
            before = stored.get(document["id"])
            counts["created" if before is None else "unchanged" if before == document else "updated"] += 1
            stored[document["id"]] = document
        return {"status": "added", "count": len(documents), "indexed": True, **counts}

    def delete_documents(self, name, *, ids=None, where=None):
        gone = [key for key, found in self.stored[name].items() if _matches(found, where, ids)]
        for key in gone:
            del self.stored[name][key]
        return len(gone)


class StubService:
    """Answers first from `answers`, each `(status, headers, body)` or None for a cut connection, then by the model."""

    def __init__(self) -> None:
        self.store = ModelStore()
        self.answers: list = []
        self.requests: list[dict] = []
        self.url = ""

    def answer(self, method, target, headers, body):
        path, query = unquote(urlsplit(target).path), parse_qs(urlsplit(target).query)
        self.requests.append(
            {"method": method, "path": path, "query": query, "headers": headers, "body": body, "target": target}
        )
        if self.answers:
            return self.answers.pop(0)
        try:
            return self._route(method, path, query, body)
        except RagError as error:
            status = 404 if isinstance(error, NotFoundError) else 400
            message = {"error": error.message, "message": error.message, "detail": error.message}
            return status, {}, message | {"code": error.code, "details": error.details}

    def _route(self, method, path, query, body):
        if path == "/health":
            return 200, {}, {"status": "healthy"}
        if (method, path) == ("POST", "/collections"):
            return 201, {}, self.store.ensure_collection(body["name"], body["metadata"])
        name, part = re.fullmatch(r"/collections/([^/]+)/?(.*)", path).groups()
        if (method, part) == ("GET", ""):
            return 200, {}, self.store.collection(name)
        if (method, part) == ("POST", "documents"):
            for document in body["documents"]:
                document["embedding"] = np.frombuffer(b64decode(document["embedding"]), "<f4")
            where = json.loads(query["replace_where"][0]) if "replace_where" in query else None
            return 201, {}, self.store.add_documents(name, body["documents"], replace_where=where)
        if (method, part) == ("DELETE", "documents"):
            return 200, {}, {"count": self.store.delete_documents(name, **body)}
        if (method, part) == ("POST", "documents/search"):
            selection = {"ids": body.get("ids"), "order_by": body["order_by"], "include": body["include"]}
            found = list(self.store.documents(name, body.get("where"), **selection))
            start = int(body.get("cursor", 0))
            page = found[start : start + min(PAGE, body["limit"])]
            more = start + len(page) < len(found)
            cursor = str(start + len(page)) if more else None
            revision = {"revision": self.store.collection(name)["revision"]}
            return (
                200,
                {},
                {"documents": page, "count": len(page), "total": len(found), "next_cursor": cursor, **revision},
            )
        raise InvalidInputError(f"the stub does not know {method} {path}")


def _matches(document: dict[str, Any], where: dict[str, Any] | None, ids: list[str] | None) -> bool:
    return (ids is None or document["id"] in ids) and model.matches(where or {}, document["metadata"])
