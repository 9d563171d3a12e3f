"""The metric by which the engine really searches a collection that another client made.

The engine's own word is no proof: collections from before 1.0 have the default in their configuration and the truth in
their metadata, and the truth in neither once a client has replaced the metadata. So the engine is asked for distances,
which are compared with computed ones.
"""

from __future__ import annotations

import numpy as np
import structlog

from schemas.records import METRICS
from wrapper.distances import exact_distances
from wrapper.engine.client import EngineClient
from wrapper.engine.failures import EngineBrokenError, EngineRefusedError
from wrapper.engine.records import EngineCollection

log = structlog.get_logger(__name__)

SAMPLE = 10
LENGTHS = (3.0, 7.0)
"""The lengths of the query vectors. There are two, because a single length may make two metrics agree."""
TOLERANCE = 1e-4


def find_metric(engine: EngineClient, collection: EngineCollection) -> str:
    """Return `cosine`, `l2` or `ip`: the metric that explains the engine's distances.

    When the distances do not tell, for example in an empty collection, it is the metric that the engine names.
    """
    try:
        fitting = _fitting(engine, collection)
    except (EngineBrokenError, EngineRefusedError) as error:
        log.warning("an index cannot be asked for its metric", collection=collection.name, reason=error.message)
        fitting = list(METRICS)
    if len(fitting) != 1:
        return collection.metric
    if fitting[0] != collection.metric:
        log.warning(
            "a collection is searched by another metric than it says",
            collection=collection.name,
            says=collection.metric,
            searched_by=fitting[0],
        )
    return fitting[0]


def _fitting(engine: EngineClient, collection: EngineCollection) -> list[str]:
    """Return the metrics that explain the engine's distances."""
    sample = engine.get(collection.id, limit=SAMPLE, include=("embeddings",)).embeddings
    assert sample is not None
    norms = np.linalg.norm(sample, axis=1)
    usable = np.isfinite(norms) & (norms > 0)
    if not usable.any():
        return list(METRICS)
    first = int(np.argmax(usable))
    asked = np.outer(LENGTHS, sample[first] / norms[first]).astype(np.float32)
    answers = engine.distances(collection.id, asked, SAMPLE)
    records = engine.get(collection.id, ids=sorted(set().union(*answers)), include=("embeddings",))
    assert records.embeddings is not None
    fitting = []
    for metric in METRICS:
        agrees = True
        for vector, answer in zip(asked, answers, strict=True):
            given = np.array([answer.get(each, np.nan) for each in records.ids])
            own = exact_distances(vector, records.embeddings, metric)
            scale = 1.0 + np.linalg.norm(vector) * np.linalg.norm(records.embeddings, axis=1)
            known = np.isfinite(given) & np.isfinite(own)
            agrees &= bool(np.all(np.abs(given - own)[known] <= (TOLERANCE * scale)[known]))
        if agrees:
            fitting.append(metric)
    return fitting
