"""`/collections/{name}/reembed`: a collection gets the vectors of another model, while it is used."""

from __future__ import annotations

from typing import cast

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from providers.embeddings.base import EmbeddingProvider
from schemas.records import Metadata
from schemas.wire.storage.reembedding import REEMBED, dropped_vectors, reembedding_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import body, store
from wrapper.web.route_table import declare

blueprint = Blueprint("reembedding", __name__)

PATH = "/collections/<name>/reembed"


@blueprint.post(PATH)
@declare(Lane.WRITE, body=REEMBED)
def reembed(name: str) -> Response:
    asked, reembeddings = body(), store().reembeddings
    if asked["back"]:
        return json_response(reembedding_answer(reembeddings.go_back(name)))
    return json_response(reembedding_answer(reembeddings.begin(name, _embedding_by(asked["connection"]))), 202)


@blueprint.get(PATH)
@declare(Lane.READ)
def show_reembedding(name: str) -> Response:
    return json_response(reembedding_answer(store().reembeddings.of(name)))


@blueprint.delete(PATH)
@declare(Lane.WRITE)
def drop_vectors(name: str) -> Response:
    return json_response(dropped_vectors(store().reembeddings.end(name)))


def _embedding_by(connection_id: str) -> Metadata:
    """Return what a collection's metadata say when a connection of the caller's made its vectors. Raises what
    `Connections.live` raises."""
    connection = cast(EmbeddingProvider, layers().connections.open(connection_id, "embedding"))
    return {
        "embedding_provider": connection.id,
        "embedding_model": connection.model,
        "embedding_connection": connection_id,
    }
