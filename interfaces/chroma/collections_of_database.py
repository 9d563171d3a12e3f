"""Tenants, databases and collections in Chroma's protocol. Collections are named in paths that read or delete one, and
told by their UUIDs in all others."""

from __future__ import annotations

from dataclasses import replace

import orjson
from flask import Blueprint, Response, request

from interfaces.chroma.face import (
    DATABASE,
    ROOT,
    body_of,
    check_reset,
    check_whole,
    chroma_route,
    collection_of,
    noted,
    on_collection,
)
from schemas.access.callers import Scope
from schemas.errors import CollectionNotFoundError
from schemas.names import DEFAULT_DATABASE, DEFAULT_TENANT, full_name
from schemas.records import Collection
from schemas.storage.outcomes import CollectionOutcome, EarlierAnswer
from schemas.wire.chroma.collection_bodies import (
    collection_answer,
    collection_change,
    collections_answer,
    database_answer,
    databases_answer,
    indexing_answer,
    new_collection,
    new_namespace,
)
from schemas.wire.chroma.configuration import changed_configuration, check_changed_metadata
from schemas.wire.chroma.paging import page_of
from wrapper.scoped_store import ScopedStore
from wrapper.web.bodies import json_response, read_body
from wrapper.web.callers import require
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import store, write_options
from wrapper.writing import Written

blueprint = Blueprint("chroma_collections", __name__)


@blueprint.post(f"{ROOT}/tenants")
@chroma_route(Lane.WRITE)
def create_tenant() -> Response:
    store().namespaces.create_tenant(new_namespace(body_of(read_body())))
    return json_response({})


@blueprint.get(f"{ROOT}/tenants/<tenant>")
@chroma_route(Lane.READ)
def get_tenant(tenant: str) -> Response:
    store().namespaces.check_tenant(tenant)
    return json_response({"name": tenant, "resource_name": None})


@blueprint.get(f"{ROOT}/tenants/<tenant>/databases")
@chroma_route(Lane.READ)
def list_databases(tenant: str) -> Response:
    offset, limit = page_of(request.args)
    found = store().namespaces.databases(tenant)
    return json_response(databases_answer(found[offset : None if limit is None else offset + limit]))


@blueprint.post(f"{ROOT}/tenants/<tenant>/databases")
@chroma_route(Lane.WRITE)
def create_database(tenant: str) -> Response:
    store().namespaces.create_database(tenant, new_namespace(body_of(read_body())))
    return json_response({})


@blueprint.get(DATABASE)
@chroma_route(Lane.READ)
def get_database(tenant: str, database: str) -> Response:
    return json_response(database_answer(store().namespaces.database(tenant, database)))


@blueprint.delete(DATABASE)
@chroma_route(Lane.WRITE)
def delete_database(tenant: str, database: str) -> Response:
    """Delete a database with all that is in it; the default one is only emptied, so that it is a reset."""
    check_whole()
    if (tenant, database) == (DEFAULT_TENANT, DEFAULT_DATABASE):
        check_reset()
    store().namespaces.delete_database(tenant, database)
    return json_response({})


@blueprint.post(f"{DATABASE}/collections")
@chroma_route(Lane.WRITE)
def create_collection(tenant: str, database: str) -> Response:
    """Make a collection. Who may only read gets one that is there, when they ask to get or create it."""
    content = read_body()
    wanted = new_collection(body_of(content))
    name = full_name(tenant, database, wanted.name)
    if wanted.get_or_create:
        try:
            return json_response(collection_answer(store().collection(name)))
        except CollectionNotFoundError:
            pass
    require(Scope.MANAGE)
    store().namespaces.database(tenant, database)
    written = store().create_collection(
        name,
        wanted.metadata,
        wanted.metric,
        write_options(content),
        get_or_create=wanted.get_or_create,
        configuration=orjson.dumps(wanted.configuration).decode(),
    )
    made = noted(written)
    return json_response(collection_answer(store().collection(name) if isinstance(made, EarlierAnswer) else made))


@blueprint.get(f"{DATABASE}/collections")
@chroma_route(Lane.READ)
def list_collections(tenant: str, database: str) -> Response:
    offset, limit = page_of(request.args)
    found = store().namespaces.collections(tenant, database, offset=offset, limit=limit)
    return json_response(collections_answer(found))


@blueprint.get(f"{DATABASE}/collections_count")
@chroma_route(Lane.READ)
def count_collections(tenant: str, database: str) -> Response:
    return json_response(len(store().namespaces.collections(tenant, database)))


@blueprint.get(f"{DATABASE}/collections/<name>")
@chroma_route(Lane.READ)
def get_collection(tenant: str, database: str, name: str) -> Response:
    return json_response(collection_answer(store().collection(full_name(tenant, database, name))))


@blueprint.get(f"{DATABASE}/collections/by-id/<collection_id>")
@chroma_route(Lane.READ)
def get_collection_by_id(tenant: str, database: str, collection_id: str) -> Response:
    return json_response(collection_answer(collection_of(tenant, database, collection_id)[1]))


@blueprint.put(f"{DATABASE}/collections/<name>")
@chroma_route(Lane.WRITE)
def change_collection(tenant: str, database: str, name: str) -> Response:
    """Change a collection, which Chroma's clients name by its id here."""
    content = read_body()
    change = collection_change(body_of(content))

    def configuration(collection: Collection) -> str:
        assert change.configuration is not None
        return changed_configuration(collection, change.configuration)

    def changed(own: ScopedStore, found: Collection) -> Written[CollectionOutcome]:
        check_changed_metadata(found, change.metadata or {})
        return own.records.change_collection(
            found.name,
            replace(write_options(content), collection_id=found.id),
            new_name=None if change.name is None else full_name(tenant, database, change.name),
            metadata=change.metadata,
            configuration=None if change.configuration is None else configuration,
        )

    noted(on_collection(tenant, database, name, changed))
    return json_response({})


@blueprint.delete(f"{DATABASE}/collections/<name>")
@chroma_route(Lane.WRITE)
def delete_collection(tenant: str, database: str, name: str) -> Response:
    check_whole()
    noted(store().delete_collection(full_name(tenant, database, name), write_options()))
    return json_response({})


@blueprint.get(f"{DATABASE}/collections/<collection_id>/indexing_status")
@chroma_route(Lane.READ)
def indexing_status(tenant: str, database: str, collection_id: str) -> Response:
    own, found = collection_of(tenant, database, collection_id)
    return json_response(indexing_answer(found.count, own.records.waiting_writes(found.name)))
