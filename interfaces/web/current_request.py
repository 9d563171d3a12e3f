"""The layers that answer the current request, and the owner on whose behalf."""

from __future__ import annotations

from typing import cast

from flask import current_app

from interfaces.layers import Layers
from schemas.owners import OPEN


def layers() -> Layers:
    """Return the layers of the application that serves this request."""
    return cast("Layers", current_app.extensions["rag.layers"])


def owner() -> str:
    """Return the owner of what this request makes and may see. Callers have no names yet, so there is only one
    owner."""
    return OPEN
