"""`/v1/models`: the models that the caller may use, and which connection a client means by the name of one.

A model of an embedding connection is called by its own name or by the id of its connection. Where several connections
have a model of one name, it is that of the first; the others go by their connections' ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flask import Blueprint, Response

from interfaces.web.current_request import layers
from providers.chat.base import ChatProvider
from providers.embeddings.base import EmbeddingProvider
from schemas.access.callers import Scope, current
from schemas.connections import Connection
from schemas.errors import NotFoundError, RagError
from schemas.wire.openai import known_models as wire
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.route_table import declare

RAG = "rag"
"""The model that answers from documents, by the chat model of the settings."""
OWN = "rag-wrapper"
CHAT = "chat"
"""The connection of the chat model."""

blueprint = Blueprint("openai_models", __name__, url_prefix="/v1/models")


class ModelNotFoundError(NotFoundError):
    code = "model_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"The model '{name}' does not exist, or is not yours to use", field="model", model=name)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model by the name that clients call it by; `owner` is the provider of its connection."""

    name: str
    owner: str


@blueprint.get("")
@declare(Lane.READ, own_rules=True)
def list_models() -> Response:
    return json_response(wire.known_models((each.name, each.owner) for each in _models()))


@blueprint.get("/<path:model>")
@declare(Lane.READ, own_rules=True)
def show_model(model: str) -> Response:
    known = {each.name: each for each in _models()}
    if model not in known and current().may(Scope.READ):
        connection, _ = embedding_of(model)
        known[model] = KnownModel(model, connection.provider)
    if model not in known:
        raise ModelNotFoundError(model)
    return json_response(wire.known_model(known[model].name, known[model].owner))


def embedding_of(name: str) -> tuple[Connection, EmbeddingProvider]:
    """Return the embedding connection that is called by this name, or whose model is, and its provider.

    Raises ModelNotFoundError when there is none, and what `Connections.open` raises for one that is called so.
    """
    connections = layers().connections
    of_embeddings = [each for each in connections.all() if each.kind == "embedding"]
    for connection in of_embeddings:
        if connection.id == name:
            return connection, _opened(connection)
    for connection, provider in _usable(of_embeddings):
        if provider.model == name:
            return connection, provider
    raise ModelNotFoundError(name)


def chat_model() -> tuple[str, str] | None:
    """Return (the name of the chat model, its provider), None where none is configured."""
    connections = layers().connections
    try:
        provider = connections.open(CHAT, "llm")
    except RagError:
        return None
    assert isinstance(provider, ChatProvider)
    return provider.model, provider.id


def _models() -> Iterator[KnownModel]:
    """Yield the models that the caller may use, each name once."""
    if current().may(Scope.CHAT) and (chat := chat_model()) is not None:
        if current().may(Scope.READ):
            yield KnownModel(RAG, OWN)
        yield KnownModel(*chat)
    if current().may(Scope.READ):
        seen: set[str] = set()
        for connection, provider in _usable([each for each in layers().connections.all() if each.kind == "embedding"]):
            name = connection.id if provider.model in seen else provider.model
            seen |= {provider.model, name}
            yield KnownModel(name, connection.provider)


def _usable(connections: list[Connection]) -> Iterator[tuple[Connection, EmbeddingProvider]]:
    for connection in connections:
        try:
            yield connection, _opened(connection)
        except RagError:
            continue


def _opened(connection: Connection) -> EmbeddingProvider:
    provider = layers().connections.open(connection.id, connection.kind)
    assert isinstance(provider, EmbeddingProvider)
    return provider
