"""A service with the contract's first version: the routes, bodies and errors of *storage* and Chroma's filters, and
nothing added since."""

import json
import re
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from providers.contract_tests.model import ModelDocument
from tests.properties.writable_model import WritableModel

CHROMA = {"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$contains", "$not_contains"}
MAX_PAGE = 1000


class RefusedError(Exception):
    def __init__(self, status, sentence):
        super().__init__(sentence)
        self.status = status


class OldService:
    """An old service. `changes_documents` says whether it has a route that deletes documents. With `without_counts`,
    its collections are described by name and metadata only."""

    def __init__(self):
        self.collections = {}
        self.requests = []
        self.url = ""
        self.changes_documents = True
        self.not_found = 404, {}, {"error": "Not found"}

    def answer(self, method, target, headers, body):
        path, query = (
            unquote(urlsplit(target).path),
            {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()},
        )
        self.requests.append((method, path))
        try:
            return self._route(method, path, query, body)
        except RefusedError as error:
            return error.status, {}, {"error": str(error)}

    def _route(self, method, path, query, body):
        if path == "/health":
            return 200, {}, {"status": "healthy"}
        if (method, path) == ("POST", "/query"):
            return self._query(body)
        if (method, path) == ("GET", "/collections"):
            return 200, {}, {"collections": [self._told(name) for name in self.collections]}
        if (method, path) == ("POST", "/collections"):
            if body["name"] in self.collections:
                raise RefusedError(400, f"Collection '{body['name']}' already exists")
            metadata = body.get("metadata") or {}
            self.collections[body["name"]] = WritableModel(metadata, metadata.get("hnsw:space", "l2"))
            return 201, {}, {"status": "created", "name": body["name"], "metadata": metadata}
        found = re.fullmatch(r"/collections/([^/]+)/?(.*)", path)
        if not found:
            return self.not_found
        name, part = found.groups()
        match method, part:
            case "GET", "":
                self._collection(name)
                return 200, {}, self._told(name)
            case "DELETE", "":
                self._collection(name)
                del self.collections[name]
                return 200, {}, {"status": "deleted", "name": name}
            case "GET", "documents":
                return self._page(name, query)
            case "POST", "documents":
                return self._add(name, body["documents"])
            case "DELETE", "documents" if self.changes_documents:
                gone = self._collection(name).remove(lambda document: document.id in body["ids"])
                return 200, {}, {"status": "deleted", "count": gone}
            case _, "documents":
                return 405, {}, {"error": "Method not allowed"}
        return self.not_found

    def _told(self, name):
        found = self.collections[name]
        return {"name": name, "count": len(found.documents), "metadata": found.metadata}

    def _collection(self, name):
        if name not in self.collections:
            raise RefusedError(404, f"Collection '{name}' not found")
        return self.collections[name]

    def _add(self, name, documents):
        collection = self._collection(name)
        for each in documents:
            embedding = _vector(each["embedding"])
            collection.put(ModelDocument(each["id"], each["text"], each["metadata"], embedding))
        return 201, {}, {"status": "added", "collection": name, "count": len(documents)}

    def _page(self, name, query):
        limit, offset = min(int(query.get("limit", 100)), MAX_PAGE), int(query.get("offset", 0))
        where = json.loads(query["where"]) if "where" in query else {}
        _check(where)
        found = self._collection(name).matching(where)
        page = [_told(each) for each in found[offset : offset + limit]]
        return 200, {}, {"documents": page, "count": len(page), "total": len(found)}

    def _query(self, body):
        collection, where = self._collection(body["collection"]), body.get("where") or {}
        _check(where)
        nearest = collection.nearest(_vector(body["query_embedding"]), body["top_k"], where)
        results = [{**_told(collection.by_id(each)), "distance": distance} for each, distance in nearest]
        return (
            200,
            {},
            {"results": results, "collection": body["collection"], "collection_metadata": collection.metadata},
        )


def _told(document):
    return {"id": document.id, "text": document.text, "metadata": document.metadata}


def _vector(numbers):
    if not isinstance(numbers, list):
        raise RefusedError(400, "embedding must be an array of numbers")
    return np.array(numbers, "f4")


def _check(where):
    """Refuse what Chroma refuses."""
    if not where:
        return
    if len(where) != 1:
        raise RefusedError(400, "Expected where to have exactly one operator")
    ((key, operand),) = where.items()
    if key in ("$and", "$or"):
        if len(operand) < 2:
            raise RefusedError(400, f"Expected {key} to have at least two")
        for part in operand:
            _check(part)
        return
    (operator,) = operand
    if operator not in CHROMA or operand[operator] == []:
        raise RefusedError(400, f"Expected where operator, got {operator}")
