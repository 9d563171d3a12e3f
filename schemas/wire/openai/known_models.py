"""`/v1/models` as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

UNKNOWN_TIME = 0
"""The time at which a model was made: nobody knows, and clients want a number."""


def known_model(model: str, owner: str) -> Json:
    return {"id": model, "object": "model", "created": UNKNOWN_TIME, "owned_by": owner}


def known_models(models: Iterable[tuple[str, str]]) -> Json:
    return {"object": "list", "data": [known_model(*each) for each in models]}
