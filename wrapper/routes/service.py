"""Routes about the service itself: health, metrics, its description and the pages that show it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml
from flask import Blueprint, Response, current_app, request, send_from_directory
from prometheus_client import CONTENT_TYPE_LATEST
from werkzeug.routing import MapAdapter

from schemas.errors import NotFoundError, UnavailableError
from schemas.release import release
from schemas.wire.storage.health import about_answer, health_answer, live_answer, ready_answer, short_health_answer
from schemas.wire.storage.recent import recent_answer
from wrapper.observing import metrics
from wrapper.service import Service
from wrapper.web import measured
from wrapper.web.bodies import JSON, json_response
from wrapper.web.callers import is_admin
from wrapper.web.error_statuses import STATUS
from wrapper.web.lanes import Lane
from wrapper.web.route_table import declare

blueprint = Blueprint("service", __name__)

DESCRIPTION = Path(__file__).resolve().parent.parent / "openapi.yaml"
RETRY_AFTER_SECONDS = "5"
ASSETS = {"swagger-ui.css": "css", "swagger-ui-bundle.js": "js", "swagger.svg": "images"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rag-wrapper API</title>
<link rel="icon" href="{root}docs/assets/swagger.svg">
<link rel="stylesheet" href="{root}docs/assets/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="{root}docs/assets/swagger-ui-bundle.js"></script>
<script>
SwaggerUIBundle({url: "{root}openapi.json", dom_id: "#api", deepLinking: true, validatorUrl: null});
</script>
</body>
</html>
"""


def service() -> Service:
    return cast(Service, current_app.extensions["rag.service"])


@blueprint.get("/health")
@declare(Lane.STATE)
def health() -> Response:
    seen = service().health()
    spell = health_answer if is_admin() else short_health_answer
    return _state_response(spell(seen, version=release()), works=seen.works)


@blueprint.get("/ready")
@declare(Lane.LIFE)
def ready() -> Response:
    works = service().is_ready()
    return _state_response(ready_answer(works), works=works)


@blueprint.get("/live")
@declare(Lane.LIFE)
def live() -> Response:
    return json_response(live_answer())


@blueprint.get("/metrics")
@declare(Lane.STATE)
def show_metrics() -> Response:
    return Response(metrics.exposition(service()), content_type=CONTENT_TYPE_LATEST)


@blueprint.get("/api/service/recent")
@declare(Lane.STATE)
def recent() -> Response:
    return json_response(recent_answer(measured.recent().minutes()))


@blueprint.get("/openapi.json")
@declare(Lane.READ)
def description() -> Response:
    # Made once: anybody may ask for it, and it takes tens of milliseconds.
    known: bytes | None = current_app.extensions.get("rag.description")
    if known is None:
        described = _description()
        served = current_app.url_map.bind("")
        paths = {path: item for path, item in described["paths"].items() if _is_served(served, path, item)}
        known = current_app.extensions["rag.description"] = json_response({**described, "paths": paths}).get_data()
    return Response(known, mimetype=JSON)


@blueprint.get("/docs")
@declare(Lane.READ)
def docs() -> Response:
    root = request.script_root + "/"
    return Response(PAGE.replace("{root}", root), mimetype="text/html")


@blueprint.get("/docs/assets/<file>")
@declare(Lane.READ)
def docs_asset(file: str) -> Response:
    if file not in ASSETS:
        raise NotFoundError(f"No such file: {file}", code="file_not_found", allowed=sorted(ASSETS))
    return send_from_directory(_assets() / ASSETS[file], file, max_age=86_400)


@blueprint.get("/")
@declare(Lane.READ)
def about() -> Response:
    return json_response(about_answer(release()))


def _state_response(answer: dict[str, Any], *, works: bool) -> Response:
    """Answer 200 while the service works, else 503 with the seconds after which it is worth asking again."""
    if works:
        return json_response(answer)
    response = json_response(answer, STATUS[UnavailableError])
    response.headers["Retry-After"] = RETRY_AFTER_SECONDS
    return response


@cache
def _description() -> dict[str, Any]:
    # libyaml's reader takes a tenth of the time, during which no other request would be answered.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return cast(dict[str, Any], yaml.load(DESCRIPTION.read_text(), Loader=loader))


def _is_served(routes: MapAdapter, path: str, item: dict[str, Any]) -> bool:
    """Return whether a described path is served: the storage proxy alone has only some of the routes."""
    method = next(name.upper() for name in item if name != "parameters")
    return routes.test(path.replace("{", "").replace("}", ""), method)


@cache
def _assets() -> Path:
    import flask_openapi3_swagger

    return Path(flask_openapi3_swagger.__file__).resolve().parent / "templates" / "swagger"
