"""The console as a Flask application of its own in front of the service's, which it asks as any client would."""

from __future__ import annotations

import gzip
import hashlib
import re
import time
import uuid
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import structlog
from flask import Flask, Response, current_app, g, make_response, redirect, render_template, request, url_for
from jinja2.runtime import Macro
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge
from werkzeug.routing import RequestRedirect
from werkzeug.wrappers import Response as AnyResponse

from interfaces.console import forms, shown
from interfaces.console.current_page import PAGES, PUBLIC, is_signed_in, may
from interfaces.console.front_doors import FAVICON, SCRIPT_NAME, cookie_name, front_doors, session_id_of
from interfaces.console.pages import ask, collection, connections, documents, quality, signing_in
from interfaces.console.pages import service as service_pages
from interfaces.console.sessions import SESSION_SECONDS, Session, Sessions
from interfaces.console.wire import ReaderLeftError, RefusedError, Wire, snippets_of
from schemas import errors
from schemas.shared_database import Database
from wrapper.web.bodies import client_watch, discard_body, leave_body
from wrapper.web.callers import TOGETHER
from wrapper.web.error_statuses import status_of
from wrapper.web.hosts_and_origins import AllowedHostsAndOrigins

log = structlog.get_logger("console.pages")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # of Bootstrap's styles
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
"""What pages may load and do. Nothing of it comes from elsewhere, and nothing within a page is executed."""
MAX_FORM_BYTES, MAX_STRANGERS_FORM_BYTES = 4 << 20, 64 << 10
"""The largest forms of those who have signed in, and of everybody else."""
READING = ("GET", "HEAD", "OPTIONS")
FILES = ("asset", "mark")
"""The endpoints of what pages load."""
MARK = "mark.svg"
OWN = Path(__file__).parent / "static"
BOOTSTRAP = "bootstrap.css"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
KEPT_SECONDS = 365 * 86_400
VERSION_CHARACTERS = 12
SMALLEST_COMPRESSED = 1_000

_OF_DARK_MODE = re.compile(r"\[data-bs-theme=dark\]([^{},]*)\{([^{}]*)\}")


def mount_console(service: Flask, database: Database) -> None:
    """Put the console in front of the service's application, whose answers its pages are made of."""
    app = Flask("interfaces.console", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_BODY_BYTES"] = MAX_FORM_BYTES
    app.config["MAX_FORM_MEMORY_SIZE"] = MAX_FORM_BYTES
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.extensions["console.service"] = service.wsgi_app
    app.extensions["console.hosts_and_origins"] = service.extensions["rag.hosts_and_origins"]
    app.extensions["console.sessions"] = sessions = Sessions(database)
    app.before_request(_begin)
    app.after_request(_end)
    app.register_error_handler(RefusedError, _refused)
    # Nobody waits for this answer: it is for the log alone.
    app.register_error_handler(ReaderLeftError, lambda _: Response(status=status_of(errors.ClientGoneError)))
    app.register_error_handler(errors.RagError, _failed)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unexpected)
    shown.init_app(app)
    assets = Assets()
    app.jinja_env.globals |= {
        "pages": PAGES,
        "may": may,
        "form_token": _form_token,
        "requests_made": _requests_made,
        "asset": lambda name: url_for("asset", version=assets.version, name=name),
    }
    macros = app.jinja_env.get_template("macros.html").module
    app.jinja_env.globals |= {name: macro for name, macro in vars(macros).items() if isinstance(macro, Macro)}
    app.add_url_rule("/static/<version>/<name>", "asset", lambda version, name: assets.response(name))
    app.add_url_rule(FAVICON, "mark", lambda: assets.response(MARK))
    for module in (signing_in, ask, collection, connections, documents, service_pages, quality):
        app.register_blueprint(module.blueprint)
    service.wsgi_app = front_doors(service.wsgi_app, app, sessions)  # type: ignore[assignment]


def _begin() -> AnyResponse | None:
    g.began = time.perf_counter()
    g.request_id = uuid.uuid4().hex
    allowed: AllowedHostsAndOrigins = current_app.extensions["console.hosts_and_origins"]
    allowed.check(request)
    if request.endpoint in FILES:
        return None
    if request.method not in (*READING, "POST") and request.routing_exception is not None:
        raise request.routing_exception  # no page takes these, whoever asks
    sessions: Sessions = current_app.extensions["console.sessions"]
    session_id = session_id_of(request.environ)
    g.session = session = sessions.find(session_id)
    g.is_new = session_id is None
    g.wire = Wire(
        current_app.extensions["console.service"],
        {**request.environ, "HTTP_X_REQUEST_ID": g.request_id},
        session.key,
        client_watch(),
    )
    if request.endpoint in PUBLIC or session.key is None:
        request.max_content_length = request.max_form_memory_size = MAX_STRANGERS_FORM_BYTES
    if request.endpoint not in PUBLIC and not is_signed_in():
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and g.is_new:
            # A link of another site comes without the cookie; the same page asked from here comes with it.
            return make_response(render_template("again.html"))
        return redirect(url_for("signing_in.sign_in", next=request.full_path.rstrip("?")), 303)
    if request.method not in READING:
        forms.check_token(session)
    return None


def _end(response: Response) -> Response:
    try:
        discard_body()
    except RequestEntityTooLarge:
        leave_body()
    if request.endpoint not in FILES:
        response.headers["Cache-Control"] = "no-store"
        session: Session | None = g.get("session")
        if session is not None and g.get("is_new"):
            response.set_cookie(
                cookie_name(request.environ),
                session.id,
                max_age=round(SESSION_SECONDS),
                path="/",
                secure=request.is_secure,
                httponly=True,
                samesite="Strict",
            )
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["X-Request-ID"] = g.request_id
    if TOGETHER in request.environ and not response.is_streamed:
        # It is made, and its reader may ask for the next page before the server is done with this one.
        request.environ[TOGETHER].end()
    seconds = time.perf_counter() - g.began
    if request.endpoint not in FILES:
        log.info(
            "page",
            method=request.method,
            page=request.endpoint or "unknown",
            status=response.status_code,
            latency_ms=round(seconds * 1e3, 2),
            request_id=g.request_id,
        )
    return response


def _requests_made() -> list[Any]:
    """Return what this page has asked of the service, each request with its snippets."""
    session: Session | None = g.get("session")
    base_url = request.host_url.rstrip("/") + request.environ.get(SCRIPT_NAME, "")
    needs_key = session is not None and session.key is not None
    found = []
    for asked in g.wire.made if "wire" in g else ():
        with suppress(RecursionError):  # of a filter that was refused for its depth
            found.append((asked, snippets_of(asked, base_url, needs_key=needs_key)))
    return found


def _form_token() -> str:
    """Return what forms of this page send along. One that failed before its session was known has none."""
    session: Session | None = g.get("session")
    return session.form_token if session else ""


def _refused(error: RefusedError) -> AnyResponse:
    if error.status == status_of(errors.UnauthorizedError):
        if request.endpoint in PUBLIC:
            return _page_of(error.status, "This key does not count", error.message)
        # The key of the session has ended meanwhile.
        return redirect(url_for("signing_in.sign_in", next=request.full_path.rstrip("?"), ended=error.code), 303)
    return _page_of(error.status, None, error.message, error.retry_after)


def _failed(error: errors.RagError) -> AnyResponse:
    return _page_of(status_of(type(error)), None, error.message)


def _http_error(error: HTTPException) -> AnyResponse:
    if isinstance(error, NotFound):
        return _failed(errors.NotFoundError("There is no such page"))
    if error.code is None or isinstance(error, RequestRedirect):
        return error.get_response()
    sentence = str(error.description)
    if isinstance(error, RequestEntityTooLarge) and request.max_content_length is not None:
        sentence = f"What a page sends may have {request.max_content_length >> 10:,} KB, files included."
    page = _page_of(error.code, error.name, sentence)
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        page.headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return page


def _unexpected(error: Exception) -> AnyResponse:
    log.error("unexpected failure of a page", exc_info=error)
    sentence = f"The log tells more, under {g.get('request_id', '')}."
    return _page_of(status_of(errors.RagError), "This page could not be made", sentence)


def _page_of(status: int, title: str | None, sentence: str, retry_after: str | None = None) -> AnyResponse:
    title = title or _TITLES.get(status, "The service has refused this")
    page = render_template("error.html", title=title, sentence=sentence, retry_after=retry_after)
    response = make_response(page, status)
    if retry_after is not None or status == status_of(errors.BusyError):
        response.headers["Retry-After"] = retry_after or "5"
    return response


_TITLES = {
    status_of(errors.ScopeMissingError): "Your key does not allow this",
    status_of(errors.NotFoundError): "There is nothing here",
    status_of(errors.ConflictError): "This cannot be done now",
    status_of(errors.TooManyRequestsError): "Too many requests for your key",
    status_of(errors.UnavailableError): "The service cannot do this now",
    status_of(errors.DiskFloorError): "There is no room for this",
}


class Assets:
    """The files that pages load, by name: Bootstrap's styles, and the console's own styles and scripts. All are read
    once, and compressed where the browser takes that. The version of all of them is part of their paths, so browsers
    keep them: not of the name of each, because scripts import each other by relative names."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in sorted(OWN.iterdir()) if path.suffix in TYPES}
        self._files[BOOTSTRAP] = _bootstrap().encode()
        parts = (name.encode() + b"\0" + content for name, content in self._files.items())
        self.version = hashlib.sha256(b"".join(parts)).hexdigest()[:VERSION_CHARACTERS]
        self._compressed = cache(lambda name: gzip.compress(self._files[name], mtime=0))

    def response(self, name: str) -> Response:
        """Return a file. Raises NotFoundError when there is none of that name."""
        content = self._files.get(name)
        if content is None:
            raise errors.NotFoundError(f"No such file: {name}", code="file_not_found", allowed=sorted(self._files))
        compresses = len(content) >= SMALLEST_COMPRESSED and "gzip" in request.accept_encodings
        response = Response(self._compressed(name) if compresses else content, mimetype=TYPES[Path(name).suffix])
        if compresses:
            response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = f"public, max-age={KEPT_SECONDS}, immutable"
        return response


def _bootstrap() -> str:
    """Return Bootstrap's styles, dark where the reader's system is: as they are, that takes a script."""
    # Found without its code, which would be imported in each worker.
    spec = find_spec("flask_bootstrap")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("The package bootstrap-flask is not installed")
    styles = Path(spec.origin).with_name("static").joinpath("bootstrap5", "css", "bootstrap.min.css").read_text()
    return _OF_DARK_MODE.sub(r"@media (prefers-color-scheme:dark){:root\1{\2}}", styles)
