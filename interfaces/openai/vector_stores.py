"""`/v1/vector_stores`: made, listed, changed, deleted and searched. What a client says of one is kept beside its
collection."""

from __future__ import annotations

import re
import secrets
import unicodedata
from operator import attrgetter
from typing import Any, cast

from flask import Blueprint, Response

from interfaces.openai.face import IN_PATH, active_collection_of, behind, collection_of, page_of, store_id
from interfaces.openai.files import attach
from interfaces.openai.stored_files import counts
from interfaces.passages.shortfalls import shortfalls
from interfaces.web.current_request import layers
from providers.embeddings.base import EmbeddingProvider
from retrieval.ingest.collection_writer import text_collection_metadata
from retrieval.kept_files.kept_files import file_of
from retrieval.search.fusion import PassageKey, passage_of
from schemas.access.callers import current
from schemas.contracts.search import FusedResult, SearchRequest
from schemas.contracts.vector_stores import FileToAttach
from schemas.errors import ConflictError, InvalidInputError, NotFoundError, RagError
from schemas.names import check_collection_name
from schemas.records import Collection
from schemas.where import all_of
from schemas.wire.openai.paging import CURSOR_PAGE, listed
from schemas.wire.openai.store_search import STORE_SEARCH, score_of, store_results
from schemas.wire.openai.vector_stores import NEW_STORE, OF_STORE, changed_facts, deleted, new_facts, vector_store
from schemas.wire.search import search_receipt
from wrapper.web.bodies import decode_json, json_response, read_body
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, checked, store, unknown
from wrapper.web.route_table import declare
from wrapper.writing import WriteOptions

LISTING = "vector_stores"
MAX_NAME_CHARACTERS = 100
WHEN_MADE = dict.fromkeys(("description", "file_ids", "chunking_strategy"), "where a store is made")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+|\.{2,}")

blueprint = Blueprint("openai_vector_stores", __name__, url_prefix="/v1/vector_stores")


@blueprint.post("")
@declare(Lane.WRITE, body=NEW_STORE, places=True)
def create_store() -> Response:
    asked = body()
    files = asked["file_ids"]
    layers().kept_files.named(files, asker=current().asker)  # nothing is made for files that are not there
    collection = _made(asked["name"])
    layers().store_facts.keep(collection.id, new_facts(asked), is_new=True)
    if files:
        try:
            attach(collection, [FileToAttach(each, windows=asked["chunking_strategy"]) for each in files])
        except RagError:
            _delete(collection)
            raise
    return json_response(_spelt([collection])[0])


@blueprint.get("")
@declare(Lane.READ, query=CURSOR_PAGE)
def list_stores() -> Response:
    def place_of(vector_store_id: str) -> int | None:
        try:
            return collection_of(vector_store_id).key
        except NotFoundError:
            return None

    shown, has_more = page_of(
        arguments(),
        lambda start, newest_first: behind(store().collections(), start, newest_first, attrgetter("key")),
        place_of,
        listing=LISTING,
        what="vector store",
    )
    return json_response(listed(_spelt(shown), has_more=has_more))


@blueprint.get("/<vector_store_id>")
@declare(Lane.READ)
def show_store(vector_store_id: str) -> Response:
    return json_response(_spelt([collection_of(vector_store_id)])[0])


@blueprint.post("/<vector_store_id>")
@declare(Lane.WRITE, body=OF_STORE, elsewhere={**IN_PATH, **WHEN_MADE}, places=True)
def change_store(vector_store_id: str) -> Response:
    source = decode_json(read_body())
    changes = changed_facts(source, checked(source))
    collection = collection_of(vector_store_id)
    store().reach.check_writing(collection.name)
    layers().store_facts.keep(collection.id, changes)
    return json_response(_spelt([collection])[0])


@blueprint.delete("/<vector_store_id>")
@declare(Lane.WRITE)
def delete_store(vector_store_id: str) -> Response:
    collection = collection_of(vector_store_id)
    layers().store_facts.pass_by(LISTING, store_id(collection), collection.key)
    _delete(collection)
    return json_response(deleted("vector_store", vector_store_id))


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
            asker=current().asker,
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


def _delete(collection: Collection) -> None:
    store().delete_collection(collection.name, WriteOptions(collection_id=collection.id))
    layers().jobs.forget_collection(collection.id)
    layers().store_facts.forget(collection.id)


def _made(name: str | None) -> Collection:
    """Make a collection for a store of this name, and return it. Raises CollectionForbiddenError when the caller may
    have none of a name like it."""
    embedding = cast(EmbeddingProvider, layers().connections.open("default", "embedding"))
    metadata = text_collection_metadata(embedding)
    wanted = _collection_name(name)
    another = _within_reach(f"{wanted or 'store'}-{secrets.token_hex(8)}")
    tried = another if wanted is None else _within_reach(wanted)
    try:
        store().create_collection(tried, metadata, "cosine")
    except ConflictError:
        tried = another
        store().create_collection(tried, metadata, "cosine")
    return store().collection(tried)


def _collection_name(name: str | None) -> str | None:
    """Return the name of a collection that is like the free name of a store, None where there is none."""
    letters = unicodedata.normalize("NFKD", name or "").encode("ascii", "ignore").decode()
    like = _NOT_IN_NAMES.sub("-", letters)[:MAX_NAME_CHARACTERS].strip("._-")
    try:
        return check_collection_name(like)
    except InvalidInputError:
        return None


def _within_reach(name: str) -> str:
    """Return the name or, where the caller may have only collections whose names begin in one way, this beginning and
    the name."""
    caller = current()
    beginnings = [each.removesuffix("*") for each in caller.collections or () if each.endswith("*") and each[0] != "/"]
    return name if caller.knows(name) or len(beginnings) != 1 else beginnings[0] + name


def _spelt(collections: list[Collection]) -> list[dict[str, Any]]:
    known = layers().store_facts
    facts = known.of_collections([each.id for each in collections])
    sizes = store().file_listing.held_bytes([each.name for each in collections])
    return [
        vector_store(
            *(store_id(each), each.name, counts(each)),
            usage_bytes=sizes.get(each.name, 0),
            facts=facts.get(each.id),
            has_expired=known.has_expired(facts.get(each.id)),
        )
        for each in collections
    ]
