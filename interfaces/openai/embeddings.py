"""`POST /v1/embeddings`: texts in, vectors out, by any embedding connection."""

from __future__ import annotations

from flask import Blueprint, Response

from interfaces.openai.face import body_of
from interfaces.openai.known_models import embedding_of
from interfaces.web.current_request import layers
from providers.embeddings.base import EmbeddingProvider, UnusableVectorError
from providers.outbound.refusals import RefusedTextsError
from retrieval.chunking.tokens import token_counter
from schemas.errors import InvalidInputError
from schemas.wire.openai.embeddings import EMBEDDINGS, embeddings_answer
from wrapper.web.bodies import json_response
from wrapper.web.lanes import Lane
from wrapper.web.request_parts import change_lane
from wrapper.web.route_table import declare

blueprint = Blueprint("openai_embeddings", __name__, url_prefix="/v1/embeddings")


@blueprint.post("")
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


def _check_dimensions(known: int | None, asked: int | None, provider: EmbeddingProvider) -> None:
    if asked is not None and known is not None and asked != known:
        raise InvalidInputError(
            f"'{provider.model}' makes vectors of {known} dimensions, and of no other number",
            code="invalid_field",
            field="dimensions",
            allowed=[known],
        )
