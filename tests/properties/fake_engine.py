"""An engine in memory that behaves like Chroma: unique names, ids of its own, upserts that merge metadata key by key.

It holds what Chroma would hold, in the same encoding, and forgets nothing when the service that uses it dies.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from providers.contract_tests.model import distances
from schemas.records import Metadata, Vector
from wrapper.engine.encoding import LISTS_KEY, decode_metadata, encode_collection_metadata, encode_metadata, removable
from wrapper.engine.failures import EngineCollectionMissingError, EngineConflictError, EngineRefusedError
from wrapper.engine.records import EngineCollection, EngineRecords


@dataclass
class _Record:
    text: str | None
    metadata: dict[str, Any]
    embedding: np.ndarray
    uri: str | None = None


@dataclass
class _Held:
    name: str
    metric: str
    metadata: dict[str, Any] | None
    rebuild: str | None = None
    dimension: int | None = None
    search_width: int | None = None
    owner: str | None = None
    records: dict[str, _Record] = field(default_factory=dict)


class FakeEngine:
    """The calls of `EngineClient` that the applier, the planner and these tests use."""

    def __init__(self) -> None:
        self._collections: dict[str, _Held] = {}

    def heartbeat(self) -> None:
        pass

    def list_collections(self) -> list[EngineCollection]:
        return [self._described(engine_id) for engine_id in self._collections]

    def unused_collections(self) -> list[str]:
        return [engine_id for engine_id, held in self._collections.items() if held.dimension is None]

    def get_collection(self, name: str) -> EngineCollection | None:
        engine_id = self._id_of(name)
        return None if engine_id is None else self._described(engine_id)

    def get_collection_name(self, engine_id: str) -> str:
        return self._held(engine_id).name

    def create_collection(
        self,
        name: str,
        *,
        metric: str,
        metadata: Metadata | None = None,
        rebuild: str | None = None,
        search_width: int | None = None,
        owner: str | None = None,
    ) -> str:
        self._refuse_taken(name)
        engine_id = str(uuid.uuid4())
        encoded = encode_collection_metadata(metadata or {})
        self._collections[engine_id] = _Held(name, metric, encoded, rebuild, search_width=search_width, owner=owner)
        return engine_id

    def delete_collection(self, name: str) -> bool:
        engine_id = self._id_of(name)
        if engine_id is None:
            return False
        del self._collections[engine_id]
        return True

    def rename_collection(self, engine_id: str, new_name: str) -> None:
        if self._id_of(new_name) != engine_id:
            self._refuse_taken(new_name)
        self._held(engine_id).name = new_name

    def set_collection_metadata(self, engine_id: str, metadata: Metadata, *, owner: str | None = None) -> None:
        held = self._held(engine_id)
        held.metadata, held.rebuild, held.owner = encode_collection_metadata(metadata), None, owner

    def widen_search(self, name: str, search_width: int | None = None, *, engine_id: str | None = None) -> None:
        """Note the width of search. This engine always finds everything."""
        found = self._id_of(name)
        if found is not None and engine_id in (None, found) and search_width is not None:
            self._held(found).search_width = search_width

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
    ) -> None:
        held = self._held(engine_id)
        if held.dimension not in (None, embeddings.shape[1]):
            raise EngineRefusedError(f"The engine takes vectors of {held.dimension} numbers here")
        held.dimension = embeddings.shape[1]
        records = held.records
        assert len(set(ids)) == len(ids) == len(embeddings)
        stale = stale_keys or [()] * len(ids)
        given_uris = uris or [None] * len(ids)
        columns = (embeddings, texts or [None] * len(ids), metadatas or [{}] * len(ids), stale, given_uris)
        for each, vector, text, metadata, keys, uri in zip(ids, *columns, strict=True):
            if all_new and each in records:
                continue
            before = records[each].metadata if each in records else {}
            given = {**dict.fromkeys(removable(keys)), **(encode_metadata(metadata) or {})}
            after = {key: value for key, value in {**before, **given}.items() if value is not None}
            kept = records[each].text if each in records and text is None else text
            records[each] = _Record(kept, after, np.array(vector, dtype="<f4"), uri)

    def delete(self, engine_id: str, ids: Sequence[str]) -> None:
        records = self._held(engine_id).records
        for each in ids:
            records.pop(each, None)

    def count(self, engine_id: str) -> int:
        return len(self._held(engine_id).records)

    def query(self, engine_id: str, embeddings: Vector, n_results: int) -> list[list[str]]:
        held = self._held(engine_id)
        if not held.records:
            return [[] for _ in embeddings]
        ids = list(held.records)
        stored = np.stack([record.embedding for record in held.records.values()])
        orders = [np.argsort(distances(each, stored, held.metric), kind="stable") for each in embeddings]
        return [[ids[place] for place in order[:n_results]] for order in orders]

    def distances(self, engine_id: str, embeddings: Vector, n_results: int) -> list[dict[str, float]]:
        held = self._held(engine_id)
        found = self.query(engine_id, embeddings, n_results)
        return [
            {one: float(distances(each, held.records[one].embedding[None], held.metric)[0]) for one in ids}
            for each, ids in zip(embeddings, found, strict=True)
        ]

    def mark_lists(self, engine_id: str, ids: Sequence[str]) -> None:
        for each in ids:
            self._held(engine_id).records[each].metadata[LISTS_KEY] = True

    def get(
        self,
        engine_id: str,
        *,
        ids: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        include: Sequence[str] = (),
    ) -> EngineRecords:
        records = self._held(engine_id).records
        wanted = [each for each in records if ids is None or each in ids]
        records = {each: records[each] for each in wanted[offset : None if limit is None else offset + limit]}
        vectors = [record.embedding for record in records.values()]
        return EngineRecords(
            list(records),
            [record.text for record in records.values()],
            [decode_metadata(record.metadata) for record in records.values()],
            np.stack(vectors) if vectors else np.empty((0, 0), dtype="<f4"),
            [record.uri for record in records.values()],
        )

    def _described(self, engine_id: str) -> EngineCollection:
        held = self._held(engine_id)
        return EngineCollection(
            engine_id,
            held.name,
            decode_metadata(held.metadata),
            held.dimension,
            held.metric,
            rebuild=held.rebuild,
            search_width=held.search_width,
            owner=held.owner,
        )

    def _held(self, engine_id: str) -> _Held:
        if engine_id not in self._collections:
            raise EngineCollectionMissingError("The engine does not have this collection")
        return self._collections[engine_id]

    def _id_of(self, name: str) -> str | None:
        return next((engine_id for engine_id, held in self._collections.items() if held.name == name), None)

    def _refuse_taken(self, name: str) -> None:
        if self._id_of(name) is not None:
            raise EngineConflictError("The engine already has a collection of this name")


class Interposed:
    """An engine whose calls can be observed: `before` and `after` are called around each call with its name, and may
    raise."""

    def __init__(self, engine: Any, *, before: Any = None, after: Any = None) -> None:
        self.engine = engine
        self.before = before or (lambda name: None)
        self.after = after or (lambda name: None)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.engine, name)

        def interposed(*args: Any, **kwargs: Any) -> Any:
            self.before(name)
            answer = call(*args, **kwargs)
            self.after(name)
            return answer

        return interposed
