"""The engine as the indexer, the planner and the doctor see it: collections of records, found by vector.

It speaks Chroma's HTTP API itself: chromadb's own client costs several times the time per call and half a second of
import. It works against the supervised child and any other Chroma server of 1.x.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import numpy as np

from schemas.errors import InvalidInputError
from schemas.records import METRICS, Metadata, Vector
from wrapper.engine.access import STOCK, EngineAccess
from wrapper.engine.encoding import (
    LISTS_KEY,
    REBUILD_KEY,
    decode_metadata,
    encode_collection_metadata,
    encode_metadata,
    removable,
    reserved_metadata,
    size_of,
)
from wrapper.engine.errors import EngineBrokenError, EngineCollectionMissingError, EngineConflictError
from wrapper.engine.transport import Transport, encode_body

# Measured: docs/engine.md, "Index parameters".
HNSW = {"max_neighbors": 16, "ef_construction": 100, "ef_search": 400, "sync_threshold": 1000}
MAX_BODY_BYTES = 32 * 1024 * 1024  # a stock Chroma server takes 40 MB
IDS_PER_CALL = 5000  # Chroma fails beyond 32,766 SQL variables
RECORDS_PER_CALL = 1000
VALUES_PER_CALL = 50_000
"""Fields and list elements of the records of one call: it takes Chroma two to five seconds to write so many."""
MOST_STALE_KEYS = 20_000
"""Of one record, sent as null: Chroma fails beyond 32,766 SQL variables."""
NO_METADATA = "rag:none"

Part = Literal["documents", "metadatas", "embeddings", "uris"]


@dataclass(frozen=True, slots=True)
class EngineCollection:
    """A collection in the engine. `metadata` as the client gave it; `dimension` is None before the first record;
    `metric` is the one it was made with, as far as the engine says; `rebuild` is the name under which a rebuild made
    it, None for others; `search_width` is the index's `ef_search`, None where the engine does not say."""

    id: str
    name: str
    metadata: Metadata
    dimension: int | None
    metric: str
    rebuild: str | None = None
    search_width: int | None = None


@dataclass(frozen=True, slots=True)
class EngineRecords:
    """Records column by column, in order of first insertion; a part that was not asked for is None. A text is None
    when another client stored a record without a document; `embeddings` is float32 (n, dimension), with NaN in the row
    of a record for which the engine has none."""

    ids: list[str]
    texts: list[str | None] | None = None
    metadatas: list[Metadata] | None = None
    embeddings: Vector | None = None
    uris: list[str | None] | None = None


class EngineClient:
    """One engine, from any number of threads. `address()` is asked before each request, so a restarted engine on
    another port is found. Metadata goes in and comes out as clients gave it; the encoding is this class's own.

    Every method takes `timeout_seconds` per request and raises EngineUnavailableError when there is no answer,
    EngineBrokenError for an internal error, EngineRefusedError when Chroma calls the request wrong; those that take an
    `engine_id` raise EngineCollectionMissingError when it is gone. All of them may be repeated safely.
    """

    def __init__(
        self,
        address: Callable[[], str],
        *,
        pool_size: int = 32,
        hnsw: Mapping[str, int] = HNSW,
        access: EngineAccess = STOCK,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access = access
        self._transport = Transport(address, pool_size=pool_size, sleep=sleep, access=access)
        self._hnsw = dict(hnsw)
        self._limits: tuple[str, dict[str, Any]] | None = None
        self._keeping_lists: set[str] = set()

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def heartbeat(self, timeout_seconds: float = 2.0) -> None:
        """Return when the engine answers for its database, raise UnavailableError when not. Chroma's own heartbeat is
        open to everybody and says nothing of the token."""
        self.check_database(timeout_seconds=timeout_seconds)

    def check_database(self, *, timeout_seconds: float = 10.0) -> None:
        """Raises EngineNamespaceMissingError when the engine does not have the tenant or the database."""
        self._transport.call("GET", self._access.database_path, timeout_seconds=timeout_seconds)

    def version(self, *, timeout_seconds: float = 10.0) -> str:
        """What the server says of its release."""
        return str(self._transport.call("GET", "/api/v2/version", timeout_seconds=timeout_seconds))

    def make_database(self, *, timeout_seconds: float = 10.0) -> None:
        """Make the tenant and the database, as far as they are not there. Somebody else may do so at the same time."""
        for path, name in (
            ("/api/v2/tenants", self._access.tenant),
            (f"{self._access.tenant_path}/databases", self._access.database),
        ):
            with suppress(EngineConflictError):
                self._transport.call("POST", path, {"name": name}, timeout_seconds=timeout_seconds, repeatable=False)

    def list_collections(self, *, timeout_seconds: float = 30.0) -> list[EngineCollection]:
        found = self._transport.call("GET", self._access.collections_path, timeout_seconds=timeout_seconds)
        return [_collection(item) for item in found]

    def unused_collections(self, *, timeout_seconds: float = 30.0) -> list[str]:
        """Engine ids of collections that never had a record (Chroma knows their dimension before it takes the first),
        without those that `widen_search` would change."""
        found = self.list_collections(timeout_seconds=timeout_seconds)
        return [each.id for each in found if each.dimension is None and not self._is_narrow(each)]

    def get_collection(self, name: str, *, timeout_seconds: float = 10.0) -> EngineCollection | None:
        try:
            return _collection(self._transport.call("GET", self._named(name), timeout_seconds=timeout_seconds))
        except EngineCollectionMissingError:
            return None

    def create_collection(
        self,
        name: str,
        *,
        metric: str,
        metadata: Metadata | None = None,
        rebuild: str | None = None,
        timeout_seconds: float = 10.0,
    ) -> str:
        """The new collection's engine id. `metric` is `cosine`, `l2` or `ip`; `rebuild` is kept with it until its
        metadata is set; an existing name is an EngineConflictError."""
        body: dict[str, Any] = {"name": name, "configuration": {"hnsw": {"space": metric, **self._hnsw}}}
        encoded = encode_collection_metadata(metadata or {}) or {}
        if rebuild is not None:
            encoded[REBUILD_KEY] = rebuild
        if encoded:
            body["metadata"] = encoded
        path = self._access.collections_path
        created = self._transport.call("POST", path, body, timeout_seconds=timeout_seconds, repeatable=False)
        return str(created["id"])

    def delete_collection(self, name: str, *, timeout_seconds: float = 60.0) -> bool:
        """Whether there was one.

        Chroma 1.5.9 keeps the lists in the metadata of a collection that it deletes, and gives them to the documents
        that get the same row numbers later, in whatever collection. So documents with lists are deleted first, unless
        that was tried on this collection and ended the engine: what stays then goes at the engine's next start.
        """
        found = self.get_collection(name, timeout_seconds=timeout_seconds)
        if found is None:
            return False
        if found.id not in self._keeping_lists:
            self._keeping_lists.add(found.id)
            with suppress(EngineBrokenError):
                self._delete_lists(found.id, timeout_seconds)
        try:
            self._transport.call("DELETE", self._named(name), timeout_seconds=timeout_seconds)
        except EngineCollectionMissingError:
            return False
        self._keeping_lists.discard(found.id)
        return True

    def rename_collection(self, engine_id: str, new_name: str, *, timeout_seconds: float = 10.0) -> None:
        """A name that is taken is an EngineConflictError."""
        self._transport.call("PUT", self._named(engine_id), {"new_name": new_name}, timeout_seconds=timeout_seconds)

    def set_collection_metadata(self, engine_id: str, metadata: Metadata, *, timeout_seconds: float = 10.0) -> None:
        """Replaces all of it; the engine's own keys (`hnsw:*`), which older collections are configured by, are kept
        when `metadata` has them. Chroma refuses an empty object, but nothing is left of one that holds only nulls."""
        encoded = {**reserved_metadata(metadata), **(encode_collection_metadata(metadata) or {NO_METADATA: None})}
        self._transport.call("PUT", self._named(engine_id), {"new_metadata": encoded}, timeout_seconds=timeout_seconds)

    def widen_search(self, name: str, *, timeout_seconds: float = 10.0) -> None:
        """Have an index that was made to search less widely than new ones search as they do, from the next time on that
        the engine loads it."""
        found = self.get_collection(name, timeout_seconds=timeout_seconds)
        if found is None or not self._is_narrow(found):
            return
        body = {"new_configuration": {"hnsw": {"ef_search": self._hnsw["ef_search"]}}}
        self._transport.call("PUT", self._named(found.id), body, timeout_seconds=timeout_seconds)

    def upsert(
        self,
        engine_id: str,
        ids: Sequence[str],
        embeddings: Vector,
        texts: Sequence[str],
        metadatas: Sequence[Metadata],
        *,
        stale_keys: Sequence[Collection[str]] | None = None,
        all_new: bool = False,
        timeout_seconds: float = 60.0,
    ) -> None:
        """Store records, replacing those of the same id. `ids` are unique; embeddings are float32 (n, dimension).

        Chroma's upsert merges metadata, so `stale_keys` gives for each record the metadata keys that its earlier
        versions had (empty for a new one; those still in use may be among them). Large batches go in several calls:
        when one fails, those before it are stored. Raises InvalidInputError for repeated ids and for embeddings that
        are not finite.

        `all_new` promises that the engine has none of the ids, which makes the write a tenth cheaper; it keeps quiet
        about ids that it has nevertheless, and keeps what it had.
        """
        if len(set(ids)) != len(ids):
            raise InvalidInputError("ids must be unique within one call", field="ids")
        _check_finite(embeddings)
        held = [encode_metadata(metadata) for metadata in metadatas]
        if stale_keys is not None:
            # Of what would be too much to take back field by field nothing stays.
            anew = [place for place, keys in enumerate(stale_keys) if len(keys) > MOST_STALE_KEYS]
            self.delete(engine_id, [ids[place] for place in anew], timeout_seconds=timeout_seconds)
            stale_keys = [keys if len(keys) <= MOST_STALE_KEYS else () for keys in stale_keys]
            held = [_with_nulls(encoded, keys) for encoded, keys in zip(held, stale_keys, strict=True)]
        vectors = self._vectors(embeddings, timeout_seconds)
        step = self._limit("max_batch_size", IDS_PER_CALL, timeout_seconds)
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            self._store(
                f"{self._named(engine_id)}/{'add' if all_new else 'upsert'}",
                list(ids[part]),
                vectors[part],
                list(texts[part]),
                held[part],
                timeout_seconds,
            )

    def _store(
        self,
        path: str,
        ids: list[str],
        vectors: list[Any],
        texts: list[str],
        metadatas: list[Metadata | None],
        timeout_seconds: float,
    ) -> None:
        is_much = len(ids) > 1 and sum(map(size_of, metadatas)) > VALUES_PER_CALL
        body = None
        if not is_much:
            body = encode_body({"ids": ids, "embeddings": vectors, "documents": texts, "metadatas": metadatas})
        if len(ids) > 1 and (body is None or len(body) > MAX_BODY_BYTES):
            half = len(ids) // 2
            for part in (slice(0, half), slice(half, None)):
                self._store(path, ids[part], vectors[part], texts[part], metadatas[part], timeout_seconds)
            return
        self._transport.send("POST", path, body, timeout_seconds=timeout_seconds)

    def delete(self, engine_id: str, ids: Sequence[str], *, timeout_seconds: float = 60.0) -> None:
        """Delete records; unknown ids are no error."""
        for start in range(0, len(ids), IDS_PER_CALL):
            body = {"ids": list(ids[start : start + IDS_PER_CALL])}
            self._transport.call("POST", f"{self._named(engine_id)}/delete", body, timeout_seconds=timeout_seconds)

    def count(self, engine_id: str, *, timeout_seconds: float = 10.0) -> int:
        return int(self._transport.call("GET", f"{self._named(engine_id)}/count", timeout_seconds=timeout_seconds))

    def query(
        self, engine_id: str, embeddings: Vector, n_results: int, *, timeout_seconds: float = 10.0
    ) -> list[list[str]]:
        """For each row of `embeddings` (n, dimension) at most `n_results` ids, nearest first. Raises
        InvalidInputError when the embeddings are not finite."""
        _check_finite(embeddings)
        body = {
            "query_embeddings": list(np.ascontiguousarray(embeddings, dtype="<f4")),
            "n_results": n_results,
            "include": [],
        }
        answer = self._transport.call("POST", f"{self._named(engine_id)}/query", body, timeout_seconds=timeout_seconds)
        found: list[list[str]] = answer["ids"]
        return found

    def distances(
        self, engine_id: str, embeddings: Vector, n_results: int, *, timeout_seconds: float = 10.0
    ) -> list[dict[str, float]]:
        """As `query`, with the engine's own distance of each id."""
        body = {
            "query_embeddings": list(np.ascontiguousarray(embeddings, dtype="<f4")),
            "n_results": n_results,
            "include": ["distances"],
        }
        answer = self._transport.call("POST", f"{self._named(engine_id)}/query", body, timeout_seconds=timeout_seconds)
        rows = zip(answer["ids"], answer["distances"], strict=True)
        return [dict(zip(ids, distances, strict=True)) for ids, distances in rows]

    def mark_lists(self, engine_id: str, ids: Sequence[str], *, timeout_seconds: float = 60.0) -> None:
        """Say of records of another client that they have lists, as `upsert` does of ours: see `delete_collection`."""
        body = {"ids": list(ids), "metadatas": [{LISTS_KEY: True} for _ in ids]}
        self._transport.call("POST", f"{self._named(engine_id)}/update", body, timeout_seconds=timeout_seconds)

    def get(
        self,
        engine_id: str,
        *,
        ids: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        include: Sequence[Part] = ("documents", "metadatas"),
        timeout_seconds: float = 60.0,
    ) -> EngineRecords:
        """Records by id (unknown ones are left out), or a page, or all; without `ids` exact on a quiet collection.

        The order is that of first insertion, whatever the order of `ids` (within each thousand of them).
        """
        path = f"{self._named(engine_id)}/get"
        pages: list[dict[str, Any]] = []
        for selection in _pages(ids, limit, offset):
            page = self._transport.call(
                "POST", path, {**selection, "include": list(include)}, timeout_seconds=timeout_seconds
            )
            pages.append(page)
            if ids is None and len(page["ids"]) < selection["limit"]:
                break
        return _records(pages, include)

    def _is_narrow(self, collection: EngineCollection) -> bool:
        return collection.search_width is not None and collection.search_width < self._hnsw["ef_search"]

    def _named(self, name_or_id: str) -> str:
        return f"{self._access.collections_path}/{quote(name_or_id, safe='')}"

    def _delete_lists(self, engine_id: str, timeout_seconds: float) -> None:
        selection = {"where": {LISTS_KEY: True}, "limit": RECORDS_PER_CALL, "include": []}
        path = f"{self._named(engine_id)}/get"
        while ids := self._transport.call("POST", path, selection, timeout_seconds=timeout_seconds)["ids"]:
            self.delete(engine_id, ids, timeout_seconds=timeout_seconds)

    def _vectors(self, embeddings: Vector, timeout_seconds: float) -> list[Any]:
        matrix = np.ascontiguousarray(embeddings, dtype="<f4")
        if self._limit("supports_base64_encoding", False, timeout_seconds):
            return [b64encode(row).decode("ascii") for row in matrix]
        return list(matrix)

    def _limit(self, name: str, default: Any, timeout_seconds: float) -> Any:
        address = self._transport.address()
        limits = self._limits
        if limits is None or limits[0] != address:
            answer = self._transport.call("GET", "/api/v2/pre-flight-checks", timeout_seconds=timeout_seconds)
            limits = self._limits = (address, answer)
        return limits[1].get(name, default)


def _collection(item: dict[str, Any]) -> EngineCollection:
    configuration = item.get("configuration_json") or {}
    index = configuration.get("hnsw") or configuration.get("spann") or {}
    encoded = item.get("metadata") or {}
    metric = index.get("space") or "l2"
    if metric == "l2" and encoded.get("hnsw:space") in METRICS:
        # Before 1.0 it was said here only, and the configuration says what is the default.
        metric = encoded["hnsw:space"]
    metadata = decode_metadata(encoded)
    return EngineCollection(
        item["id"],
        item["name"],
        metadata,
        item.get("dimension"),
        metric,
        rebuild=encoded.get(REBUILD_KEY),
        search_width=(configuration.get("hnsw") or {}).get("ef_search"),
    )


def _check_finite(embeddings: Vector) -> None:
    if not np.isfinite(embeddings).all():
        raise InvalidInputError("embeddings must be finite numbers", field="embedding")


def _with_nulls(encoded: Metadata | None, stale_keys: Collection[str]) -> Metadata | None:
    stale = dict.fromkeys(removable(stale_keys))
    return {**stale, **(encoded or {})} or None


def _pages(ids: Sequence[str] | None, limit: int | None, offset: int | None) -> Iterator[dict[str, Any]]:
    if ids is not None:
        for start in range(0, len(ids), RECORDS_PER_CALL):
            yield {"ids": list(ids[start : start + RECORDS_PER_CALL])}
        return
    first = offset or 0
    last = None if limit is None else first + limit
    while last is None or first < last:
        size = RECORDS_PER_CALL if last is None else min(RECORDS_PER_CALL, last - first)
        yield {"limit": size, "offset": first}
        first += size


def _records(pages: list[dict[str, Any]], include: Sequence[Part]) -> EngineRecords:
    def column(name: str) -> list[Any]:
        return [value for page in pages for value in page[name]]

    embeddings = None
    if "embeddings" in include:
        embeddings = _matrix(column("embeddings"))
    return EngineRecords(
        ids=column("ids"),
        texts=column("documents") if "documents" in include else None,
        metadatas=[decode_metadata(item) for item in column("metadatas")] if "metadatas" in include else None,
        embeddings=embeddings,
        uris=column("uris") if "uris" in include else None,
    )


def _matrix(rows: list[list[float] | None]) -> Vector:
    dimension = max((len(row) for row in rows if row), default=0)
    absent = [np.nan] * dimension
    held = [row if row and len(row) == dimension else absent for row in rows]
    return np.array(held, dtype=np.float32).reshape(len(rows), dimension)
