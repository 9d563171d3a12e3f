"""A client of a rag-wrapper service, on this machine or another one.

Answers are dictionaries, as on the wire. Failures are told as `dialect.py` says.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

import numpy as np
import orjson

from providers.cursors import through_pages
from providers.outbound.answers import listed, whole
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.network import Network
from providers.rag_wrapper.dialect import PATIENT, Body, RouteNotFoundError, WrapperDialect
from schemas.errors import (
    CollectionNotFoundError,
    ConflictError,
    DatabaseNotFoundError,
    NotFoundError,
)
from schemas.names import DEFAULT_DATABASE, DEFAULT_TENANT, full_name, is_elsewhere, parts_of_name
from schemas.records import Metadata

_PAGE_LIMIT = 1000  # the service gives no more in one page
DATABASE = "database"
DEFAULT = (DEFAULT_TENANT, DEFAULT_DATABASE)
IDS_AT_ONCE = 10_000
"""The most ids that the service takes in one request."""


class WrapperClient:
    """Calls the routes of a service; usable by several threads. Added documents carry an idempotency key, so that
    sending them again after a lost answer changes nothing."""

    def __init__(self, service: JsonClient) -> None:
        self._service = service

    @classmethod
    def at(
        cls,
        url: str,
        api_key: str | None = None,
        *,
        network: Network | None = None,
        timeout_seconds: float = 120.0,
        retry: RetryPolicy = PATIENT,
    ) -> WrapperClient:
        """Return a client of the service at a URL that the operator gave, reached under the default policy unless a
        network is given."""
        dialect = WrapperDialect(url.rstrip("/"))
        service = JsonClient(
            url, dialect, network=network or Network(), api_key=api_key, timeout_seconds=timeout_seconds, retry=retry
        )
        return cls(service)

    def close(self) -> None:
        self._service.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise UnavailableError when the block, which takes an answer apart, finds something missing or of another
        type."""
        with self._service.reading():
            yield

    def health(self) -> Body:
        """Return the service's own report, `status` healthy, degraded or unhealthy; it is asked once."""
        return self._service.report("/health")

    def collection(self, name: str) -> Body:
        """Return name, count, metadata, dimension, metric and revision. Raises CollectionNotFoundError when there is
        none."""
        return self._service.call("GET", _collection(name))

    def collections(self) -> list[Body]:
        """Return all collections, by name."""
        answer = self._service.call("GET", "/collections")
        with self._service.reading():
            found: list[Body] = listed(answer, "collections")
            return found

    def collections_everywhere(self) -> list[Body]:
        """Return the collections of all databases, by database and name; those of others than the default one by their
        full names."""
        try:
            answer = self._service.call("GET", "/databases")
        except RouteNotFoundError:  # an older service, which has no others
            return self.collections()
        found = []
        with self._service.reading():
            databases = [(each["tenant"], each["name"]) for each in listed(answer, "databases")]
        for tenant, database in databases:
            answer = self._service.call("GET", "/collections", params={DATABASE: f"{tenant}/{database}"})
            with self._service.reading():
                own = listed(answer, "collections")
                found += [{**each, "name": full_name(tenant, database, each["name"])} for each in own]
        return found

    def ensure_collection(self, name: str, metadata: Metadata, *, metric: str | None = None) -> Body:
        """Return the collection of that name; create it with `metadata` and `metric` when it does not exist, and its
        database, too."""
        try:
            return self.collection(name)
        except CollectionNotFoundError:
            pass
        except NotFoundError as error:
            if error.code != DatabaseNotFoundError.code:
                raise
            self._ensure_database(*parts_of_name(name)[:2])
        try:
            return self.create_collection(name, metadata, metric=metric)
        except ConflictError:
            return self.collection(name)

    def create_collection(self, name: str, metadata: Metadata, *, metric: str | None = None) -> Body:
        """Create a collection. Raises ConflictError when the name is taken."""
        tenant, database, own_name = parts_of_name(name)
        body = {"name": own_name, "metadata": metadata, **_given(metric=metric)}
        return self._service.call("POST", f"/collections{_query(tenant, database)}", body)

    def _ensure_database(self, tenant: str, database: str) -> None:
        """Create a database, and its tenant, unless they exist."""
        tenants = "/api/v2/tenants"
        for path, name in ((tenants, tenant), (f"{tenants}/{quote(tenant, safe='')}/databases", database)):
            with suppress(ConflictError):
                self._service.call("POST", path, {"name": name})

    def delete_collection(self, name: str) -> Body:
        return self._service.call("DELETE", _collection(name))

    def add_documents(
        self,
        name: str,
        documents: Sequence[Body],
        *,
        replace_where: Body | None = None,
        embedding_model: str | None = None,
        idempotency_key: str | None = None,
        with_arrays: bool = False,
    ) -> Body:
        """Store documents `{id?, text, metadata?, embedding}` in one transaction, replacing those of the same id.

        With `replace_where`, stored documents that match it, even all, and are not among the new ones are deleted. The
        answer counts created, updated and unchanged ones; `indexed` is False while vector queries do not see them yet.
        Raises ConflictError when the collection records another model than `embedding_model`.
        Embeddings travel as base64 or, for services that do not read that, as arrays of numbers.
        """
        spell = _array if with_arrays else _encoded
        return self._service.call(
            "POST",
            _collection(name, "documents"),
            {"documents": [document | {"embedding": spell(document["embedding"])} for document in documents]},
            params=_given(
                replace_where=_text(replace_where),
                all=None if replace_where is None else "true",
                embedding_model=embedding_model,
            ),
            headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())},
        )

    @contextmanager
    def export(self, name: str) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Give (number of documents, pieces of their lines) of one revision. Fewer lines than that mean a broken
        connection."""
        with self._service.stream(_collection(name, "export")) as (headers, pieces):
            with self._service.reading():
                count = int(headers["X-Document-Count"])
            yield count, pieces

    def add_lines(self, name: str, lines: Sequence[bytes], *, embedding_model: str | None = None) -> Body:
        """Store documents given as the lines of an export: all, or those before the first bad line. Raises
        ConflictError when the collection records another model than `embedding_model`."""
        params = _given(embedding_model=embedding_model)
        path, content = _collection(name, "import"), b"".join(lines)
        return self._service.call_with_content("POST", path, content, "application/x-ndjson", params=params)

    def compare_files(self, files: Mapping[str, str], *, collection: str | None, metadata: Metadata) -> Body:
        """Return which files, given as the SHA-256 of each by name, are `missing` and which `changed`, the
        `collection`, and `max_file_bytes`."""
        named = [{"name": name, "sha256": sha256} for name, sha256 in files.items()]
        body = {"files": named, "metadata": metadata, **_given(collection=collection)}
        return self._service.call("POST", "/api/documents/compare", body)

    def upload(self, files: Mapping[str, bytes], *, collection: str, metadata: Metadata, idempotency_key: str) -> Body:
        """Send files, which a job stores under their names; return its `job` and the `files` as they were taken."""
        boundary = uuid.uuid4().hex
        parts = [
            f"--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename*=UTF-8''{quote(name, safe='')}"
            "\r\nContent-Type: application/octet-stream\r\n\r\n".encode()
            + content
            + b"\r\n"
            for name, content in files.items()
        ]
        return self._service.call_with_content(
            *("POST", "/api/documents", b"".join((*parts, f"--{boundary}--\r\n".encode()))),
            f"multipart/form-data; boundary={boundary}",
            params={"collection": collection, "metadata": _text(metadata)},
            headers={"Idempotency-Key": idempotency_key},
        )

    def job(self, job_id: str) -> Body:
        """Return how far a job is, file by file."""
        return self._service.call("GET", f"/api/jobs/{quote(job_id, safe='')}")

    def delete_stored(self, document_id: str, collection: str) -> Body:
        """Delete a document with its chunks and its original. Raises NotFoundError when there is none."""
        path = f"/api/documents/{quote(document_id, safe='')}"
        return self._service.call("DELETE", path, params={"collection": collection})

    def call_tool(self, name: str, arguments: Body) -> Body:
        """Return the raw result of a tool of the context layer."""
        return self._service.call("POST", f"/tools/{quote(name, safe='')}", arguments)

    def report_watcher(self, name: str, report: Body) -> Body:
        """Send what a watcher says of itself. Raises ConflictError while another instance has its name."""
        return self._service.call("PUT", f"/api/watchers/{quote(name, safe='')}", report)

    def index(self, name: str) -> Body:
        """Return what is known of a collection's index: its state, the last check, its recall, its rebuild."""
        return self._service.call("GET", _collection(name, "index"))

    def check_index(self, name: str) -> Body:
        """Have the index checked. Return what was known before."""
        return self._service.call("POST", _collection(name, "index/check"), {})

    def rebuild_index(self, name: str, *, records: str | None = None) -> Body:
        """Have the index rebuilt, and change what the engine's records have, `full` or `vectors`. Return what was
        known before."""
        params = {} if records is None else {"records": records}
        return self._service.call("POST", _collection(name, "index/rebuild"), {}, params=params)

    def reembed(self, name: str, *, connection: str | None = None, back: bool = False) -> Body:
        """Have new vectors made by a connection, or switch `back` to the old ones. Return the state."""
        asked = {"back": True} if back else {"connection": connection}
        return self._service.call("POST", _collection(name, "reembed"), asked)

    def reembedding(self, name: str) -> Body:
        """Return how far a re-embedding is."""
        return self._service.call("GET", _collection(name, "reembed"))

    def drop_vectors(self, name: str) -> Body:
        """Cancel a re-embedding, or drop the old vectors."""
        return self._service.call("DELETE", _collection(name, "reembed"))

    def delete_documents(self, name: str, *, ids: Sequence[str] | None = None, where: Body | None = None) -> int:
        """Delete by ids, in parts of `IDS_AT_ONCE`, or by filter, even when that leaves no document. Return how many
        were deleted."""
        if ids is not None and len(ids) > IDS_AT_ONCE:
            parts = [ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE)]
            return sum(self.delete_documents(name, ids=part, where=where) for part in parts)
        params = {} if where is None else {"all": "true"}
        body = _given(ids=ids, where=where)
        answer = self._service.call("DELETE", _collection(name, "documents"), body, params=params)
        with self._service.reading():
            return whole(answer["count"])

    def page(
        self,
        name: str,
        where: Body | None = None,
        *,
        ids: Sequence[str] | None = None,
        order_by: Sequence[str] = (),
        limit: int = 100,
        cursor: str | None = None,
        include: Sequence[str] = (),
    ) -> Body:
        """Return `{documents, count, total, next_cursor}`, where `total` is exact. `order_by` lists fields, `-field`
        for descending order."""
        body = {"order_by": list(order_by), "include": list(include), "limit": limit}
        body |= _given(where=where, ids=ids, cursor=cursor)
        return self._service.call("POST", _collection(name, "documents/search"), body)

    def listed(self, name: str, where: Body | None, *, limit: int, offset: int) -> Body:
        """Return `{documents, count, total}` from the route that the oldest services have."""
        params = {"limit": limit, "offset": offset, **_given(where=_text(where))}
        return self._service.call("GET", _collection(name, "documents"), params=params)

    def documents(
        self,
        name: str,
        where: Body | None = None,
        *,
        ids: Sequence[str] | None = None,
        order_by: Sequence[str] = (),
        include: Sequence[str] = (),
    ) -> Iterator[Body]:
        """Yield all documents that match, or those of at most 1,000 `ids`, read page by page as they are consumed."""

        def read(cursor: str | None) -> tuple[list[Body], str | None]:
            page = self.page(name, where, ids=ids, order_by=order_by, limit=_PAGE_LIMIT, cursor=cursor, include=include)
            with self._service.reading():
                return listed(page, "documents"), page.get("next_cursor")

        return through_pages(read)

    def query(
        self,
        name: str,
        embedding: Iterable[float],
        *,
        top_k: int = 3,
        where: Body | None = None,
        gather: Body | None = None,
        with_arrays: bool = False,
    ) -> Body:
        """Return the `top_k` nearest documents and the plan that found them; with `gather`, their whole groups too.
        Embeddings travel as in `add_documents`."""
        spell = _array if with_arrays else _encoded
        body = {"collection": name, "query_embedding": spell(embedding), "top_k": top_k}
        return self._service.call("POST", "/query", body | _given(where=where, gather=gather))

    def text_search(self, name: str, query: str, *, top_k: int, where: Body | None = None) -> Body:
        """Return `{results, total}`: the documents with the words of a text, best first."""
        body = {"query": query, "top_k": top_k, **_given(where=where)}
        return self._service.call("POST", _collection(name, "text-search"), body)

    def gather(
        self,
        name: str,
        *,
        by: str | Sequence[str],
        ids: Sequence[str] | None = None,
        where: Body | None = None,
        order_by: Sequence[str] = (),
        limit: int | None = None,
        before: int | None = None,
        after: int | None = None,
    ) -> Body:
        """Return the groups, by a field or several, of the documents given by ids or by filter."""
        # One field is spelt as services of every release read it.
        fields = by if isinstance(by, str) or len(by) > 1 else by[0]
        given = _given(ids=ids, where=where, limit=limit, before=before, after=after)
        body = {"by": fields, "order_by": list(order_by), **given}
        return self._service.call("POST", _collection(name, "gather"), body)

    def facets(self, name: str, fields: Sequence[str], where: Body | None = None) -> Body:
        """Return `{facets: {field: {values: [{value, count}], distinct, …}}, total}`."""
        params = _given(fields=",".join(fields), where=_text(where))
        return self._service.call("GET", _collection(name, "facets"), params=params)


def _encoded(embedding: Iterable[float]) -> str:
    return base64.b64encode(np.asarray(embedding, dtype="<f4").tobytes()).decode()


def _array(embedding: Iterable[float]) -> list[float]:
    numbers: list[float] = np.asarray(embedding, dtype="<f4").tolist()
    return numbers


def _text(where: Body | None) -> str | None:
    return None if where is None else orjson.dumps(where).decode()


def _given(**fields: Any) -> Body:
    return {name: value for name, value in fields.items() if value is not None}


def _collection(name: str, part: str = "") -> str:
    """Return the path of a collection, which has a query string where the name is a full one."""
    tenant, database, own_name = parts_of_name(name) if is_elsewhere(name) else (*DEFAULT, name)
    path = f"/collections/{quote(own_name, safe='')}" + (f"/{part}" if part else "")
    return path + _query(tenant, database)


def _query(tenant: str, database: str) -> str:
    return "" if (tenant, database) == DEFAULT else f"?{DATABASE}={quote(tenant, safe='')}/{quote(database, safe='')}"
