"""Qdrant's description of a collection: its metric, its metadata, and the one vector that its points are searched
by."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from providers.outbound.answers import whole
from schemas.connections import CollectionInfo
from schemas.errors import CollectionNotFoundError, ConfigurationError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

METRIC_KEY = "rag:metric"
"""The key of a collection's metadata that names the metric until the first documents bring their vectors."""
VECTOR_NAME = "embedding"
METRICS = {"Cosine": "cosine", "Euclid": "l2", "Dot": "ip"}
DISTANCES = {metric: distance for distance, metric in METRICS.items()}


@dataclass(frozen=True, slots=True)
class DescribedCollection:
    """A collection as Qdrant describes it.

    `vector_name` is "" for the vector without a name, None when there is no vector or more than one. `is_ours` is True
    for a collection that was made here.
    """

    info: CollectionInfo
    vector_name: str | None
    is_ours: bool


def described(client: QdrantClient, name: str) -> DescribedCollection:
    """Return the collection of that name. Raises CollectionNotFoundError when there is none."""
    try:
        config = client.get_collection(name).config
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise CollectionNotFoundError(name) from None
    except ConfigurationError as error:
        if error.details.get("error_type") != "not_found":
            raise
        raise CollectionNotFoundError(name) from error
    metadata = dict(config.metadata or {})
    told = metadata.pop(METRIC_KEY, None)
    vectors = config.params.vectors or {}
    named = vectors if isinstance(vectors, dict) else {"": vectors}
    vector_name, params = next(iter(named.items())) if len(named) == 1 else (None, None)
    if params is None or params.multivector_config is not None:
        vector_name, params = None, None
    metric = METRICS.get(params.distance.value, params.distance.value.lower()) if params else str(told or "cosine")
    info = CollectionInfo(name, None, metadata, metric, None if params is None else whole(params.size))
    return DescribedCollection(info, vector_name, is_ours=told in DISTANCES)


def counted(client: QdrantClient, name: str) -> CollectionInfo:
    """Return the collection of that name with the number of its points. Raises CollectionNotFoundError when there is
    none."""
    return replace(described(client, name).info, count=whole(client.count(name, exact=True).count))


def with_vector(client: QdrantClient, found: DescribedCollection, dimension: int) -> DescribedCollection:
    """Give a collection that was made here without a vector one of that dimension, and return the collection.

    Raises UnsupportedError when its points cannot be searched, or when the server is too old to add a vector.
    """
    from qdrant_client import models

    if found.vector_name is not None or not found.is_ours:
        vector_name_of(found)
        return found
    distance = models.Distance(DISTANCES[found.info.metric])
    config = models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=dimension, distance=distance))
    try:
        client.create_vector_name(found.info.name, VECTOR_NAME, config)
    except ConfigurationError as error:
        if error.details.get("error_type") != "not_found":
            raise
        raise UnsupportedError(
            "The Qdrant server is too old to give a collection its vector after it was made", code="service_too_old"
        ) from error
    except (ValueError, InvalidInputError):
        # Somebody else's first documents came first: their dimension is the collection's.
        pass
    completed = described(client, found.info.name)
    vector_name_of(completed)
    return completed


def vector_name_of(found: DescribedCollection) -> str:
    """Return the name of the one vector. Raises UnsupportedError for none, for several, or for one without a score."""
    if found.vector_name is None or found.info.metric not in DISTANCES:
        raise UnsupportedError(
            f"Collection '{found.info.name}' has no vector, several, or one of a metric other than "
            f"{', '.join(DISTANCES)}",
            collection=found.info.name,
        )
    return found.vector_name
