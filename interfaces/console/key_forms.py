"""Forms of keys: what is in their inputs, and the bodies that they stand for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from typing import Any

import orjson
from werkzeug.datastructures import MultiDict

from interfaces.console.forms import json_of
from interfaces.console.wire import named
from schemas.access.callers import Limits, Scope
from schemas.access.time_spans import span_of
from schemas.errors import InvalidInputError
from schemas.wire.keys import ALL, NEVER

LIMITS = tuple(each.name for each in fields(Limits))
_NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,20})?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The inputs of a form, as texts."""

    name: str = ""
    scopes: Sequence[str] = (Scope.READ.value,)
    collections: str = ""
    where: str = ""
    expires_at: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(key: Mapping[str, Any]) -> KeyForm:
        """Return the form of a key as the service describes it."""
        return KeyForm(
            key["name"],
            key["scopes"],
            ", ".join(key["collections"] or ()),
            "" if key["where"] is None else orjson.dumps(key["where"]).decode(),
            key["expires_at"] or "",
            {name: str(value) for name, value in key["limits"].items()},
        )

    @staticmethod
    def said(form: MultiDict[str, str]) -> KeyForm:
        """Return what somebody has filled in."""
        return KeyForm(
            form.get("name", "").strip(),
            form.getlist("scope"),
            form.get("collections", "").strip(),
            form.get("where", "").strip(),
            form.get("expires_at", "").strip(),
            {name: said for name in LIMITS if (said := form.get(name, "").strip())},
        )

    @property
    def digest(self) -> str:
        """What tells whether a key is still as somebody has seen it."""
        texts = [self.name, sorted(self.scopes), self.collections, self.where, self.expires_at, dict(self.limits)]
        return hashlib.sha256(orjson.dumps(texts, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def new(self, now: datetime) -> Json:
        """Return the body that makes a key, whose span begins now. Raises InvalidInputError for what cannot be read."""
        said = self._fields(now)
        return {**named(said.items()), "where": said["where"]}

    def changed(self, now: datetime, before: KeyForm) -> Json:
        """Return the body that gives a key what the form says where that is not what it said before: the rest is left
        as somebody else may change it at the same moment. Raises InvalidInputError for what cannot be read."""
        said = self._fields(now)
        said |= {
            "collections": said["collections"] or [ALL],
            "where": ALL if said["where"] is None else said["where"],
            "expires_at": said["expires_at"] or NEVER,
        }
        return {name: value for name, value in said.items() if getattr(self, name) != getattr(before, name)}

    def _fields(self, now: datetime) -> Json:
        return {
            "name": self.name,
            "scopes": list(self.scopes),
            "collections": self._names(),
            "where": json_of(self.where, "where") if self.where else None,
            "limits": {name: _number(text, name) for name, text in self.limits.items()},
            "expires_at": self._end(now),
        }

    def _names(self) -> list[str]:
        names = [each.strip() for each in self.collections.split(",") if each.strip()]
        if self.collections and not names:
            raise InvalidInputError("collections has commas but no name: leave it empty for all", field="collections")
        return names

    def _end(self, now: datetime) -> str:
        """Return the end as the wire spells it: a span counts from now, and a day begins at midnight UTC."""
        span = span_of(self.expires_at)
        try:
            if span is not None:
                return (now + span).isoformat()
            if _DAY.fullmatch(self.expires_at):
                day = date.fromisoformat(self.expires_at)
                return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat()
        except (ValueError, OverflowError):
            raise InvalidInputError(f"'{self.expires_at}' is no day, or too far away", field="expires_at") from None
        return self.expires_at


def _number(text: str, name: str) -> int | float:
    if not _NUMBER.fullmatch(text):
        raise InvalidInputError(f"limits.{name} must be a number of at most 16 digits", field=f"limits.{name}")
    return float(text) if "." in text else int(text)
