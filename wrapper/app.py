"""The Flask application of the storage proxy."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterable

import structlog
from flask import Flask, Response, current_app, g, request
from flask_cors import CORS

from schemas.access.credentials_in_text import without_credentials
from schemas.host_patterns import OriginPattern
from schemas.settings import AccessSettings, WrapperSettings, read_access_settings, read_wrapper_settings
from wrapper.access.authentication import Authentication
from wrapper.access.configured_key import settings_cleaner
from wrapper.access.daily_use import DailyUse
from wrapper.access.limits import FILE_NAME, RequestLimits
from wrapper.access.room_to_revoke import RoomToRevoke
from wrapper.access.shared_counts import SharedCounts
from wrapper.access.stored_keys import StoredKeys
from wrapper.audit import noted
from wrapper.observing import logs, metrics
from wrapper.observing.recent import RecentRequests
from wrapper.routes import access as access_routes
from wrapper.routes import alias, audit_entries, backups, change, collection, database, document, index, query
from wrapper.routes import service as service_routes
from wrapper.service import LOOK_SECONDS, Service, open_service
from wrapper.serving.freed_memory import GIVE_BACK_SECONDS, give_back
from wrapper.start_checks import catalogue_path
from wrapper.web import audited, callers, error_statuses, measured, request_parts, responses, route_table
from wrapper.web.bodies import (
    OrjsonProvider,
    check_media_type,
    check_request_line,
    discard_body,
    finish_parsing,
)
from wrapper.web.client_addresses import TrustedProxies
from wrapper.web.compression import compress
from wrapper.web.document_paths import DocumentId
from wrapper.web.hosts_and_origins import AllowedHostsAndOrigins
from wrapper.web.lanes import Lanes
from wrapper.web.limit_headers import POLICY, STANDING, add_limit_headers
from wrapper.web.parsing_budget import arriving_budget_of, budget_of
from wrapper.web.route_table import RouteTable

log = structlog.get_logger(__name__)

READING = ("GET", "HEAD", "OPTIONS")

KEY_USE_SECONDS = 5.0
"""The interval at which a process writes down which keys were used."""

EXPOSED_HEADERS = [
    "ETag",
    "Retry-After",
    "WWW-Authenticate",
    "X-Document-Count",
    "X-Request-ID",
    responses.REPLAYED,
    POLICY,
    STANDING,
]


def create_app(settings: WrapperSettings | None = None, access: AccessSettings | None = None) -> Flask:
    """Return the storage proxy as a WSGI application, with its catalogue open and its engine started.

    Raises ConfigurationError when a setting is wrong or another service owns the data directory.
    """
    settings = settings or read_wrapper_settings()
    access = access or read_access_settings()
    logs.configure(settings.log_level, settings.log_format)
    app = Flask("wrapper", static_folder=None)
    app.json = OrjsonProvider(app)
    # As a line like the others, and cleaned like them.
    app.log_exception = lambda exc_info: log.error("unexpected failure", exc_info=exc_info)  # type: ignore[method-assign]
    app.config["MAX_BODY_BYTES"] = settings.max_body_mb << 20
    app.config["QUERY_SECONDS"] = settings.query_seconds
    app.config["SERVICE_SECONDS"] = settings.service_seconds
    app.config["EXPORT_SECONDS"] = settings.export_seconds
    app.config["ALLOW_RESET"] = settings.allow_reset
    app.url_map.merge_slashes = False
    app.url_map.strict_slashes = False  # a slash at the end changes nothing, but in ids and the words in their place
    app.url_map.converters["document_id"] = DocumentId
    app.extensions["rag.hosts_and_origins"] = AllowedHostsAndOrigins(settings)
    app.extensions["rag.trusted_proxies"] = TrustedProxies.parse(access.trusted_proxies)
    app.extensions["rag.lanes"] = Lanes(settings)
    app.extensions["rag.arriving"] = arriving_budget_of(settings.max_body_mb << 20)
    app.extensions["rag.parsing"] = budget_of(settings.max_body_mb << 20)
    app.extensions["rag.routes"] = RouteTable()
    route_table.register(
        app,
        alias,
        audit_entries,
        backups,
        change,
        collection,
        database,
        document,
        index,
        query,
        service_routes,
        access_routes,
    )
    app.extensions["rag.service"] = service = open_service(settings, access)
    app.extensions["rag.access"] = open_access(service, access)
    app.extensions["rag.clean"] = clean = settings_cleaner(access)
    if clean is not without_credentials:  # every line is cleaned of what that cuts out already
        service.on_close(logs.clean_lines(clean))
    app.extensions["rag.limits"] = limits = RequestLimits(SharedCounts(settings.data_dir / FILE_NAME))
    app.extensions["rag.daily_use"] = DailyUse(service.catalog)
    service.on_close(limits.close)
    recent = RecentRequests(metrics.shared_folder(), places=2 * settings.workers)
    app.extensions[measured.RECENT] = recent
    service.on_close(recent.close)
    lanes: Lanes = app.extensions["rag.lanes"]
    metrics.begin(lanes=[name for name, *_ in lanes.held()], audit_codes=error_statuses.UNRECORDED)
    service.looks.add("lanes", lambda: _tell_lanes(lanes), None, every_seconds=LOOK_SECONDS, limit_seconds=LOOK_SECONDS)
    service.looks.add(
        "snapshots",
        lambda: metrics.OLDEST_SNAPSHOT_SECONDS.set(service.catalog.freely.oldest_snapshot_seconds()),
        None,
        every_seconds=LOOK_SECONDS,
        limit_seconds=LOOK_SECONDS,
    )
    service.looks.add("memory", give_back, None, every_seconds=GIVE_BACK_SECONDS, limit_seconds=LOOK_SECONDS)
    error_statuses.init_app(app)
    app.before_request(_begin)
    app.after_request(_end)
    app.teardown_request(_leave)
    request_parts.init_app(app)
    responses.init_app(app)
    if settings.cors_origins:
        origins = [OriginPattern.parse(each).regular_expression() for each in settings.cors_origins]
        CORS(app, origins=origins, expose_headers=EXPOSED_HEADERS)
    return app


def _tell_lanes(lanes: Lanes) -> None:
    for name, running, waiting in lanes.held():
        metrics.LANE_RUNNING.labels(name).set(running)
        metrics.LANE_WAITING.labels(name).set(waiting)


def open_access(service: Service, access: AccessSettings) -> Authentication:
    """Return what tells who asks, and have it note in the background which keys are used."""
    room = RoomToRevoke(catalogue_path(service.settings))
    stored = StoredKeys(service.catalog, give_room=room.give)
    authentication = Authentication(access, service.settings.host, stored, service_id=service.id)
    service.looks.add(
        "key use", authentication.note_uses, None, every_seconds=KEY_USE_SECONDS, limit_seconds=KEY_USE_SECONDS
    )
    service.on_close(authentication.note_uses)
    service.looks.add("room to revoke", room.keep, None, every_seconds=KEY_USE_SECONDS, limit_seconds=LOOK_SECONDS)
    return authentication


def _begin() -> None:
    g.began = time.perf_counter()
    g.request_id = _request_id()
    measured.begin()
    audited.begin(g.request_id)
    check_request_line()
    route = request_parts.declared()
    current_app.extensions["rag.hosts_and_origins"].check(request)
    callers.admit()
    if route is not None and request.method not in READING:
        check_media_type(route.media_types)
    if route is not None and request.method != "OPTIONS":
        request_parts.enter_lane(route.lane)
        audited.check()


def _end(response: Response) -> Response:
    discard_body()
    is_changing = audited.is_changing()
    if not is_changing:
        audited.withhold(response)
    audited.end(response)
    compress(request, response)
    is_computed = response.is_streamed and not response.direct_passthrough  # else it is a file, which needs no place
    callers.keep_acting(response, as_whole=is_changing)
    if is_computed and "leave" in g:
        # An answer that is still being computed keeps its place until all of it is sent or the client is gone.
        leave = g.pop("leave")
        response.response = _kept(response.iter_encoded(), leave)
        response.call_on_close(leave)  # because its first line may never be asked for
    request_id: str = g.request_id
    response.headers["X-Request-ID"] = request_id
    admission = callers.admission()
    if admission is not None:
        add_limit_headers(response, admission)
    measured.end(response)
    return response


def _leave(_: BaseException | None) -> None:
    noted.end()
    measured.leave()
    finish_parsing()
    request_parts.end_limit()
    callers.dismiss()
    if "leave" in g:
        g.pop("leave")()


def _kept(content: Iterable[bytes], leave: Callable[[], None]) -> Generator[bytes]:
    try:
        yield from content
    finally:
        leave()


def _request_id() -> str:
    given = request.headers.get("X-Request-ID", "")
    is_plain = given.isascii() and given.isprintable() and 1 <= len(given) <= 128
    return given if is_plain and measured.cleaner()(given) == given else secrets.token_hex(16)
