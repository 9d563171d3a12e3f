"""What the engine holds: collections and records, read from Chroma's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from schemas.records import METRICS, Metadata, Vector
from wrapper.engine.encoding import OWNER_KEY, REBUILD_KEY, decode_metadata

Part = Literal["documents", "metadatas", "embeddings", "uris"]


@dataclass(frozen=True, slots=True)
class EngineCollection:
    """A collection in the engine.

    `metadata` is as the client gave it; `dimension` is None before the first record; `metric` is the one it was made
    with, as far as the engine says. `rebuild` is the name under which a rebuild made it, None for others;
    `search_width` is the index's `ef_search`, None where the engine does not say. `owner` is the catalogue for which it
    was made, None for what others or earlier releases made.
    """

    id: str
    name: str
    metadata: Metadata
    dimension: int | None
    metric: str
    rebuild: str | None = None
    search_width: int | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class EngineRecords:
    """Records column by column, in order of first insertion; a part that was not asked for is None.

    A text is None when another client stored a record without a document. `embeddings` is float32 (n, dimension), with
    NaN in the row of a record for which the engine has none.
    """

    ids: list[str]
    texts: list[str | None] | None = None
    metadatas: list[Metadata] | None = None
    embeddings: Vector | None = None
    uris: list[str | None] | None = None


def read_collection(item: dict[str, Any]) -> EngineCollection:
    """Return a collection as Chroma answers it."""
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
        owner=encoded.get(OWNER_KEY),
    )


def read_records(pages: list[dict[str, Any]], include: Sequence[Part]) -> EngineRecords:
    """Return the records of Chroma's answers, one after the other; `include` are the parts that were asked for."""

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
