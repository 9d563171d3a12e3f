"""Records to the shapes of the wire. Stored metadata passes through as the JSON it is."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from schemas.records import Collection, Document, Facet, Group, Match, Page, TextMatch, WriteOutcome
from wrapper.catalog.adoptions import Adoption
from wrapper.catalog.reports import IndexReport, IndexSummary
from wrapper.catalog.set_aside import SetAside
from wrapper.catalog.standstills import Standstill
from wrapper.catalog.states import REBUILDING

Answer = dict[str, Any]


def etag(collection: Collection) -> str:
    """What `ETag` and `If-Match` call this state of this collection; no other state of any collection has this name."""
    return f"{collection.id}.{collection.revision}"


def collection(found: Collection) -> Answer:
    answer: Answer = {
        "id": found.id,
        "name": found.name,
        "count": found.count,
        "metadata": found.metadata,
        "dimension": found.dimension,
        "metric": found.metric,
        "revision": found.revision,
    }
    if found.index_state == "adopting":
        answer["adopting"] = True
    return answer


def with_outcome(answer: Answer, indexed: bool, refused: Sequence[str]) -> Answer:
    """The answer of a write of documents, and whether vector queries through the index find them. Those that the engine
    cannot take are named: they are found, by exact distances."""
    outcome: Answer = {**answer, "indexed": indexed}
    return {**outcome, "set_aside": list(refused)} if refused else outcome


def index(
    found: Collection,
    report: IndexReport,
    waiting_writes: int,
    standing_still: Sequence[Standstill],
    refused: int,
    first_refused: Sequence[SetAside],
) -> Answer:
    return {
        "collection": found.name,
        "state": found.index_state,
        "documents": found.count,
        "documents_held": report.documents_held,
        "waiting_writes": waiting_writes,
        "standing_still": _standstill(standing_still[0]) if standing_still else None,
        "set_aside": {"documents": refused, "first": [_set_aside(each) for each in first_refused]},
        "index_bytes": report.index_bytes,
        "fault": report.fault,
        "checked_at": _time(report.checked_at_seconds),
        "recall_at_10": report.recall_at_10,
        "recall_measured_at": _time(report.recall_at_seconds),
        "rebuild": _rebuild(found, report) if found.index_state == REBUILDING else None,
        "rebuilds": report.rebuilds,
    }


def indexes(summary: IndexSummary) -> Answer:
    """All indexes in few words."""
    return {
        "ready": summary.ready,
        "rebuilding": [{"collection": each.name, **_rebuild(each, report)} for each, report in summary.rebuilding],
        "faulty": [{"collection": name, "fault": fault} for name, fault in summary.faulty],
        "lowest_recall_at_10": None
        if summary.lowest_recall is None
        else {"collection": summary.lowest_recall[0], "recall": summary.lowest_recall[1]},
    }


def hindered(standing_still: Sequence[Standstill], refused: int, first_refused: Sequence[SetAside]) -> Answer:
    """What `/health` says of writes that the engine did not take; nothing when there is nothing to say."""
    answer: Answer = {}
    if standing_still:
        answer["standing_still"] = [{"collection": each.collection, **_standstill(each)} for each in standing_still]
    if refused:
        first = [{"collection": each.collection, **_set_aside(each)} for each in first_refused]
        answer["set_aside"] = {"documents": refused, "first": first}
    return answer


def adopted(adoptions: Sequence[Adoption]) -> Answer:
    """What `/health` says of them; nothing when there is nothing to say."""
    under_way = [
        {"collection": each.collection, "documents": each.documents, "of": each.of}
        for each in adoptions
        if not each.is_complete
    ]
    left_out = [{"collection": each.collection, "documents": each.left_out} for each in adoptions if each.is_complete]
    found = {"adopting": under_way, "left_out": left_out}
    return {name: collections for name, collections in found.items() if collections}


def created(made: Collection) -> Answer:
    return {
        "status": "created",
        "id": made.id,
        "name": made.name,
        "metadata": made.metadata,
        "dimension": None,
        "metric": made.metric,
        "revision": made.revision,
    }


def metadata_updated(changed: Collection, *, merge: bool) -> Answer:
    return {
        "status": "updated",
        "name": changed.name,
        "metadata": changed.metadata,
        "merge": merge,
        "revision": changed.revision,
    }


def _standstill(found: Standstill) -> Answer:
    return {"reason": found.reason, "since": _time(found.since_seconds)}


def _set_aside(found: SetAside) -> Answer:
    return {"id": found.id, "reason": found.reason, "since": _time(found.since_seconds)}


def _rebuild(found: Collection, report: IndexReport) -> Answer:
    reason = report.rebuild_reason or "it was never complete"
    return {"reason": reason, "documents": report.documents_rebuilt, "of": found.count}


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def added(name: str, outcome: WriteOutcome, *, with_deleted: bool) -> Answer:
    answer: Answer = {
        "status": "added",
        "collection": name,
        "count": len(outcome.ids),
        "ids": outcome.ids,
        "created": outcome.created,
        "updated": outcome.updated,
        "unchanged": outcome.unchanged,
    }
    if with_deleted:
        answer["deleted"] = outcome.deleted
    return {**answer, "revision": outcome.revision}


def document(found: Document) -> Answer:
    answer: Answer = {"id": found.id, "text": found.text, "metadata": orjson.Fragment(found.metadata_json)}
    if found.embedding is not None:
        answer["embedding"] = found.embedding
    return answer


def exported(found: Document) -> Answer:
    """A line of an export, which can be sent back as a line of an NDJSON stream."""
    assert found.embedding is not None
    return {**document(found), "embedding": b64encode(found.embedding.tobytes()).decode()}


def page(found: Page) -> Answer:
    return {
        "documents": [document(each) for each in found.documents],
        "count": len(found.documents),
        "total": found.total,
        "next_cursor": found.next_cursor,
        "revision": found.revision,
    }


def listing(documents: Sequence[Document], total: int, revision: int) -> Answer:
    """A page of documents asked for by their ids, `total` of which exist."""
    return {
        "documents": [document(each) for each in documents],
        "count": len(documents),
        "total": total,
        "next_cursor": None,
        "revision": revision,
    }


def match(found: Match) -> Answer:
    answer = document(found.document)
    return {
        "id": answer.pop("id"),
        "text": answer.pop("text"),
        "distance": found.distance,
        "score": found.score,
        **answer,
    }


def group(found: Group, distances: dict[str, float]) -> Answer:
    answer: Answer = {"key": found.key, "rank": found.rank}
    if found.best_distance is not None:
        answer["best_distance"] = found.best_distance
    answer["documents"] = [
        {
            **document(each),
            "hit": each.id in found.hits,
            **({"distance": distances[each.id]} if each.id in distances else {}),
        }
        for each in found.documents
    ]
    answer["total"] = found.total
    answer["complete"] = len(found.documents) == found.total
    return answer


def text_match(found: TextMatch) -> Answer:
    answer = document(found.document)
    return {"id": answer["id"], "text": answer["text"], "score": found.score, "metadata": answer["metadata"]}


def facet(found: Facet) -> Answer:
    answer: Answer = {
        "values": [{"value": value, "count": count} for value, count in found.values],
        "distinct": found.distinct,
    }
    if found.minimum is not None:
        answer |= {"min": found.minimum, "max": found.maximum}
    return answer


def spelt(value: Any) -> str:
    """A scalar as a string: strings as they are, numbers and booleans as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
