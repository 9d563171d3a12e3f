"""The routes that loading calls, over HTTP, with the plain models of a store and of an embedding behind them."""

import json
import re
from base64 import b64decode
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from schemas.errors import InvalidInputError, NotFoundError, RagError
from tests.retrieval.letter_embedding import LetterEmbedding
from tests.retrieval.model_store import ModelStore
from tests.support.http_stub import running as running

PAGE = 3  # small, so that every test reads several pages


class StubService:
    """Answers first from `answers`, each `(status, headers, body)` or None for a cut connection, then by the model."""

    def __init__(self, store: ModelStore | None = None) -> None:
        self.store = store or ModelStore()
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
        if path == "/v1/embeddings":  # OpenAI's protocol
            vectors = LetterEmbedding().embed(body["input"]).tolist()
            return 200, {}, {"data": [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]}
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
