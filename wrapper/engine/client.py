"""The engine as the indexer, the planner and the doctor see it: collections of records, found by vector.

The client speaks Chroma's HTTP API itself: chromadb's own client costs several times the time per call and half a
second of import. It works with the supervised child and with any other Chroma server of 1.x.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import numpy as np

from schemas.errors import InvalidInputError
from schemas.records import Metadata, Vector
from wrapper.engine.encoding import (
    LISTS_KEY,
    OWNER_KEY,
    REBUILD_KEY,
    encode_collection_metadata,
    encode_metadata,
    removable,
    reserved_metadata,
    size_of,
)
from wrapper.engine.failures import EngineBrokenError, EngineCollectionMissingError, EngineConflictError
from wrapper.engine.records import EngineCollection, EngineRecords, Part, read_collection, read_records
from wrapper.engine.server_access import STOCK, EngineAccess
from wrapper.engine.transport import Transport, encode_body

# Measured: docs/engine.md, "Index parameters".
SEARCH_WIDTHS = (400, 800, 1600, 3200, 6400)
"""The width of search of a new index, and those that its recall may require."""
HNSW = {"max_neighbors": 16, "ef_construction": 100, "ef_search": SEARCH_WIDTHS[0], "sync_threshold": 1000}
MAX_BODY_BYTES = 32 * 1024 * 1024  # a stock Chroma server takes 40 MB
IDS_PER_CALL = 5000  # Chroma fails beyond 32,766 SQL variables
RECORDS_PER_CALL = 1000
VALUES_PER_CALL = 50_000
"""The most fields and list elements in the records of one call: Chroma takes two to five seconds to write this many."""
MOST_STALE_KEYS = 20_000
"""The most keys of one record that are sent as null: Chroma fails beyond 32,766 SQL variables."""
NO_METADATA = "rag:none"


class EngineClient:
    """A client of one engine, for any number of threads. `address()` is called before each request, so a restarted
    engine on another port is found. Metadata goes in and comes out as clients gave it; this class encodes it.

    Every method takes `timeout_seconds` per request. It raises EngineUnavailableError when there is no answer,
    EngineBrokenError for an internal error, and EngineRefusedError when Chroma calls the request wrong; a method with
    an `engine_id` raises EngineCollectionMissingError when that collection is gone. All of them may be repeated safely.
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
        """Return when the engine answers for its database, else raise UnavailableError. Chroma's own heartbeat is open
        to everybody and says nothing about the token."""
        self.check_database(timeout_seconds=timeout_seconds)

    def check_database(self, *, timeout_seconds: float = 10.0) -> None:
        """Raise EngineNamespaceMissingError when the engine does not have the tenant or the database."""
        self._transport.call("GET", self._access.database_path, timeout_seconds=timeout_seconds)

    def version(self, *, timeout_seconds: float = 10.0) -> str:
        """Return what the server says of its release."""
        return str(self._transport.call("GET", "/api/v2/version", timeout_seconds=timeout_seconds))

    def make_database(self, *, timeout_seconds: float = 10.0) -> None:
        """Make the tenant and the database where they are missing. Another service may do so at the same time."""
        for path, name in (
            ("/api/v2/tenants", self._access.tenant),
            (f"{self._access.tenant_path}/databases", self._access.database),
        ):
            with suppress(EngineConflictError):
                self._transport.call("POST", path, {"name": name}, timeout_seconds=timeout_seconds, repeatable=False)

    def list_collections(self, *, timeout_seconds: float = 30.0) -> list[EngineCollection]:
        found = self._transport.call("GET", self._access.collections_path, timeout_seconds=timeout_seconds)
        return [read_collection(item) for item in found]

    def unused_collections(self, *, timeout_seconds: float = 30.0) -> list[str]:
        """Return the engine ids of collections that never had a record, without those that `widen_search` would change.
        Chroma knows a collection's dimension before it takes the first record."""
        found = self.list_collections(timeout_seconds=timeout_seconds)
        return [each.id for each in found if each.dimension is None and not _is_narrow(each, self._width(None))]

    def get_collection(self, name: str, *, timeout_seconds: float = 10.0) -> EngineCollection | None:
        try:
            return read_collection(self._transport.call("GET", self._named(name), timeout_seconds=timeout_seconds))
        except EngineCollectionMissingError:
            return None

    def create_collection(
        self,
        name: str,
        *,
        metric: str,
        metadata: Metadata | None = None,
        rebuild: str | None = None,
        search_width: int | None = None,
        owner: str | None = None,
        timeout_seconds: float = 10.0,
    ) -> str:
        """Make a collection and return its engine id. `metric` is `cosine`, `l2` or `ip`; `rebuild` and `owner` are
        kept with the collection until its metadata is set; `search_width` is another width of search than that of new
        ones. Raises EngineConflictError when the name exists."""
        hnsw: dict[str, Any] = {"space": metric, **self._hnsw}
        if search_width is not None:
            hnsw["ef_search"] = self._width(search_width)
        body: dict[str, Any] = {"name": name, "configuration": {"hnsw": hnsw}}
        encoded = encode_collection_metadata(metadata or {}) or {}
        if rebuild is not None:
            encoded[REBUILD_KEY] = rebuild
        if owner is not None:
            encoded[OWNER_KEY] = owner
        if encoded:
            body["metadata"] = encoded
        path = self._access.collections_path
        created = self._transport.call("POST", path, body, timeout_seconds=timeout_seconds, repeatable=False)
        return str(created["id"])

    def delete_collection(self, name: str, *, timeout_seconds: float = 60.0) -> bool:
        """Delete a collection and return whether it existed.

        Chroma 1.5.9 keeps the lists in the metadata of a collection that it deletes, and gives them to the documents
        that get the same row numbers later, in any collection. So documents with lists are deleted first, unless that
        was tried on this collection and ended the engine: the rest then goes at the engine's next start.
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
        """Rename a collection. Raises EngineConflictError when the name is taken."""
        self._transport.call("PUT", self._named(engine_id), {"new_name": new_name}, timeout_seconds=timeout_seconds)

    def set_collection_metadata(
        self, engine_id: str, metadata: Metadata, *, owner: str | None = None, timeout_seconds: float = 10.0
    ) -> None:
        """Replace all metadata, the mark of the `owner` with it. The engine's own keys (`hnsw:*`), which configure
        older collections, are kept when `metadata` has them. Chroma refuses an empty object, but leaves nothing of one
        that holds only nulls."""
        encoded = {**reserved_metadata(metadata), **(encode_collection_metadata(metadata) or {NO_METADATA: None})}
        if owner is not None:
            encoded[OWNER_KEY] = owner
        self._transport.call("PUT", self._named(engine_id), {"new_metadata": encoded}, timeout_seconds=timeout_seconds)

    def widen_search(
        self, name: str, search_width: int | None = None, *, engine_id: str | None = None, timeout_seconds: float = 10.0
    ) -> None:
        """Widen the search of an index, at least to that of new ones, from the next time the engine loads it. Where an
        `engine_id` is given and another collection has the name, nothing is done."""
        found = self.get_collection(name, timeout_seconds=timeout_seconds)
        if found is None or engine_id not in (None, found.id) or not _is_narrow(found, self._width(search_width)):
            return
        body = {"new_configuration": {"hnsw": {"ef_search": self._width(search_width)}}}
        self._transport.call("PUT", self._named(found.id), body, timeout_seconds=timeout_seconds)

    def upsert(
        self,
        engine_id: str,
        ids: Sequence[str],
        embeddings: Vector,
        texts: Sequence[str | None] = (),
        metadatas: Sequence[Metadata] = (),
        *,
        uris: Sequence[str | None] = (),
        stale_keys: Sequence[Collection[str]] | None = None,
        all_new: bool = False,
        timeout_seconds: float = 60.0,
    ) -> None:
        """Store records, replacing those of the same id. `ids` are unique; embeddings are float32 (n, dimension).
        Records have no texts, no metadata or no addresses when none are given; one that had some keeps them.

        Chroma's upsert merges metadata, so `stale_keys` gives for each record the metadata keys that its earlier
        versions had (empty for a new one; keys still in use may be among them). Large batches go in several calls: when
        one fails, those before it are stored. Raises InvalidInputError for repeated ids and for embeddings that are not
        finite.

        `all_new` promises that the engine has none of the ids, which makes the write a tenth cheaper. When it has some
        nevertheless, it reports no error and keeps their old records.
        """
        if len(set(ids)) != len(ids):
            raise InvalidInputError("ids must be unique within one call", field="ids")
        _check_finite(embeddings)
        held = [encode_metadata(metadata) for metadata in metadatas]
        if stale_keys is not None:
            # A record with too many keys to take back one by one is deleted and written again.
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
                list(uris[part]),
                timeout_seconds,
            )

    def _store(
        self,
        path: str,
        ids: list[str],
        vectors: list[Any],
        texts: list[str | None],
        metadatas: list[Metadata | None],
        uris: list[str | None],
        timeout_seconds: float,
    ) -> None:
        is_much = len(ids) > 1 and sum(map(size_of, metadatas)) > VALUES_PER_CALL
        body = None
        if not is_much:
            records = {"ids": ids, "embeddings": vectors}
            parts = {"documents": texts, "metadatas": metadatas, "uris": uris if any(uris) else ()}
            body = encode_body(records | {name: values for name, values in parts.items() if values})
        if len(ids) > 1 and (body is None or len(body) > MAX_BODY_BYTES):
            half = len(ids) // 2
            for part in (slice(0, half), slice(half, None)):
                self._store(path, ids[part], vectors[part], texts[part], metadatas[part], uris[part], timeout_seconds)
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
        """Return at most `n_results` ids for each row of `embeddings` (n, dimension), nearest first. Raises
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
        """Do the same as `query`, and return the engine's own distance with each id."""
        body = {
            "query_embeddings": list(np.ascontiguousarray(embeddings, dtype="<f4")),
            "n_results": n_results,
            "include": ["distances"],
        }
        answer = self._transport.call("POST", f"{self._named(engine_id)}/query", body, timeout_seconds=timeout_seconds)
        rows = zip(answer["ids"], answer["distances"], strict=True)
        return [dict(zip(ids, distances, strict=True)) for ids, distances in rows]

    def mark_lists(self, engine_id: str, ids: Sequence[str], *, timeout_seconds: float = 60.0) -> None:
        """Mark another client's records that have lists, as `upsert` marks ours: see `delete_collection`."""
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
        """Return records by id (unknown ones are left out), a page, or all; without `ids` exact on a quiet collection.

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
        return read_records(pages, include)

    def _width(self, wanted: int | None) -> int:
        return max(wanted or 0, self._hnsw.get("ef_search", 0))

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


def _is_narrow(collection: EngineCollection, width: int) -> bool:
    return collection.search_width is not None and collection.search_width < width


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
