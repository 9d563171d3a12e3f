"""The storage proxy: documents with pre-computed embeddings in, metadata and vector queries out.

Deployable alone: `gunicorn 'wrapper:create_app()'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from schemas.settings import AccessSettings, WrapperSettings


def create_app(settings: WrapperSettings | None = None, access: AccessSettings | None = None) -> Flask:
    """Return the WSGI application (see `wrapper.app`). It is imported late because the engine's keeper must stay
    small."""
    from wrapper import app

    return app.create_app(settings, access)


def import_all() -> None:
    """Import now what `create_app` will import."""
    import wrapper.app  # noqa: F401
