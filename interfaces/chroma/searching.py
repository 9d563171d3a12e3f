"""The search of Chroma's protocol, which Chroma itself answers in its cloud only: ranked expressions, and groups."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.chroma.face import DATABASE, body_of, check_same, chroma_route, on_collection
from schemas.records import Collection, Document
from schemas.wire.chroma.index_schema import check_filters
from schemas.wire.chroma.ranking import Nearest, nearest_of, ranked
from schemas.wire.chroma.searches import Scored, Search, grouped, search_answer, searches_of
from wrapper.scoped_store import ScopedStore
from wrapper.web.bodies import finish_parsing, json_response, read_body
from wrapper.web.lanes import Lane

blueprint = Blueprint("chroma_searching", __name__)


@blueprint.post(f"{DATABASE}/collections/<collection_id>/search")
@chroma_route(Lane.READ)
def search(tenant: str, database: str, collection_id: str) -> Response:
    searches = searches_of(body_of(read_body()))
    finish_parsing()

    def pages(own: ScopedStore, collection: Collection) -> list[list[Scored]]:
        for each in searches:
            check_filters(collection, each.where)
        return [_page(own, collection, each) for each in searches]

    found = on_collection(tenant, database, collection_id, pages)
    return json_response(search_answer(found, searches))


def _page(own: ScopedStore, collection: Collection, asked: Search) -> list[Scored]:
    """Return the documents of a search on its page, with their embeddings when it selects them."""
    if asked.rank is None:
        page = {"offset": asked.offset, "limit": asked.limit}
        with own.records.reading(collection.name, asked.where, **page) as (met, reading):
            check_same(collection, met)
            return [(each, None) for block in reading.read(asked.wants_embeddings) for each in block]
    known: dict[str, Document] = {}
    found: dict[Nearest, list[tuple[str, float]]] = {}
    for nearest in nearest_of(asked.rank):
        documents = _found(own, collection, asked, nearest)
        known |= {document.id: document for document, _ in documents}
        found[nearest] = [(document.id, distance) for document, distance in documents]
    scored: list[Scored] = [(known[each], score) for each, score in ranked(asked.rank, found)]
    if asked.grouping is not None:
        scored = grouped(scored, asked.grouping)
    scored = scored[asked.offset : asked.offset + asked.limit]
    if not asked.wants_embeddings:
        return scored
    ids = [document.id for document, _ in scored]
    embedded, met = own.documents(collection.name, ids, with_embeddings=True)
    check_same(collection, met)
    there = {each.id: each for each in embedded}
    return [(there[document.id], score) for document, score in scored if document.id in there]


def _found(own: ScopedStore, collection: Collection, asked: Search, nearest: Nearest) -> list[tuple[Document, float]]:
    """Return (document, distance), nearest first; the distance of words is their BM25 score with a minus before it."""
    if isinstance(nearest.query, str):
        matches, _, met = own.text_search(collection.name, nearest.query, asked.where, limit=nearest.limit)
        check_same(collection, met)
        return [(each.document, -each.score) for each in matches]
    answer = own.query(collection.name, nearest.query, top_k=nearest.limit, where=asked.where)
    check_same(collection, answer.collection)
    return [(each.document, each.distance) for each in answer.matches]
