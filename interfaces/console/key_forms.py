"""Forms of keys: what is in their inputs, and the bodies that they stand for."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import orjson
from werkzeug.datastructures import MultiDict

from interfaces.console.forms import digest_of, json_of
from interfaces.console.wire import named
from schemas.access.callers import Limits, Scope
from schemas.access.time_spans import span_of
from schemas.errors import InvalidInputError
from schemas.wire.keys import ALL, NEVER

LIMITS = tuple(each.name for each in fields(Limits))
_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,20})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Json = dict[str, Any]


EMPTY: Json = {
    "name": "",
    "scopes": [Scope.READ.value],
    "collections": "",
    "where": "",
    "expires_at": "",
    "limits": {},
}
"""What is in the inputs of a form, as texts: here of a new key."""


def form_of(key: Json) -> Json:
    """Return the form of a key as the service describes it."""
    return {
        "name": key["name"],
        "scopes": key["scopes"],
        "collections": ", ".join(key["collections"] or ()),
        "where": "" if key["where"] is None else orjson.dumps(key["where"]).decode(),
        "expires_at": key["expires_at"] or "",
        "limits": {name: str(value) for name, value in key["limits"].items()},
    }


def said_in(form: MultiDict[str, str]) -> Json:
    """Return what somebody has filled in."""
    texts = {name: form.get(name, "").strip() for name in ("name", "collections", "where", "expires_at")}
    limits = {name: said for name in LIMITS if (said := form.get(name, "").strip())}
    return {**texts, "scopes": form.getlist("scope"), "limits": limits}


def digest_of_key(form: Json) -> str:
    return digest_of(form | {"scopes": sorted(form["scopes"])})


def new_key(form: Json, now: datetime) -> Json:
    """Return the body that makes a key, whose span begins now. Raises InvalidInputError for what cannot be read."""
    said = _read(form, now)
    return {**named(**said), "where": said["where"]}


def changed_key(form: Json, now: datetime, before: Json) -> Json:
    """Return the body that gives a key what the form says where that is not what it said before: the rest is left as
    somebody else may change it at the same moment. Raises InvalidInputError for what cannot be read."""
    said = _read(form, now)
    said |= {
        "collections": said["collections"] or [ALL],
        "where": ALL if said["where"] is None else said["where"],
        "expires_at": said["expires_at"] or NEVER,
    }
    return {name: value for name, value in said.items() if form[name] != before[name]}


def _read(form: Json, now: datetime) -> Json:
    names = [each.strip() for each in form["collections"].split(",") if each.strip()]
    if form["collections"] and not names:
        raise InvalidInputError("collections has commas but no name: leave it empty for all", field="collections")
    return form | {
        "collections": names,
        "where": json_of(form["where"], "where") if form["where"] else None,
        "limits": {name: _number(text, name) for name, text in form["limits"].items()},
        "expires_at": _end(form["expires_at"], now),
    }


def _end(text: str, now: datetime) -> str:
    """Return the end as the wire spells it: a span counts from now, and a day begins at midnight UTC."""
    try:
        if (span := span_of(text)) is not None:
            return (now + span).isoformat()
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).isoformat() if _DAY.fullmatch(text) else text
    except (ValueError, OverflowError):
        raise InvalidInputError(f"'{text}' is no day, or too far away", field="expires_at") from None


def _number(text: str, name: str) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"limits.{name} must be a number of at most 16 digits", field=f"limits.{name}")
    return float(text) if "." in text else int(text)
