"""The service itself, for those who run it: its health, keys, audit log, and settings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from interfaces.console.current_page import wire
from interfaces.console.forms import number_of
from interfaces.console.key_forms import EMPTY, LIMITS, changed_key, digest_of_key, form_of, new_key, said_in
from interfaces.console.wire import AnyAnswer, RefusedError, encoded, refused
from schemas.access.callers import Scope
from schemas.errors import ConflictError, InvalidInputError

blueprint = Blueprint("service", __name__, url_prefix="/service")

INDEXES, ENTRIES, MOST_ENTRIES = 200, 100, 1_000
_OF_KEYS = {"scopes": list(Scope), "limits": LIMITS}
CHANGED = "The key has changed since you opened it, and nothing was saved: this is how it is now"
REVOKED = "The key was revoked, and nothing was saved: it allows nothing any more"
Json = dict[str, Any]


@blueprint.get("")
def health() -> str:
    return render_template(
        "service.html",
        health=wire().report("/health"),
        collections=wire().get("/collections", limit=INDEXES, include="index")["collections"],
    )


@blueprint.post("/indexes/<name>")
def rebuild(name: str) -> Response:
    """Have an index looked at, or rebuilt."""
    what = "rebuild" if request.form.get("do") == "rebuild" else "check"
    wire().post(encoded("collections", name, "index", what))
    return redirect(url_for("service.health"), 303)


@blueprint.route("/keys", methods=["GET", "POST"])
def keys() -> str:
    if request.method != "POST":
        return _keys(made=None)
    return _keys(made=wire().post("/api/keys", new_key(said_in(request.form), datetime.now(UTC))))


@blueprint.route("/keys/<key_id>", methods=["GET", "POST"])
def key(key_id: str) -> AnyAnswer:
    """Show a key, change what it may do, rotate it, or revoke it."""
    path = encoded("api", "keys", key_id)
    if request.method != "POST":
        return _key(key_id)
    match request.form.get("do"):
        case "save":
            return _changed(key_id)
        case "rotate":
            return _keys(made=wire().post(f"{path}/rotate", {}))
        case "revoke":
            wire().delete(path)
            return redirect(url_for("service.keys"), 303)
    raise InvalidInputError("do must be save, rotate or revoke", field="do")


@blueprint.get("/audit")
def audit() -> str:
    asked: dict[str, Any] = {name: request.args.get(name, "").strip() for name in ("since", "key", "collection")}
    limit = number_of(request.args.get("limit", ""), ENTRIES, most=MOST_ENTRIES)
    answer = wire().get("/api/audit", **asked, limit=limit)
    return render_template("audit.html", **answer, asked=asked, limit=limit)


@blueprint.get("/traffic")
def traffic() -> str:
    return render_template("traffic.html", minutes=wire().get("/api/service/recent")["minutes"])


@blueprint.route("/backups", methods=["GET", "POST"])
def backups() -> Response | str:
    if request.method == "POST":
        wire().post("/api/backups", {})
        return redirect(url_for("service.backups"), 303)
    return render_template("backups.html", backups=wire().get("/api/backups")["backups"])


@blueprint.route("/backups/<backup_id>", methods=["GET", "POST"])
def backup(backup_id: str) -> Response:
    """Send the file of a backup, or delete it."""
    path = encoded("api", "backups", backup_id)
    if request.method != "POST":
        return wire().download(f"{path}/content")
    wire().delete(path)
    return redirect(url_for("service.backups"), 303)


@blueprint.get("/settings")
def settings() -> str:
    return render_template("settings.html", settings=wire().get("/api/settings")["settings"])


def _keys(made: Json | None) -> str:
    """Return the page of keys, with the text of one that was just made."""
    listed = wire().get("/api/keys")["keys"]
    return render_template("keys.html", keys=listed, made=made, form=EMPTY, **_OF_KEYS)


def _changed(key_id: str) -> AnyAnswer:
    """Change a key as the form says, or show the form again with what is wrong: with what the key allows now, when that
    is not what the form was filled in with."""
    path = encoded("api", "keys", key_id)
    key = wire().get(path, aside=True)
    before, form = form_of(key), said_in(request.form)
    try:
        if key["revoked_at"] is not None:
            raise ConflictError(REVOKED)
        if request.form.get("seen") != digest_of_key(before):
            raise ConflictError(CHANGED)
        wire().answer("PATCH", path, changed_key(form, datetime.now(UTC), before), aside=True)
    except (ConflictError, InvalidInputError, RefusedError) as error:
        refusal, status = refused(error)
        return _key(key_id, None if isinstance(error, ConflictError) else form, refusal), status
    return redirect(url_for("service.key", key_id=key_id, saved=1), 303)


def _key(key_id: str, form: Json | None = None, refusal: str = "") -> str:
    key = wire().get(encoded("api", "keys", key_id))
    now = form_of(key)
    seen = digest_of_key(now) if form is None else request.form["seen"]
    return render_template("key.html", key=key, seen=seen, form=form or now, refusal=refusal, **_OF_KEYS)
