"""`/v1/vector_stores`: made, listed, changed and deleted. What a client says of one is kept beside its collection."""

from __future__ import annotations

import re
import secrets
import unicodedata
from typing import cast

from flask import Blueprint, Response

from interfaces.openai.face import IN_PATH
from interfaces.openai.stored_files import counts
from interfaces.openai.stores import collection_of, store_id
from interfaces.web import current_request
from interfaces.web.current_request import layers
from providers.embeddings.base import EmbeddingProvider
from retrieval.ingest.collection_writer import text_collection_metadata
from schemas.access.callers import current
from schemas.contracts.vector_stores import FileToAttach, KnownStore, StoreFacts
from schemas.errors import ConflictError, InvalidInputError, NotFoundError, RagError
from schemas.names import check_collection_name
from schemas.records import Collection
from schemas.wire.openai.paging import CURSOR_PAGE, DESCENDING, listed
from schemas.wire.openai.vector_stores import NEW_STORE, OF_STORE, changed_facts, deleted, new_facts, vector_store
from wrapper.web.bodies import decode_json, json_response, read_body
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import arguments, body, checked, store
from wrapper.web.route_table import declare
from wrapper.writing import WriteOptions

LISTING = "vector_stores"
MAX_NAME_CHARACTERS = 100
TRIES = 5
WHEN_MADE = dict.fromkeys(("description", "file_ids", "chunking_strategy"), "where a store is made")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9._-]+|\.{2,}")

blueprint = Blueprint("openai_vector_stores", __name__, url_prefix="/v1/vector_stores")


@blueprint.post("")
@declare(Lane.WRITE, body=NEW_STORE, places=True)
def create_store() -> Response:
    asked = body()
    asker, files = current_request.asker(), asked["file_ids"]
    layers().kept.files.named(files, asker=asker)  # nothing is made for files that are not there
    collection = _made(asked["name"])
    facts = layers().kept.facts.keep(collection.id, new_facts(asked), is_new=True)
    if files:
        wanted = [FileToAttach(each, windows=asked["chunking_strategy"]) for each in files]
        try:
            layers().kept.attaching.attach(collection.id, collection.name, wanted, asker=asker)
        except RagError:
            _delete(collection)
            raise
    return _answer(collection, facts)


@blueprint.get("")
@declare(Lane.READ, query=CURSOR_PAGE)
def list_stores() -> Response:
    asked = arguments()
    newest_first, after, before = asked["order"] == DESCENDING, asked["after"], asked["before"]
    if after is not None and before is not None:
        raise InvalidInputError("after and before cannot both be given", code="invalid_field", field="before")
    collections = sorted(store().collections(), key=lambda each: each.key, reverse=newest_first)
    if after is not None:
        place = _place_of(after, "after")
        collections = [each for each in collections if (each.key < place if newest_first else each.key > place)]
    if before is not None:
        place = _place_of(before, "before")
        collections = [each for each in collections if (each.key > place if newest_first else each.key < place)]
    most = asked["limit"]
    shown = collections[:most] if before is None else collections[-most:]
    facts = layers().kept.facts.all()
    told = [_store(each, facts.get(each.id), sizes) for sizes in [_sizes(shown)] for each in shown]
    spelt = [vector_store(each, has_expired=layers().kept.facts.has_expired(each.facts)) for each in told]
    return json_response(listed(spelt, has_more=len(collections) > most))


@blueprint.get("/<vector_store_id>")
@declare(Lane.READ)
def show_store(vector_store_id: str) -> Response:
    collection = collection_of(vector_store_id)
    return _answer(collection, layers().kept.facts.one(collection.id))


@blueprint.post("/<vector_store_id>")
@declare(Lane.WRITE, body=OF_STORE, elsewhere={**IN_PATH, **WHEN_MADE}, places=True)
def change_store(vector_store_id: str) -> Response:
    source = decode_json(read_body())
    changes = changed_facts(source, checked(source))
    collection = collection_of(vector_store_id)
    store().reach.check_writing(collection.name)
    return _answer(collection, layers().kept.facts.keep(collection.id, changes))


@blueprint.delete("/<vector_store_id>")
@declare(Lane.WRITE)
def delete_store(vector_store_id: str) -> Response:
    collection = collection_of(vector_store_id)
    layers().kept.facts.pass_by(LISTING, store_id(collection), collection.key)
    _delete(collection)
    return json_response(deleted("vector_store", vector_store_id))


def _delete(collection: Collection) -> None:
    store().delete_collection(collection.name, WriteOptions(collection_id=collection.id))
    layers().kept.attached.forget_collection(collection.id)
    layers().kept.facts.forget(collection.id)


def _made(name: str | None) -> Collection:
    """Make a collection for a store of this name, and return it. Raises CollectionForbiddenError when the caller may
    have none of a name like it."""
    embedding = cast(EmbeddingProvider, layers().connections.open("default", "embedding"))
    metadata = text_collection_metadata(embedding)
    wanted = _collection_name(name)
    for attempt in range(TRIES):
        tried = wanted if wanted is not None and attempt == 0 else f"{wanted or 'store'}-{secrets.token_hex(4)}"
        tried = _within_reach(tried)
        try:
            store().create_collection(tried, metadata, "cosine")
        except ConflictError:
            if attempt == TRIES - 1:
                raise
        else:
            break
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


def _place_of(vector_store_id: str, field: str) -> int:
    try:
        return collection_of(vector_store_id).key
    except NotFoundError:
        passed = layers().kept.facts.passed(LISTING, vector_store_id)
    if passed is None:
        raise InvalidInputError(f"{field} is the id of no vector store", code="invalid_cursor", field=field)
    return int(passed)


def _sizes(collections: list[Collection]) -> dict[str, int]:
    return store().file_listing.held_bytes([each.name for each in collections])


def _store(collection: Collection, facts: StoreFacts | None, sizes: dict[str, int]) -> KnownStore:
    return KnownStore(
        id=store_id(collection),
        collection=collection.name,
        counts=counts(collection),
        usage_bytes=sizes.get(collection.name, 0),
        facts=facts,
    )


def _answer(collection: Collection, facts: StoreFacts | None) -> Response:
    known = _store(collection, facts, _sizes([collection]))
    return json_response(vector_store(known, has_expired=layers().kept.facts.has_expired(facts)))
