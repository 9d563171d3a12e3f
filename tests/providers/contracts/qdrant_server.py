"""Serve the routes of a Qdrant server that the provider uses, with Qdrant's own embedded form behind them."""

import json
import re
import threading
from urllib.parse import unquote, urlsplit

from qdrant_client import QdrantClient, models
from qdrant_client.http.models import (
    CountRequest,
    CreateCollection,
    DenseVectorNameConfig,
    FilterSelector,
    PointStruct,
    QueryRequest,
    ScrollRequest,
)

KEY = "the-key"


class QdrantServer:
    """A server that requires `KEY`. It first sends `answers`, each `(status, headers, body)`."""

    def __init__(self):
        self.client = QdrantClient(":memory:")
        self.answers = []
        self.requests = []
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, method, target, headers, body):
        path = unquote(urlsplit(target).path)
        with self._lock:
            self.requests.append((method, path))
            if self.answers:
                return self.answers.pop(0)
            if headers.get("api-key") != KEY:
                return 401, {}, b"Must provide an API key or an Authorization bearer token"
            try:
                found = self._route(method, path, body)
            except LookupError as error:
                return 404, {}, {"status": {"error": f"Not found: {error}"}, "time": 0.0}
            except ValueError as error:
                return 400, {}, {"status": {"error": str(error)}, "time": 0.0}
        if path == "/":
            return 200, {}, json.loads(found.model_dump_json())
        return 200, {}, {"result": _json(found), "status": "ok", "time": 0.0}

    def _route(self, method, path, body):
        if path == "/":
            return models.VersionInfo(title="qdrant - vector search engine", version="1.20.0")
        if path == "/collections":
            return self.client.get_collections()
        name, part = re.fullmatch(r"/collections/([^/]+)/?(.*)", path).groups()
        if part == "exists":
            return {"exists": self.client.collection_exists(name)}
        if (method, part) == ("PUT", ""):
            asked = CreateCollection(**body)
            return self.client.create_collection(name, vectors_config=asked.vectors, metadata=asked.metadata)
        if not self.client.collection_exists(name):
            raise LookupError(f"Collection `{name}` doesn't exist!")
        match method, part:
            case "GET", "":
                return self.client.get_collection(name)
            case "DELETE", "":
                return self.client.delete_collection(name)
            case "PUT", "points":
                return self.client.upsert(name, [PointStruct(**each) for each in body["points"]])
            case "POST", "points/delete":
                return self.client.delete(name, FilterSelector(**body).filter)
            case "POST", "points/count":
                asked = CountRequest(**body)
                return self.client.count(name, count_filter=asked.filter, exact=asked.exact)
            case "POST", "points/scroll":
                asked = ScrollRequest(**body)
                points, following = self.client.scroll(
                    name,
                    scroll_filter=asked.filter,
                    limit=asked.limit,
                    offset=asked.offset,
                    with_payload=asked.with_payload,
                    with_vectors=asked.with_vector,
                )
                return models.ScrollResult(points=points, next_page_offset=following)
            case "POST", "points/query":
                asked = QueryRequest(**body)
                return self.client.query_points(
                    name,
                    query=asked.query,
                    using=asked.using,
                    limit=asked.limit,
                    query_filter=asked.filter,
                    with_payload=asked.with_payload,
                )
        if method == "PUT" and part.startswith("vectors/"):
            return self.client.create_vector_name(name, part.removeprefix("vectors/"), DenseVectorNameConfig(**body))
        raise LookupError(path)


def _json(found):
    return json.loads(found.model_dump_json()) if hasattr(found, "model_dump_json") else found
