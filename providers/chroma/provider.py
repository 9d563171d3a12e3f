"""A Chroma server, over its own HTTP API (v2).

Chroma's client is not used: it opens sockets of its own, which no policy of this service could judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from providers.arguments import (
    check_dimension,
    check_selection,
    checked_batch,
    checked_collection,
    checked_ids,
    checked_limit,
    checked_name,
    checked_top_k,
    checked_vector,
    in_order,
    parts_of,
)
from providers.base import (
    ProviderContext,
    RagProvider,
    Registry,
    SupportsDynamicCollections,
    SupportsEmbeddings,
    SupportsMetadataFiltering,
    SupportsSearch,
)
from providers.chroma.filters import Clause, to_chroma
from providers.chroma.records import LISTS_KEY, checked_metadata, decoded, encoded, to_documents, with_nulls
from providers.cursors import decode_offset, encode_cursor
from providers.outbound.answers import array, listed, members, number, text, whole
from providers.outbound.json_client import JsonClient, RetryPolicy
from providers.outbound.recognition import Sign
from providers.outbound.vendor_dialect import VendorDialect
from schemas.bounds import MAX_PAGE, MAX_TOP_K
from schemas.configuration import JsonSchema, read_schema
from schemas.connections import CollectionInfo
from schemas.errors import CollectionNotFoundError, ConfigurationError, ConflictError, RagError, UnavailableError
from schemas.records import METRICS, Document, DocumentBatch, Match, Metadata, Page, Vector
from schemas.scores import rounded, score
from schemas.where import EVERYTHING, Where

Answer = dict[str, Any]

MAX_COLLECTIONS = 100_000  # a server that lists more is taken to list without end
RECORDS_PER_CALL = 1_000
IDS_PER_CALL = 5_000  # Chroma fails beyond 32,766 SQL variables
MAX_BODY_BYTES = 16 * 1024 * 1024  # a stock Chroma server takes 40 MB
DEFAULT_METRIC = "l2"


class ChromaProvider(
    RagProvider, SupportsSearch, SupportsMetadataFiltering, SupportsEmbeddings, SupportsDynamicCollections
):
    """The collections of one database of a server.

    `retry` and `sleep` are for requests that may succeed when they are sent again.
    """

    id = "chromadb"
    display_name = "Chroma server"
    sign = Sign("/api/v2/heartbeat", "nanosecond heartbeat")
    description = "The collections of a Chroma server, read and written directly"
    limits: ClassVar[Mapping[str, Any]] = {
        "max_top_k": MAX_TOP_K,
        "max_page": MAX_PAGE,
        "metadata": "texts, numbers, booleans, and lists of one of these; no objects, no nulls",
        "filters": "no $exists, no ordering of strings, no $not of an ordering, no numbers beyond 2^53",
        "pages": "a cursor is a number of documents: deleting while paging moves the pages",
        "numbers": "a float of more than 15 digits may come back with another last binary digit",
        "search": "approximate, by Chroma's index, which may lose one of those that several callers store at once",
    }

    def __init__(
        self,
        config: Mapping[str, Any],
        context: ProviderContext | None = None,
        *,
        retry: RetryPolicy | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(config, context)
        tenant, database = (quote(self.config[name], safe="") for name in ("tenant", "database"))
        self._database = f"/api/v2/tenants/{tenant}/databases/{database}"
        self._service = JsonClient(
            self.config["url"],
            VendorDialect("document store", self.id),
            network=self.context.network,
            redactor=self.context.redactor,
            api_key=self.config.get("api_key"),
            key_header="x-chroma-token",
            timeout_seconds=self.config["timeout_seconds"],
            retry=retry,
            sleep=sleep,
        )

    @classmethod
    def connection_schema(cls) -> JsonSchema:
        return read_schema("rag-chromadb")

    def close(self) -> None:
        self._service.close()

    def check(self) -> dict[str, Any]:
        version = self._service.get("/api/v2/version")
        # Chroma counts 0 collections in a database that does not exist: ask for the database itself first.
        self._service.get(self._database)
        count = self._service.get(f"{self._database}/collections_count")
        with self._service.reading():
            return {"version": text(version), "collections_count": whole(count)}

    def collections(self) -> list[CollectionInfo]:
        found = []
        for each in self._listed():
            try:
                found.append(self._info(each))
            except CollectionNotFoundError:
                continue
        return sorted(found, key=lambda collection: collection.name)

    def collection(self, name: str) -> CollectionInfo:
        return self._info(self._found(name))

    def create_collection(self, name: str, metadata: Metadata, *, metric: str = "cosine") -> CollectionInfo:
        kept = checked_metadata(checked_collection(name, metadata, metric), lists=False)
        body: Answer = {"name": name, "configuration": {"hnsw": {"space": metric}}}
        if kept:
            body["metadata"] = kept
        try:
            self.collection(name)
        except CollectionNotFoundError:
            pass
        else:
            raise _exists(name)
        try:
            self._service.post(f"{self._database}/collections", body)
        except RagError as error:
            if "already exists" in error.message:
                raise _exists(name) from error
            raise
        return self.collection(name)

    def delete_collection(self, name: str) -> None:
        """Delete a collection, its documents with lists in their metadata first.

        Chroma gives those lists to documents that are stored later, whatever their collection.
        """
        found = self._found(name)
        path = self._records(found)
        with_lists = {"where": {LISTS_KEY: True}, "limit": RECORDS_PER_CALL, "include": []}
        for _ in range(0, self._count(path) + 1, RECORDS_PER_CALL):
            self._delete_ids(path, self._column(self._service.post(f"{path}/get", with_lists), "ids"))
        self._asked("DELETE", name, self._named(name))

    def add_documents(self, collection: str, batch: DocumentBatch, *, replace_where: Where | None = None) -> bool:
        checked = checked_batch(batch)
        replaced = False if replace_where is None else to_chroma(replace_where)
        held = [checked_metadata(each, index=index) for index, each in enumerate(checked.metadatas)]
        found = self._found(collection)
        path = self._records(found)
        check_dimension(self._description(found, None), checked.dimension)
        for part in parts_of(
            DocumentBatch(checked.ids, checked.texts, held, checked.embeddings),
            max_documents=RECORDS_PER_CALL,
            max_bytes=MAX_BODY_BYTES,
        ):
            self._upsert(path, part)
        if replaced is not False:
            kept = set(checked.ids)
            self._delete_ids(path, [each for each in self._ids(path, replaced) if each not in kept])
        return True

    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> None:
        check_selection(ids, where)
        clause = None if where is None else to_chroma(where)
        path = self._records(self._found(collection))
        if clause is None:
            self._delete_ids(path, list(ids or ()))
        elif clause is True:
            self._delete_ids(path, self._ids(path, True))
        elif clause is not False:
            self._service.post(f"{path}/delete", {"where": clause})

    def search(self, collection: str, embedding: Vector, *, top_k: int = 3, where: Where = EVERYTHING) -> list[Match]:
        vector, clause = checked_vector(embedding), to_chroma(where)
        checked_top_k(top_k)
        found = self._found(collection)
        info = self._description(found, None)
        check_dimension(info, len(vector), field="query_embedding")
        if clause is False or info.dimension is None:
            return []
        body = {
            "query_embeddings": [vector.tolist()],
            "n_results": top_k,
            "include": ["documents", "metadatas", "distances"],
            **_where(clause),
        }
        answer = self._service.post(f"{self._records(found)}/query", body)
        with self._service.reading():
            first = {name: answer[name][0] for name in ("ids", "documents", "metadatas", "distances")}
            distances = [rounded(number(each), info.metric) for each in first["distances"]]
            documents = to_documents(first)
            matches = [
                Match(document, distance, score(distance, info.metric))
                for document, distance in zip(documents, distances, strict=True)
            ]
        return sorted(matches, key=lambda match: match.distance)

    def documents(
        self,
        collection: str,
        where: Where = EVERYTHING,
        *,
        limit: int = 100,
        cursor: str | None = None,
        with_embeddings: bool = False,
    ) -> Page:
        clause, offset, wanted = to_chroma(where), decode_offset(cursor, where), checked_limit(limit)
        path = self._records(self._found(collection))
        selection: Answer = {"include": ["documents", "metadatas", *(["embeddings"] if with_embeddings else [])]}
        if clause is True:
            total = self._count(path)
            selection |= {"limit": wanted, "offset": offset}
        else:
            # Chroma does not count matches: ask for the ids of all of them and cut the page from these.
            matching = [] if clause is False else self._ids(path, clause)
            total = len(matching)
            selection["ids"] = matching[offset : offset + wanted]
        documents = self._read(path, selection, offset) if selection.get("ids", True) else []
        following = offset + wanted
        return Page(documents, total, encode_cursor(following, where) if following < total else None, 0)

    def documents_by_id(self, collection: str, ids: Sequence[str], *, with_embeddings: bool = False) -> list[Document]:
        wanted = checked_ids(ids)
        path = self._records(self._found(collection))
        if not wanted:
            return []
        include = ["documents", "metadatas", *(["embeddings"] if with_embeddings else [])]
        return in_order(self._read(path, {"ids": wanted, "include": include}, 0), wanted)

    def _upsert(self, path: str, batch: DocumentBatch) -> None:
        """Store documents, sending nulls for the keys that a document loses: Chroma merges metadata."""
        before = self._service.post(f"{path}/get", {"ids": batch.ids, "include": ["metadatas"]})
        with self._service.reading():
            held = dict(zip(before["ids"], before["metadatas"], strict=True))
            stale = [list(held.get(each) or ()) for each in batch.ids]
        body = {
            "ids": batch.ids,
            "embeddings": batch.embeddings.tolist(),
            "documents": batch.texts,
            "metadatas": [
                with_nulls(encoded(metadata), keys) for metadata, keys in zip(batch.metadatas, stale, strict=True)
            ],
        }
        self._service.post(f"{path}/upsert", body)

    def _read(self, path: str, selection: Answer, offset: int) -> list[Document]:
        answer = self._service.post(f"{path}/get", selection)
        with self._service.reading():
            return to_documents(answer, first_position=offset)

    def _ids(self, path: str, clause: Clause | bool) -> list[str]:
        """Return the ids of all documents that match, in the order of their first insertion."""
        if clause is False:
            return []
        return self._column(self._service.post(f"{path}/get", {"include": [], **_where(clause)}), "ids")

    def _delete_ids(self, path: str, ids: list[str]) -> None:
        for start in range(0, len(ids), IDS_PER_CALL):
            self._service.post(f"{path}/delete", {"ids": ids[start : start + IDS_PER_CALL]})

    def _column(self, answer: Any, name: str) -> list[str]:
        with self._service.reading():
            return [text(each) for each in listed(answer, name)]

    def _count(self, path: str) -> int:
        count = self._service.get(f"{path}/count")
        with self._service.reading():
            return whole(count)

    def _listed(self) -> Iterator[Answer]:
        for offset in range(0, MAX_COLLECTIONS, RECORDS_PER_CALL):
            page = self._service.get(f"{self._database}/collections?limit={RECORDS_PER_CALL}&offset={offset}")
            with self._service.reading():
                found = [members(each) for each in array(page)]
            yield from found
            if len(found) < RECORDS_PER_CALL:
                return
        raise UnavailableError(f"The database has more than {MAX_COLLECTIONS} collections", error_type="unknown")

    def _found(self, name: str) -> Answer:
        with self._service.reading():
            return dict(self._asked("GET", name, self._named(name)))

    def _asked(self, method: str, name: str, path: str) -> Any:
        try:
            return self._service.call(method, path)
        except ConfigurationError as error:
            if error.details.get("error_type") == "not_found":
                raise CollectionNotFoundError(name) from error
            raise

    def _info(self, found: Answer) -> CollectionInfo:
        with self._service.reading():
            name = text(found["name"])
        count = self._asked("GET", name, f"{self._records(found)}/count")
        with self._service.reading():
            return self._description(found, whole(count))

    def _description(self, found: Answer, count: int | None) -> CollectionInfo:
        with self._service.reading():
            metadata = members(found.get("metadata"))
            dimension = found.get("dimension")
            return CollectionInfo(
                text(found["name"]),
                count,
                decoded(metadata),
                _metric(members(found.get("configuration_json")), metadata),
                None if dimension is None else whole(dimension),
                id=text(found["id"]),
            )

    def _named(self, name: str) -> str:
        return f"{self._database}/collections/{checked_name(name)}"

    def _records(self, found: Answer) -> str:
        with self._service.reading():
            return f"{self._database}/collections/{quote(found['id'], safe='')}"


def _metric(configuration: Answer, metadata: Metadata) -> str:
    index = members(configuration.get("hnsw") or configuration.get("spann"))
    metric = text(index.get("space") or DEFAULT_METRIC)
    # Before 1.0 only the metadata named the metric, and the configuration held the default.
    told = metadata.get("hnsw:space")
    return str(told) if metric == DEFAULT_METRIC and told in METRICS else metric


def _where(clause: Clause | bool) -> Answer:
    return {"where": clause} if isinstance(clause, dict) else {}


def _exists(name: str) -> ConflictError:
    return ConflictError(f"Collection '{name}' already exists", code="collection_exists", collection=name)


def register(registry: Registry) -> None:
    registry.register(ChromaProvider)
