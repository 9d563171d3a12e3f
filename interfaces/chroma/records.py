"""Records in Chroma's protocol: written, read, queried, counted and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import structlog
from flask import Blueprint, Response, current_app, g

from interfaces.chroma.face import DATABASE, body_of, collection_of
from schemas.errors import DocumentNotFoundError
from schemas.records import DocumentChanges, Match
from schemas.wire.chroma.index_schema import check_filters
from schemas.wire.chroma.records import (
    EMBEDDINGS,
    changes_of,
    deleted_answer,
    deletion_of,
    get_answer,
    get_stream,
    query_answer,
    query_of,
    selection_of,
)
from wrapper.scoped_store import ScopedStore
from wrapper.stores.record_store import Reading
from wrapper.web.audited import note_outcome
from wrapper.web.bodies import JSON, encode, finish_parsing, finish_within, json_response, read_body
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import write_options
from wrapper.web.route_table import declare
from wrapper.writing import Written

log = structlog.get_logger(__name__)

blueprint = Blueprint("chroma_records", __name__)

COLLECTION = f"{DATABASE}/collections/<collection_id>"
AT_ONCE = 1_000
"""The most documents of an answer that is made as a whole; a larger one is streamed."""
CUT = "an answer to a client of Chroma was cut: its reader took longer than RAG_EXPORT_SECONDS"


@blueprint.post(f"{COLLECTION}/add")
@declare(Lane.WRITE, own_rules=True, exact=True)
def add(tenant: str, database: str, collection_id: str) -> Response:
    _write(tenant, database, collection_id, adds=True, merges=False)
    return json_response({}, 201)


@blueprint.post(f"{COLLECTION}/upsert")
@declare(Lane.WRITE, own_rules=True, exact=True)
def upsert(tenant: str, database: str, collection_id: str) -> Response:
    _write(tenant, database, collection_id, adds=True, merges=True)
    return json_response({})


@blueprint.post(f"{COLLECTION}/update")
@declare(Lane.WRITE, own_rules=True, exact=True)
def update(tenant: str, database: str, collection_id: str) -> Response:
    _write(tenant, database, collection_id, adds=False, merges=True)
    return json_response({})


@blueprint.post(f"{COLLECTION}/delete")
@declare(Lane.WRITE, own_rules=True, exact=True)
def delete(tenant: str, database: str, collection_id: str) -> Response:
    content = read_body()
    wanted = deletion_of(body_of(content))
    own, found = collection_of(tenant, database, collection_id)
    if wanted.selection is None:
        return json_response({"deleted": 0})
    check_filters(found, wanted.selection.where)
    where = wanted.selection.where
    ids = None
    if wanted.limit is not None:
        with own.records.reading(found.name, where, limit=wanted.limit) as (_, reading):
            ids = [each.id for block in reading.read(False) for each in block]
    written = own.delete_documents(
        found.name, write_options(content), **({"where": where} if ids is None else {"ids": ids})
    )
    _noted(written)
    return json_response(deleted_answer(written.outcome))


@blueprint.get(f"{COLLECTION}/count")
@declare(Lane.READ, own_rules=True, exact=True)
def count(tenant: str, database: str, collection_id: str) -> Response:
    return json_response(collection_of(tenant, database, collection_id)[1].count)


@blueprint.post(f"{COLLECTION}/get")
@declare(Lane.READ, own_rules=True, exact=True)
def get(tenant: str, database: str, collection_id: str) -> Response:
    wanted = selection_of(body_of(read_body()))
    own, found = collection_of(tenant, database, collection_id)
    check_filters(found, wanted.where)
    with ExitStack() as snapshot:
        _, reading = snapshot.enter_context(
            own.records.reading(found.name, wanted.where, offset=wanted.offset, limit=wanted.limit)
        )
        if reading.number > AT_ONCE:
            return _stream(found.name, reading, wanted.include, snapshot.pop_all())
        documents = [each for block in reading.read(EMBEDDINGS in wanted.include) for each in block]
    return json_response(get_answer(documents, wanted.include))


@blueprint.post(f"{COLLECTION}/query")
@declare(Lane.READ, own_rules=True, exact=True)
def query(tenant: str, database: str, collection_id: str) -> Response:
    asked = query_of(body_of(read_body()))
    finish_parsing()
    own, found = collection_of(tenant, database, collection_id)
    check_filters(found, asked.selection.where)
    include = asked.selection.include
    if asked.selection.ids is not None:
        _check_there(own, found.name, asked.selection.ids)
    answers: list[list[Match]] = []
    for embedding in asked.embeddings:
        if asked.n_results == 0:
            answers.append([])
            continue
        answer = own.query(
            found.name,
            embedding,
            top_k=asked.n_results,
            where=asked.selection.where,
            with_embeddings=EMBEDDINGS in include,
        )
        g.plan = answer.plan
        answers.append(answer.matches)
    return json_response(query_answer(answers, include))


def _check_there(own: ScopedStore, name: str, ids: list[str]) -> None:
    """Raise DocumentNotFoundError for the first id that no record has, as Chroma does when a query names one."""
    there = {each.id for each in own.documents(name, ids)[0]}
    for each in ids:
        if each not in there:
            raise DocumentNotFoundError(name, each)


def _write(tenant: str, database: str, collection_id: str, *, adds: bool, merges: bool) -> None:
    content = read_body()
    changes: DocumentChanges = changes_of(body_of(content), needs_embeddings=adds, merges=merges)
    finish_parsing()
    own, found = collection_of(tenant, database, collection_id)
    if changes.ids:
        _noted(own.records.merge(found.name, changes, write_options(content), adds=adds, merges=merges))


def _stream(name: str, reading: Reading, include: tuple[str, ...], snapshot: ExitStack) -> Response:
    def parts() -> Iterator[bytes]:
        with snapshot:
            yield from get_stream(reading.read, include, encode)

    response = Response(parts(), mimetype=JSON)
    # The reader may leave before the first part or in the middle.
    response.call_on_close(snapshot.close)
    limit_seconds = current_app.config["EXPORT_SECONDS"]
    finish_within(limit_seconds, lambda: log.warning(CUT, collection=name, limit_seconds=limit_seconds))
    return response


def _noted(written: Written[Any]) -> None:
    note_outcome(written.outcome, replayed=written.replayed)
