"""What the routes above the storage proxy call."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from flask import current_app

if TYPE_CHECKING:
    from interfaces.compose import Layers


def layers() -> Layers:
    return cast("Layers", current_app.extensions["rag.layers"])
