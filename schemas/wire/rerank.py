"""The body of `/rerank`, and its answer as JSON."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.contracts.rerank import MAX_CHARACTERS, MAX_DOCUMENTS, RerankAnswer, RerankDocument, RerankRequest
from schemas.contracts.search import check_query
from schemas.wire.body import Body
from schemas.wire.checked_fields import Words
from schemas.wire.fields import Count, Text

MAX_ID_CHARACTERS = 512

Json = dict[str, Any]


class Document(Body):
    id = Words(required=True, validate=validate.Length(max=MAX_ID_CHARACTERS))
    text = Words(required=True)

    @post_load
    def _to_document(self, loaded: Json, **_: Any) -> RerankDocument:
        return RerankDocument(**loaded)


class Rerank(Body):
    query = Text(required=True, validate=check_query)
    documents = fields.List(fields.Nested(Document), required=True, validate=validate.Length(min=1, max=MAX_DOCUMENTS))
    top_k = Count(least=1, most=MAX_DOCUMENTS, load_default=None)
    connection = Text(load_default=None)

    @post_load
    def _to_request(self, loaded: Json, **_: Any) -> dict[str, RerankRequest]:
        documents = tuple(loaded.pop("documents"))
        if sum(len(each.text) for each in documents) > MAX_CHARACTERS:
            raise ValidationError(f"must have at most {MAX_CHARACTERS} characters together", "documents")
        return {"request": RerankRequest(documents=documents, **loaded)}


RERANK = Rerank()


def rerank_answer(answer: RerankAnswer) -> Json:
    """Spell an answer as `{reranked: [{id, score, original_rank}], connection}`."""
    reranked = [{"id": each.id, "score": each.score, "original_rank": each.original_rank} for each in answer.reranked]
    return {"reranked": reranked, "connection": answer.connection}
