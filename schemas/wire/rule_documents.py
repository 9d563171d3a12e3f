"""Bodies of contract *rules*, and its answers as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from marshmallow import fields, post_load, validate

from schemas.contracts.rule_documents import MAX_CHUNKS, IngestionResult, RAGContext, RetrieveRequest, RuleDocument
from schemas.wire.body import Body
from schemas.wire.checked_fields import CollectionName, Flag, Share, Words
from schemas.wire.fields import Count, Filtered, MetadataObject, Text
from schemas.wire.search import AskingCollections, collections_receipt

MAX_DOCUMENTS = 1_000

Json = dict[str, Any]


class Retrieve(AskingCollections, Filtered):
    query = Text(required=True)
    context_key = Words(required=True, validate=validate.Length(max=1_000))
    max_chunks = Count(least=1, most=MAX_CHUNKS, load_default=None)
    min_relevance = Share(load_default=None)

    @post_load
    def _to_request(self, loaded: Json, **_: Any) -> dict[str, RetrieveRequest]:
        return {"request": RetrieveRequest(**self.one_field(loaded))}


class Rule(Body):
    """A document; what else it must have is judged for each document, and told in the result."""

    document_id = fields.Raw(load_default=None)
    filename = Words(required=True)
    content = Text(required=True)
    metadata = MetadataObject(load_default=dict)

    @post_load
    def _to_document(self, loaded: Json, **_: Any) -> RuleDocument:
        return RuleDocument(**loaded)


class RuleBatch(Body):
    documents = fields.List(fields.Nested(Rule), required=True, validate=validate.Length(min=1, max=MAX_DOCUMENTS))
    collection = CollectionName(load_default=None)
    replace_missing = Flag(load_default=False)


RETRIEVE, RULE_BATCH = Retrieve(), RuleBatch()


def ingestion_result(result: IngestionResult) -> Json:
    return asdict(result)


def rag_context(context: RAGContext) -> Json:
    return {**asdict(context), "receipt": collections_receipt(context.receipt)}
