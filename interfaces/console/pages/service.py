"""The service itself, for those who run it: its health, keys, audit log, and settings."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import orjson
from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from interfaces.console.current_page import wire
from interfaces.console.forms import digest_of, json_of, number_of
from interfaces.console.wire import AnyAnswer, RefusedError, encoded, named, refused
from schemas.access.callers import Limits, Scope
from schemas.access.time_spans import span_of
from schemas.errors import ConflictError, InvalidInputError
from schemas.wire.keys import ALL, NEVER

blueprint = Blueprint("service", __name__, url_prefix="/service")

INDEXES, ENTRIES, MOST_ENTRIES = 200, 100, 1_000
LIMITS = tuple(each.name for each in fields(Limits))
_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,20})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OF_KEYS = {"scopes": list(Scope), "limits": LIMITS}
CHANGED = "The key has changed since you opened it, and nothing was saved: this is how it is now"
REVOKED = "The key was revoked, and nothing was saved: it allows nothing any more"
Json = dict[str, Any]
EMPTY: Json = {"scopes": [Scope.READ], "limits": {}}
"""What is in the inputs of a form, as texts: here of a new key."""


@blueprint.get("")
def health() -> str:
    try:
        told = wire().get("/health")
    except RefusedError as error:
        if "status" not in error.body:  # by which it says that it is not well
            raise
        told = error.body
    collections = wire().get("/collections", limit=INDEXES, include="index")["collections"]
    return render_template("service.html", health=told, collections=collections)


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
    said = _read(_said_in(request.form))
    return _keys(made=wire().post("/api/keys", {**named(**said), "where": said["where"]}))


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
    before, form = _form_of(key), _said_in(request.form)
    try:
        if key["revoked_at"] is not None:
            raise ConflictError(REVOKED)
        if request.form.get("seen") != digest_of(before):
            raise ConflictError(CHANGED)
        wire().answer("PATCH", path, _changes(form, before), aside=True)
    except (ConflictError, InvalidInputError, RefusedError) as error:
        refusal, status = refused(error)
        return _key(key_id, None if isinstance(error, ConflictError) else form, refusal), status
    return redirect(url_for("service.key", key_id=key_id, saved=1), 303)


def _key(key_id: str, form: Json | None = None, refusal: str = "") -> str:
    key = wire().get(encoded("api", "keys", key_id))
    now = _form_of(key)
    seen = digest_of(now) if form is None else request.form["seen"]
    return render_template("key.html", key=key, seen=seen, form=form or now, refusal=refusal, **_OF_KEYS)


def _form_of(key: Json) -> Json:
    """Return the form of a key as the service describes it."""
    return {
        "name": key["name"],
        "scopes": key["scopes"],
        "collections": ", ".join(key["collections"] or ()),
        "where": "" if key["where"] is None else orjson.dumps(key["where"]).decode(),
        "expires_at": key["expires_at"] or "",
        "limits": {name: str(value) for name, value in key["limits"].items()},
    }


def _said_in(form: MultiDict[str, str]) -> Json:
    """Return what somebody has filled in."""
    texts = {name: form.get(name, "").strip() for name in ("name", "collections", "where", "expires_at")}
    limits = {name: said for name in LIMITS if (said := form.get(name, "").strip())}
    return {**texts, "scopes": form.getlist("scope"), "limits": limits}


def _changes(form: Json, before: Json) -> Json:
    """Return the body that gives a key what the form says where that is not what it said before: the rest is left as
    somebody else may change it at the same moment."""
    said = _read(form)
    said |= {
        "collections": said["collections"] or [ALL],
        "where": ALL if said["where"] is None else said["where"],
        "expires_at": said["expires_at"] or NEVER,
    }
    return {name: value for name, value in said.items() if form[name] != before[name]}


def _read(form: Json) -> Json:
    """Return what the wire has for the texts of a form. Raises InvalidInputError for what cannot be read."""
    names = [each.strip() for each in form["collections"].split(",") if each.strip()]
    if form["collections"] and not names:
        raise InvalidInputError("collections has commas but no name: leave it empty for all", field="collections")
    return form | {
        "collections": names,
        "where": json_of(form["where"], "where") if form["where"] else None,
        "limits": {name: _number(text, name) for name, text in form["limits"].items()},
        "expires_at": _end(form["expires_at"]),
    }


def _end(text: str) -> str:
    """Return the end as the wire spells it: a span counts from now, and a day begins at midnight UTC."""
    try:
        if (span := span_of(text)) is not None:
            return (datetime.now(UTC) + span).isoformat()
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).isoformat() if _DAY.fullmatch(text) else text
    except (ValueError, OverflowError):
        raise InvalidInputError(f"'{text}' is no day, or too far away", field="expires_at") from None


def _number(text: str, name: str) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"limits.{name} must be a number of at most 16 digits", field=f"limits.{name}")
    return float(text) if "." in text else int(text)
