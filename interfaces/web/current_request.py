"""The layers that answer the current request."""

from __future__ import annotations

from typing import cast

from flask import current_app

from interfaces.layers import Layers


def layers() -> Layers:
    """Return the layers of the application that serves this request."""
    return cast("Layers", current_app.extensions["rag.layers"])
