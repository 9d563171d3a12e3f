"""`POST /v1/vector_stores/{id}/search`, and which collection a client means by the id of a vector store.

A vector store is a text collection. Its id is made of the collection's, so it stays as long as the collection, whatever
that is called. The name of a collection is taken as well, where people write requests themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from flask import Blueprint, Response

from interfaces.openai.face import IN_PATH
from interfaces.passages.shortfalls import shortfalls
from interfaces.web import current_request
from interfaces.web.current_request import layers
from retrieval.kept_files.kept_files import file_of
from retrieval.search.fusion import PassageKey, passage_of
from schemas.contracts.search import FusedResult, SearchRequest
from schemas.contracts.vector_stores import StoreExpiredError
from schemas.errors import CollectionNotFoundError, InvalidInputError, NotFoundError
from schemas.names import check_collection_name
from schemas.records import Collection
from schemas.where import all_of
from schemas.wire.openai.store_search import STORE_SEARCH, score_of, store_results
from schemas.wire.search import search_receipt
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body, store, unknown
from wrapper.web.route_table import declare

blueprint = Blueprint("openai_stores", __name__, url_prefix="/v1/vector_stores")

PREFIX = "vs_"
_ID = re.compile(rf"{PREFIX}[0-9a-f]{{32}}")


def store_id(collection: Collection) -> str:
    """Return the id of the vector store that a collection is."""
    return PREFIX + collection.id.replace("-", "")


def collections_of(store_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the caller's collections that these vector stores are.

    What is the id of none is returned as it is: the name of a collection, or of nothing.
    """
    names: dict[str, str] = {}
    if any(_ID.fullmatch(each) for each in store_ids):
        names = {store_id(each): each.name for each in store().collections()}
    return tuple(dict.fromkeys(names.get(each, each) for each in store_ids))


def collection_of(store_id: str) -> Collection:
    """Return the caller's collection that a vector store is. Raises NotFoundError when there is none."""
    try:
        if _ID.fullmatch(store_id):
            found = store().records.collection(str(UUID(store_id.removeprefix(PREFIX))))
            # Of the databases of clients of Chroma's protocol, these clients know the default one.
            name = check_collection_name(found.name)
        else:
            name = check_collection_name(store_id)
        return store().collection(name)
    except (InvalidInputError, CollectionNotFoundError):
        sentence = f"Vector store '{store_id[:100]}' not found"
        raise NotFoundError(sentence, code=CollectionNotFoundError.code) from None


def active_collection_of(store_id: str) -> Collection:
    """Return the same and note that the store is active. Raises StoreExpiredError for one whose time has passed."""
    collection = collection_of(store_id)
    _note_active(collection, store_id)
    return collection


def note_active(names: Sequence[str]) -> None:
    """Note that the stores are active which the caller's collections of these names are. Raises StoreExpiredError for
    the first whose time has passed."""
    for each in store().collections_named(names):
        _note_active(each, store_id(each))


def _note_active(collection: Collection, store_id: str) -> None:
    known = layers().kept.facts
    facts = known.one(collection.id)
    if facts is not None:
        if known.has_expired(facts):
            raise StoreExpiredError(store_id)
        known.touch(facts)


@blueprint.post("/<vector_store_id>/search")
@declare(Lane.EMBEDDING, body=STORE_SEARCH, elsewhere=IN_PATH, places=True)
def search(vector_store_id: str) -> Response:
    asked = body()
    name = active_collection_of(vector_store_id).name
    ranking, most = asked["ranking_options"], asked["max_num_results"]
    hybrid = ranking.get("hybrid_search")
    weights = {} if hybrid is None else {"semantic": hybrid["embedding_weight"], "lexical": hybrid["text_weight"]}
    found: dict[PassageKey, FusedResult] = {}
    notices = ["rewrite_query changes nothing: questions are searched as they are"] if asked["rewrite_query"] else []
    for query in asked["queries"]:
        request = SearchRequest(
            query,
            limit=most,
            weights=weights,
            collections=(name,),
            where=all_of(asked["filters"], asked["where"]),
            asker=current_request.asker(),
            min_relevance=ranking.get("score_threshold"),
        )
        answer = layers().search.search(request)
        notices += shortfalls(search_receipt(answer.receipt), least=request.min_relevance)
        for each in answer.results:
            known = found.get(passage_of(each))
            if known is None or score_of(each) > score_of(known):
                found[passage_of(each)] = each
    results = list(found.values())
    if len(asked["queries"]) > 1:  # scores of several questions compare; the order of one is that of the search
        results.sort(key=score_of, reverse=True)
    for sentence in dict.fromkeys(notices):
        unknown().say(sentence)
    return json_response(store_results(asked["queries"], results[:most], _file_of))


def _file_of(result: FusedResult) -> str | None:
    return file_of(result.metadata.get("source"), result.metadata.get("document_id"))
