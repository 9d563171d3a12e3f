"""The doors of the service, before any route: pages of the console, and everything else.

A browser that asks for `/` is shown to the console. Requests that scripts of the console make of the service's routes
come with its cookie instead of a key; they count only with the token of the session's pages beside it, which no other
site can know.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header, parse_cookie
from werkzeug.utils import redirect
from werkzeug.wsgi import ClosingIterator

from interfaces.console.sessions import Session, Sessions
from schemas.errors import RagError
from wrapper.access.limits import CountedTogether
from wrapper.access.presented_keys import KEY_HEADERS
from wrapper.web.callers import TOGETHER

CONSOLE = "/console"
FAVICON = "/favicon.ico"
"""Where browsers look for the mark of pages that name none."""
FORM_TOKEN = "HTTP_X_CONSOLE_TOKEN"
CREDENTIALS = ("HTTP_AUTHORIZATION", *(f"HTTP_{name.upper().replace('-', '_')}" for name in KEY_HEADERS))
SCRIPT_NAME = "rag.script_name"

Environ = dict[str, Any]
WsgiApp = Callable[[Environ, Any], Iterable[bytes]]


def front_doors(service: WsgiApp, console: WsgiApp, sessions: Sessions) -> WsgiApp:
    """Return the service's WSGI application, with the console beside it."""

    def answer(environ: Environ, start_response: Any) -> Iterable[bytes]:
        path, script_name = environ.get("PATH_INFO", ""), environ.get("SCRIPT_NAME", "")
        if path == CONSOLE or path.startswith(f"{CONSOLE}/"):
            inside = {SCRIPT_NAME: script_name, "SCRIPT_NAME": script_name + CONSOLE, "PATH_INFO": path[len(CONSOLE) :]}
            return _page(console, {**environ, **inside}, start_response)
        if path == FAVICON:
            return console({**environ, "SCRIPT_NAME": script_name + CONSOLE}, start_response)
        if path == "/" and wants_page(environ):
            response = redirect(f"{script_name}{CONSOLE}/", 303)
            response.headers["Vary"] = "Accept"
            return response(environ, start_response)
        if FORM_TOKEN in environ and not any(name in environ for name in CREDENTIALS):
            _show_key(environ, sessions)
        return service(environ, start_response)

    return answer


def _page(console: WsgiApp, environ: Environ, start_response: Any) -> Iterable[bytes]:
    """Answer with a page, whose requests count together until it is made, or a file until all of it is sent."""
    environ[TOGETHER] = together = CountedTogether()
    with ExitStack() as stack:
        stack.callback(together.end)
        content = console(environ, start_response)
        return ClosingIterator(content, stack.pop_all().close)


def _show_key(environ: Environ, sessions: Sessions) -> None:
    session_id = session_id_of(environ)
    if session_id is None or not is_form_token(Session(session_id), environ[FORM_TOKEN]):
        return
    with suppress(RagError):  # without the catalogue nobody can be known
        key = sessions.find(session_id).key
        if key is not None:
            environ["HTTP_AUTHORIZATION"] = f"Bearer {key}"


def wants_page(environ: Mapping[str, Any]) -> bool:
    """Return whether a request is a browser's for a page: one that takes HTML rather than JSON, and shows no key."""
    if environ.get("REQUEST_METHOD") not in ("GET", "HEAD") or any(name in environ for name in CREDENTIALS):
        return False
    accepted = parse_accept_header(environ.get("HTTP_ACCEPT", ""), MIMEAccept)
    return bool(accepted["text/html"] > accepted["application/json"])


def cookie_name(environ: Mapping[str, Any]) -> str:
    """Return the name of the session's cookie: browsers keep one jar for all ports of a host."""
    port = str(environ.get("HTTP_HOST", "")).rpartition(":")[2]
    name = f"rag-console-{port}" if port.isdecimal() else "rag-console"
    # Browsers take a name with this beginning only from the host itself, over TLS.
    return f"__Host-{name}" if environ.get("wsgi.url_scheme") == "https" else name


def session_id_of(environ: Environ) -> str | None:
    """Return what the cookie of a request says, None when there is none."""
    try:
        return parse_cookie(environ).get(cookie_name(environ)) or None
    except UnicodeDecodeError:
        return None


def is_form_token(session: Session, said: str) -> bool:
    """Return whether a text is the form token of a session."""
    return hmac.compare_digest(session.form_token.encode(), said.encode("utf-8", "replace"))
