"""The service itself, for those who run it: its health, keys, audit log, and settings."""

from __future__ import annotations

import re
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response

from interfaces.console.current_page import wire
from interfaces.console.forms import filter_of, number_of
from interfaces.console.traffic import traffic_plots
from interfaces.console.wire import WireRequest, encoded, named
from schemas.access.callers import Scope
from schemas.errors import InvalidInputError

blueprint = Blueprint("service", __name__, url_prefix="/service")

INDEXES, ENTRIES, MOST_ENTRIES = 200, 100, 1_000
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,6})?")
LIMITS = (
    "requests_per_second",
    "burst",
    "concurrent",
    "documents",
    "bytes",
    "embedded_tokens_per_day",
    "chats_per_day",
)
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
    wire().send(WireRequest("POST", encoded("collections", name, "index", what)))
    return redirect(url_for("service.health"), 303)


@blueprint.route("/keys", methods=["GET", "POST"])
def keys() -> str:
    return _keys(made=wire().post("/api/keys", _wanted(request.form)) if request.method == "POST" else None)


@blueprint.post("/keys/<key_id>")
def change_key(key_id: str) -> Response | str:
    """Rotate a key, or revoke it."""
    path = encoded("api", "keys", key_id)
    if request.form.get("do") == "rotate":
        return _keys(made=wire().post(f"{path}/rotate", {}))
    wire().send(WireRequest("DELETE", path))
    return redirect(url_for("service.keys"), 303)


@blueprint.get("/audit")
def audit() -> str:
    asked: dict[str, Any] = {name: request.args.get(name, "").strip() for name in ("since", "key", "collection")}
    limit = number_of(request.args.get("limit", ""), ENTRIES, most=MOST_ENTRIES)
    answer = wire().get("/api/audit", **asked, limit=limit)
    return render_template("audit.html", **answer, asked=asked, limit=limit)


@blueprint.get("/traffic")
def traffic() -> str:
    minutes = wire().get("/api/service/recent")["minutes"]
    return render_template("traffic.html", minutes=minutes, plots=traffic_plots(minutes))


@blueprint.route("/backups", methods=["GET", "POST"])
def backups() -> Response | str:
    if request.method == "POST":
        wire().post("/api/backups", {})
        return redirect(url_for("service.backups"), 303)
    return render_template("backups.html", backups=wire().get("/api/backups")["backups"])


@blueprint.get("/backups/<backup_id>")
def backup(backup_id: str) -> Response:
    """Send the file of a backup."""
    return wire().download(WireRequest("GET", encoded("api", "backups", backup_id, "content")))


@blueprint.post("/backups/<backup_id>")
def delete_backup(backup_id: str) -> Response:
    wire().send(WireRequest("DELETE", encoded("api", "backups", backup_id)))
    return redirect(url_for("service.backups"), 303)


@blueprint.get("/settings")
def settings() -> str:
    return render_template("settings.html", settings=wire().get("/api/settings")["settings"])


def _keys(made: Json | None) -> str:
    """Return the page of keys, with the text of one that was just made."""
    listed = wire().get("/api/keys")["keys"]
    return render_template("keys.html", keys=listed, made=made, scopes=list(Scope), limits=LIMITS)


def _wanted(form: MultiDict[str, str]) -> Json:
    collections = [each.strip() for each in form.get("collections", "").split(",") if each.strip()]
    limits = {name: _number(form.get(name, ""), name) for name in LIMITS if form.get(name, "").strip()}
    return named(
        (
            ("name", form.get("name", "").strip()),
            ("scopes", form.getlist("scope")),
            ("collections", collections),
            ("where", filter_of(form.get("where", ""))),
            ("expires_at", form.get("expires_at", "").strip()),
            ("limits", limits),
        )
    )


def _number(text: str, field: str) -> int | float:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"limits.{field} must be a number of at most 15 digits", field=f"limits.{field}")
    return float(text) if "." in text else int(text)
