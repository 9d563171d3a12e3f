"""`/v1/models`: the models that the caller may use, and which connection a client means by the name of one; and
`/v1/embeddings`: texts in, vectors out, by any embedding connection.

A model is called by its own name or by the id of its connection. Where several connections of a type have a model of
one name, it is that of the first; the others go by their connections' ids. `rag` answers from documents by the
service's chat model, and `rag/` before the id of a connection by that one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import cast

from flask import Blueprint, Response

from interfaces.openai.face import body_of
from interfaces.web.current_request import layers
from providers.chat.base import ChatProvider
from providers.embeddings.base import EmbeddingProvider, UnusableVectorError
from providers.outbound.refusals import RefusedTextsError
from retrieval.chunking.tokens import token_counter
from schemas.access.callers import Scope, current
from schemas.connections import Connection
from schemas.errors import InvalidInputError, NotFoundError, RagError
from schemas.wire.openai import known_models as wire
from schemas.wire.openai.embeddings import EMBEDDINGS, embeddings_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import change_lane
from wrapper.web.route_table import declare

RAG = "rag"
"""The model that answers from documents, by the service's chat model."""
FROM_DOCUMENTS = f"{RAG}/"
OWN = "rag-wrapper"

blueprint = Blueprint("openai_models", __name__, url_prefix="/v1")


class ModelNotFoundError(NotFoundError):
    code = "model_not_found"

    def __init__(self, name: str) -> None:
        super().__init__(f"The model '{name}' does not exist, or is not yours to use", field="model", model=name)


@blueprint.get("/models")
@declare(Lane.READ, own_rules=True)
def list_models() -> Response:
    return json_response(wire.known_models(_models()))


@blueprint.get("/models/<path:model>")
@declare(Lane.READ, own_rules=True)
def show_model(model: str) -> Response:
    known = dict(_models())
    if model not in known and current().may(Scope.CHAT):
        with suppress(ModelNotFoundError):
            known[model] = OWN if chat_of(model)[1] else _find(model, "llm").provider
    if model not in known and current().may(Scope.READ):
        known[model] = _find(model, "embedding").provider
    if model not in known:
        raise ModelNotFoundError(model)
    return json_response(wire.known_model(model, known[model]))


@blueprint.post("/embeddings")
@declare(Lane.EMBEDDING, body=EMBEDDINGS, own_rules=True, exact=True)
def embed() -> Response:
    asked = body_of(EMBEDDINGS)
    model, texts = asked["model"], asked["texts"]
    connection, provider = embedding_of(model)
    _check_dimensions(provider.dimension, asked["dimensions"], provider)
    if layers().connections.address(connection) is not None:
        change_lane(Lane.SERVICE)
    try:
        vectors = layers().embeddings.embed_all(connection.id, texts)
        has_direction = vectors.any(axis=1)
        if not has_direction.all():
            sentence = f"The embedding service '{provider.id}' answered a vector of zeros"
            raise UnusableVectorError(texts[int(has_direction.argmin())], sentence, provider=provider.id)
    except RefusedTextsError as error:
        raise error.moved(texts, field="input") from error
    except UnusableVectorError as error:
        raise error.among(texts, field="input") from error
    _check_dimensions(vectors.shape[1], asked["dimensions"], provider)
    counts = [token_counter(provider).count(text) for text in texts]
    most = provider.max_input_tokens
    cut = [] if most is None else [index for index, count in enumerate(counts) if count > most]
    return json_response(embeddings_answer(model, vectors, sum(counts), cut, asked["encoding_format"]))


def embedding_of(name: str) -> tuple[Connection, EmbeddingProvider]:
    """Return the embedding connection that is called by this name, or whose model is, and its provider.

    Raises ModelNotFoundError when there is none, and what `Connections.open` raises for one that is called so.
    """
    connection = _find(name, "embedding")
    return connection, cast(EmbeddingProvider, layers().connections.open(connection.id, "embedding"))


def chat_of(name: str) -> tuple[str | None, bool]:
    """Return (the id of the connection that a client means by the name of a chat model, None for the service's; whether
    it answers from documents). Raises ModelNotFoundError when there is none."""
    if name == RAG:
        return None, True
    connection_id = name.removeprefix(FROM_DOCUMENTS)
    if connection_id != name and any(each.id == connection_id for each in _of_kind("llm")):
        return connection_id, True
    return _find(name, "llm").id, False


def _check_dimensions(known: int | None, asked: int | None, provider: EmbeddingProvider) -> None:
    if asked is not None and known is not None and asked != known:
        raise InvalidInputError(
            f"'{provider.model}' makes vectors of {known} dimensions, and of no other number",
            code="invalid_field",
            field="dimensions",
            allowed=[known],
        )


def _find(name: str, kind: str) -> Connection:
    known = _of_kind(kind)
    for connection in known:
        if connection.id == name:
            return connection
    for connection, model in _usable(known):
        if model == name:
            return connection
    raise ModelNotFoundError(name)


def _models() -> Iterator[tuple[str, str]]:
    """Yield the models that the caller may use, each name of a type once: (the name that clients call it by, the
    provider of its connection)."""
    reads = current().may(Scope.READ)
    if current().may(Scope.CHAT):
        of_service = layers().connections.chat_model()
        for connection, name in _names("llm"):
            if reads:
                is_usual = connection.id == of_service
                yield RAG if is_usual else f"{FROM_DOCUMENTS}{connection.id}", OWN
            yield name, connection.provider
    if reads:
        for connection, name in _names("embedding"):
            yield name, connection.provider


def _names(kind: str) -> Iterator[tuple[Connection, str]]:
    """Yield each connection that can be used, with the name of its model."""
    seen: set[str] = set()
    for connection, model in _usable(_of_kind(kind)):
        name = connection.id if model in seen else model
        seen |= {model, name}
        yield connection, name


def _of_kind(kind: str) -> list[Connection]:
    """Return the connections of a type, the one that answers before the others."""
    connections = layers().connections
    chat = connections.chat_model()
    return sorted((each for each in connections.all() if each.kind == kind), key=lambda each: each.id != chat)


def _usable(connections: list[Connection]) -> Iterator[tuple[Connection, str]]:
    for connection in connections:
        try:
            provider = layers().connections.open(connection.id, connection.kind)
        except RagError:
            continue
        yield connection, cast(ChatProvider | EmbeddingProvider, provider).model
