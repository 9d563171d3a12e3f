"""Records in Chroma's protocol: written, read, queried, counted and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from flask import Blueprint, Response, g, request

from interfaces.chroma.face import DATABASE, body_of, check_same, chroma_route, collection_of, noted, on_collection
from schemas.errors import DocumentNotFoundError
from schemas.records import Collection, DocumentChanges, Match
from schemas.storage.outcomes import WriteOutcome
from schemas.where import HasId, all_of
from schemas.wire.chroma.index_schema import check_filters
from schemas.wire.chroma.paging import check_read_level
from schemas.wire.chroma.records import (
    EMBEDDINGS,
    Query,
    changes_of,
    deleted_answer,
    deletion_of,
    get_answer,
    get_stream,
    query_answer,
    query_of,
    selection_of,
)
from schemas.wire.json_in import check_named_once
from wrapper.scoped_store import ScopedStore
from wrapper.stores.record_store import Reading
from wrapper.web.bodies import JSON, encode, finish_parsing, json_response, read_body
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import write_options
from wrapper.web.responses import stream_snapshot
from wrapper.writing import Written

blueprint = Blueprint("chroma_records", __name__)

COLLECTION = f"{DATABASE}/collections/<collection_id>"
AT_ONCE = 1_000
"""The most documents of an answer that is made as a whole; a larger one is streamed."""
CUT = "an answer to a client of Chroma was cut: its reader took longer than RAG_EXPORT_SECONDS"


@blueprint.post(f"{COLLECTION}/add", defaults={"adds": True, "merges": False})
@blueprint.post(f"{COLLECTION}/upsert", defaults={"adds": True, "merges": True})
@blueprint.post(f"{COLLECTION}/update", defaults={"adds": False, "merges": True})
@chroma_route(Lane.WRITE)
def write(tenant: str, database: str, collection_id: str, adds: bool, merges: bool) -> Response:
    content = read_body()
    changes: DocumentChanges = changes_of(body_of(content), needs_embeddings=adds, merges=merges)
    finish_parsing()

    def written(own: ScopedStore, found: Collection) -> Written[WriteOutcome]:
        options = replace(write_options(content), collection_id=found.id)
        return own.records.merge(found.name, changes, options, adds=adds, merges=merges)

    if changes.ids:
        noted(on_collection(tenant, database, collection_id, written))
    else:
        collection_of(tenant, database, collection_id)
    return json_response({}, 200 if merges else 201)


@blueprint.post(f"{COLLECTION}/delete")
@chroma_route(Lane.WRITE)
def delete(tenant: str, database: str, collection_id: str) -> Response:
    content = read_body()
    body = body_of(content)
    check_named_once(content)
    wanted = deletion_of(body)
    where = wanted.where
    if where is None:
        collection_of(tenant, database, collection_id)
        return json_response({"deleted": 0})

    def deleted(own: ScopedStore, found: Collection) -> Written[WriteOutcome]:
        check_filters(found, where)
        options = replace(write_options(content), collection_id=found.id)
        if wanted.limit is None:
            return own.delete_documents(found.name, options, where=where)
        with own.records.reading(found.name, where, limit=wanted.limit) as (collection, reading):
            check_same(found, collection)
            ids = tuple(each.id for block in reading.read(False) for each in block)
        # What has been written since, and matches no more, stays.
        return own.delete_documents(found.name, options, where=all_of(where, HasId(ids)))

    return json_response(deleted_answer(noted(on_collection(tenant, database, collection_id, deleted))))


@blueprint.get(f"{COLLECTION}/count")
@chroma_route(Lane.READ)
def count(tenant: str, database: str, collection_id: str) -> Response:
    check_read_level(request.args)
    return json_response(collection_of(tenant, database, collection_id)[1].count)


@blueprint.post(f"{COLLECTION}/get")
@chroma_route(Lane.READ)
def get(tenant: str, database: str, collection_id: str) -> Response:
    wanted = selection_of(body_of(read_body()))

    def got(own: ScopedStore, found: Collection) -> Response:
        check_filters(found, wanted.where)
        with ExitStack() as snapshot:
            collection, reading = snapshot.enter_context(
                own.records.reading(found.name, wanted.where, offset=wanted.offset, limit=wanted.limit)
            )
            check_same(found, collection)
            if reading.number > AT_ONCE:
                kept = snapshot.pop_all()
                return stream_snapshot(_parts(reading, wanted.include, kept), kept, CUT, found.name, JSON)
            documents = [each for block in reading.read(EMBEDDINGS in wanted.include) for each in block]
        return json_response(get_answer(documents, wanted.include))

    return on_collection(tenant, database, collection_id, got)


@blueprint.post(f"{COLLECTION}/query")
@chroma_route(Lane.READ)
def query(tenant: str, database: str, collection_id: str) -> Response:
    asked = query_of(body_of(read_body()))
    finish_parsing()
    answers = on_collection(tenant, database, collection_id, lambda own, found: _nearest(own, found, asked))
    return json_response(query_answer(answers, asked.selection.include))


def _nearest(own: ScopedStore, found: Collection, asked: Query) -> list[list[Match]]:
    check_filters(found, asked.selection.where)
    if asked.selection.ids is not None and isinstance(asked.selection.where, HasId):
        _check_there(own, found, asked.selection.ids)
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
            with_embeddings=EMBEDDINGS in asked.selection.include,
        )
        check_same(found, answer.collection)
        g.plan = answer.plan
        answers.append(answer.matches)
    return answers


def _check_there(own: ScopedStore, found: Collection, ids: list[str]) -> None:
    """Raise DocumentNotFoundError for the first id that no record has, as Chroma does when a query names one and has no
    filter beside."""
    documents, collection = own.documents(found.name, ids)
    check_same(found, collection)
    there = {each.id for each in documents}
    for each in ids:
        if each not in there:
            raise DocumentNotFoundError(found.name, each)


def _parts(reading: Reading, include: tuple[str, ...], snapshot: ExitStack) -> Iterator[bytes]:
    with snapshot:
        yield from get_stream(reading.read, include, encode)
