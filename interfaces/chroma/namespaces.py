"""Tenants and databases in Chroma's protocol."""

from __future__ import annotations

from flask import Blueprint, Response, request

from interfaces.chroma.face import DATABASE, ROOT, body_of, check_reset, check_whole, chroma_route
from schemas.names import DEFAULT_DATABASE, DEFAULT_TENANT
from schemas.wire.chroma.collection_bodies import database_answer, databases_answer, new_namespace
from schemas.wire.chroma.paging import page_of
from wrapper.web.bodies import json_response, read_body
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import store

blueprint = Blueprint("chroma_namespaces", __name__)


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
