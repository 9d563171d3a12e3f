"""The body of `PUT /api/watchers/{name}`, and the answers of `/api/watchers` as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from marshmallow import fields, post_load, validate

from schemas.contracts.watchers import (
    MAX_FAILURES,
    MAX_TEXT_CHARACTERS,
    STATES,
    FailedFile,
    KnownWatcher,
    WatcherReport,
)
from schemas.wire.body import Body
from schemas.wire.checked_fields import Flag, ownership
from schemas.wire.fields import Count, Text

MAX_INSTANCE_CHARACTERS = 200
_MOST = 2**53
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z"
_is_time = validate.Regexp(rf"{_TIME}\Z", error="must be a time like 2026-11-22T08:30:00Z")
_sentence = validate.Length(max=MAX_TEXT_CHARACTERS)

Json = dict[str, Any]


class Failed(Body):
    path = Text(required=True, validate=_sentence)
    reason = Text(required=True, validate=_sentence)

    @post_load
    def _to_file(self, loaded: Json, **_: Any) -> FailedFile:
        return FailedFile(**loaded)


class Report(Body):
    instance = Text(required=True, validate=validate.Length(min=1, max=MAX_INSTANCE_CHARACTERS))
    state = Text(required=True, validate=validate.OneOf(STATES))
    collection = Text(required=True, validate=validate.Length(min=1, max=512))
    files = Count(least=0, most=_MOST, load_default=0)
    stored = Count(least=0, most=_MOST, load_default=0)
    failed = Count(least=0, most=_MOST, load_default=0)
    failures = fields.List(fields.Nested(Failed), load_default=(), validate=validate.Length(max=MAX_FAILURES))
    at = Text(load_default=None, validate=_is_time)
    next = Text(load_default=None, validate=_is_time)
    reason = Text(load_default=None, validate=_sentence)
    shared = Flag(load_default=False)

    @post_load
    def _to_report(self, loaded: Json, **_: Any) -> dict[str, WatcherReport]:
        return {"report": WatcherReport(**{**loaded, "failures": tuple(loaded["failures"])})}


WATCHER_REPORT = Report()


def known_watchers(watchers: Iterable[KnownWatcher]) -> Json:
    return {"watchers": [known_watcher(each) for each in watchers]}


def forgotten_watcher(name: str) -> Json:
    return {"status": "deleted", "name": name}


def known_watcher(watcher: KnownWatcher) -> Json:
    return {
        **asdict(watcher.report),
        **ownership(watcher.of),
        "name": watcher.name,
        "state": watcher.state,
        "reported_at": watcher.reported_at,
    }
