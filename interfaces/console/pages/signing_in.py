"""Signing in with a key, and out."""

from __future__ import annotations

from flask import Blueprint, current_app, g, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from interfaces.console.current_page import session
from interfaces.console.front_doors import CONSOLE, cookie_name
from interfaces.console.sessions import Sessions
from interfaces.console.wire import AnyAnswer, RefusedError, Wire
from schemas.access.api_keys import id_of
from wrapper.web.bodies import client_watch

blueprint = Blueprint("signing_in", __name__)

ENDED = {
    "key_expired": "Your key has expired. Sign in with another one.",
    "key_revoked": "Your key was revoked. Sign in with another one.",
}


@blueprint.route("/sign-in", methods=["GET", "POST"])
def sign_in() -> AnyAnswer:
    next_page = request.values.get("next", "")
    if request.method != "POST":
        return render_template("sign_in.html", next=next_page, ended=ENDED.get(request.args.get("ended", "")))
    key = request.form.get("key", "").strip()
    try:
        asked = Wire(current_app.extensions["console.service"], request.environ, key or "none", client_watch())
        holder = str(asked.get("/api/me", aside=True)["id"])
    except RefusedError as error:
        # What was typed is not shown again: a page may be looked at by others.
        said = error.message if id_of(key) else "This is no key of this service. Keys begin with rw_."
        return render_template("sign_in.html", next=next_page, refused=said), error.status
    sessions: Sessions = current_app.extensions["console.sessions"]
    if session().key is not None:
        sessions.sign_out(session())
    g.session = sessions.sign_in(key, holder)
    g.is_new = True
    return redirect(_own_page(next_page), 303)


@blueprint.post("/sign-out")
def sign_out() -> Response:
    sessions: Sessions = current_app.extensions["console.sessions"]
    sessions.sign_out(session())
    g.is_new = False
    response = redirect(url_for("signing_in.sign_in"), 303)
    response.delete_cookie(
        cookie_name(request.environ), path="/", secure=request.is_secure, httponly=True, samesite="Strict"
    )
    response.headers["Clear-Site-Data"] = '"cache"'
    return response


def _own_page(said: str) -> str:
    """Return a path of the console, the first page where something else is said."""
    home = request.environ.get("SCRIPT_NAME", CONSOLE) + "/"
    is_own = said.startswith("/") and not said.startswith("//") and not any(each in said for each in ("\\", ".."))
    return home.removesuffix("/") + said if is_own and said.isprintable() else home
