"""The layers that answer the current request, and the owner on whose behalf."""

from __future__ import annotations

from typing import cast

from flask import current_app

from interfaces.layers import Layers
from schemas.access.callers import current
from schemas.access.owners import Asker


def layers() -> Layers:
    """Return the layers of the application that serves this request."""
    return cast("Layers", current_app.extensions["rag.layers"])


def asker() -> Asker:
    """Return to whom belongs what this request makes, and what it may see."""
    return current().asker


def chat_asker() -> Asker:
    """Return the same for conversations, in which documents may be quoted."""
    return current().chat_asker
