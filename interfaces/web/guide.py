"""Serves the guide, the pages of `docs/` as a web site, where the service was installed with it (`make docs`)."""

from __future__ import annotations

from pathlib import Path

from flask import Blueprint, Response, current_app, send_from_directory
from werkzeug.exceptions import NotFound

from schemas.errors import NotFoundError
from wrapper.web.lanes import Lane
from wrapper.web.route_table import declare

FOLDER = "rag.guide"
"""Where the application keeps the folder of the site, which need not be there."""
SITE = Path(__file__).resolve().parent.parent / "guide"
START = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

blueprint = Blueprint("guide", __name__)


@blueprint.get("/docs/guide")
@declare(Lane.READ)
def without_slash() -> Response:
    # Relative, so that it holds behind a proxy that puts a path in front.
    return Response(status=308, headers={"Location": "guide/"})


@blueprint.get("/docs/guide/", defaults={"file": ""})
@blueprint.get("/docs/guide/<path:file>")
@declare(Lane.READ)
def file(file: str) -> Response:
    """Answer a file of the site; a name that ends with a slash is that of a page.

    Raises NotFoundError when there is no such file, or no site at all.
    """
    folder: Path = current_app.extensions[FOLDER]
    if not (folder / START).is_file():
        raise NotFoundError(
            "This service was installed without its guide: `make docs` builds it before an installation",
            code="guide_not_built",
        )
    is_page = not file or file.endswith("/")
    try:
        response = send_from_directory(folder, f"{file}{START}" if is_page else file)
    except NotFound:
        raise NotFoundError(f"The guide has no such page: {file}", code="file_not_found") from None
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
