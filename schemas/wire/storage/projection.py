"""The map of a collection on the wire: its points by column, so that 20,000 of them stay below 2 MB."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.storage.projection import MAX_POINTS, Projection
from schemas.where import EVERYTHING
from schemas.wire.body import Body
from schemas.wire.fields import Count, FilterText, Text

METHOD = "pca"
DECIMALS = 4
Answer = dict[str, Any]


class ProjectionArguments(Body):
    """The query string of a projection."""

    limit = Count(least=1, most=MAX_POINTS, capped=True, in_text=True, load_default=MAX_POINTS)
    field = Text(load_default=None)
    where = FilterText(load_default=EVERYTHING)


PROJECTION_ARGUMENTS = ProjectionArguments()


def projection_answer(found: Projection) -> Answer:
    places = np.round(found.places.astype(np.float64), DECIMALS)
    points: Answer = {"ids": found.ids, "x": places[:, 0].tolist(), "y": places[:, 1].tolist()}
    colouring = found.colouring
    if colouring is not None:
        points["value"] = colouring.of_points
    return {
        "collection": found.collection.name,
        "revision": found.collection.revision,
        "method": METHOD,
        "explained": [round(share, DECIMALS) for share in found.explained],
        "total": found.total,
        "sampled": len(found.ids) < found.total,
        "points": points,
        "field": None if colouring is None else colouring.field,
        "scale": None if colouring is None else colouring.scale,
        "categories": []
        if colouring is None
        else [{"value": value, "count": count} for value, count in colouring.categories],
    }
