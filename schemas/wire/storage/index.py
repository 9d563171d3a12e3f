"""Answers about the vector indexes: about one by its own route, about all by `/health`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from schemas.records import Collection
from schemas.storage.engine_records import ENGINE_RECORDS
from schemas.storage.index_reports import (
    Adoption,
    Hindrances,
    IndexReport,
    IndexStatus,
    IndexSummary,
    SetAside,
    Standstill,
)
from schemas.wire.body import Body
from schemas.wire.fields import Choice

Answer = dict[str, Any]


class Rebuilding(Body):
    """The query string of a rebuild."""

    records = Choice(ENGINE_RECORDS, load_default=None)


# Making a schema costs more than using it, and it keeps no state.
REBUILDING_ARGUMENTS = Rebuilding()


def index_answer(status: IndexStatus) -> Answer:
    found, report, hindrances = status.collection, status.report, status.hindrances
    standing_still = hindrances.standing_still
    return {
        "collection": found.name,
        "state": found.index_state,
        "documents": found.count,
        "records": found.engine_records,
        "documents_held": report.documents_held,
        "waiting_writes": status.waiting_writes,
        "standing_still": _standstill(standing_still[0]) if standing_still else None,
        "set_aside": {
            "documents": hindrances.refused,
            "first": [_set_aside(each) for each in hindrances.first_refused],
        },
        "index_bytes": report.index_bytes,
        "stored_bytes": status.stored_bytes,
        "fault": report.fault,
        "checked_at": _time(report.checked_at_seconds),
        "recall_at_10": report.recall_at_10,
        "filtered_recall_at_10": report.filtered_recall_at_10,
        "recall_measured_at": _time(report.recall_at_seconds),
        "search_width": report.search_width,
        "rebuild": _rebuild(found, report) if status.is_rebuilding else None,
        "rebuilds": report.rebuilds,
    }


def indexes_answer(summary: IndexSummary) -> Answer:
    return {
        "ready": summary.ready,
        "rebuilding": [{"collection": each.name, **_rebuild(each, report)} for each, report in summary.rebuilding],
        "faulty": [{"collection": name, "fault": fault} for name, fault in summary.faulty],
        "lowest_recall_at_10": None if summary.lowest_recall is None else _recall(*summary.lowest_recall),
    }


def hindrances_fields(hindrances: Hindrances) -> Answer:
    """Return the fields of `/health` for writes that the engine did not take; none when it took all of them."""
    fields: Answer = {}
    if hindrances.standing_still:
        fields["standing_still"] = [
            {"collection": each.collection, **_standstill(each)} for each in hindrances.standing_still
        ]
    if hindrances.refused:
        first = [{"collection": each.collection, **_set_aside(each)} for each in hindrances.first_refused]
        fields["set_aside"] = {"documents": hindrances.refused, "first": first}
    return fields


def adoptions_fields(adoptions: Sequence[Adoption]) -> Answer:
    """Return the fields of `/health` for collections that are taken in from the engine, or left documents there."""
    under_way = [
        {"collection": each.collection, "documents": each.documents, "of": each.of}
        for each in adoptions
        if not each.is_complete
    ]
    left_out = [{"collection": each.collection, "documents": each.left_out} for each in adoptions if each.is_complete]
    found = {"adopting": under_way, "left_out": left_out}
    return {name: collections for name, collections in found.items() if collections}


def _standstill(found: Standstill) -> Answer:
    return {"reason": found.reason, "since": _time(found.since_seconds)}


def _set_aside(found: SetAside) -> Answer:
    return {"id": found.id, "reason": found.reason, "since": _time(found.since_seconds)}


def _recall(name: str, report: IndexReport) -> Answer:
    return {"collection": name, "recall": report.recall_at_10, "filtered_recall": report.filtered_recall_at_10}


def _rebuild(found: Collection, report: IndexReport) -> Answer:
    reason = report.rebuild_reason or "it was never complete"
    return {"reason": reason, "documents": report.documents_rebuilt, "of": found.count}


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
