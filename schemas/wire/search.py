"""The body of a search and its answer as JSON, the same over every interface."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from marshmallow import ValidationError, fields, post_load

from schemas.bounds import DEFAULT_RESULTS, MAX_RESULTS
from schemas.connections import CollectionInfo
from schemas.contracts.chat import PLACES
from schemas.contracts.search import (
    ASKED,
    LEFT_OUT,
    CollectionsReceipt,
    Explanation,
    FusedResult,
    OracleReceipt,
    OracleVerdict,
    Provenance,
    RerankReceipt,
    SearchAnswer,
    SearchedGroup,
    SearchReceipt,
    SearchRequest,
)
from schemas.names import asked_collections
from schemas.records import Group, SearchPlan
from schemas.ways import FUSIONS
from schemas.wire.body import Body
from schemas.wire.checked_fields import Share
from schemas.wire.fields import Choice, Count, Filtered, Names, Text
from schemas.wire.storage.query import Gather

MAX_EXPLAINED = 100

Json = dict[str, Any]


class Weights(fields.Field[dict[str, float]]):
    """A number for each named oracle."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> dict[str, float]:
        if not isinstance(value, dict):
            raise ValidationError("must be an object of numbers by oracle")
        weights = {name: weight for name, weight in value.items() if weight is not None}
        for name, weight in weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise ValidationError({name: "must be a number"})
        return weights


class Explained(fields.Field[bool | tuple[str, ...]]):
    """True for everything that was cut, or the id of a document, or a list of ids."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> bool | tuple[str, ...]:
        if isinstance(value, bool):
            return value
        ids = [value] if isinstance(value, str) else value
        if not isinstance(ids, list) or not all(isinstance(each, str) and each for each in ids):
            raise ValidationError("must be true, the id of a document or a list of ids")
        if len(ids) > MAX_EXPLAINED:
            raise ValidationError(f"must name at most {MAX_EXPLAINED} documents")
        return tuple(ids)


class AskingCollections(Body):
    """A body that names collections: under `collections`, or the older `collection`, as a list or comma separated."""

    collections = Names(load_default=None)
    collection = Names(load_default=None)

    @staticmethod
    def one_field(loaded: Json) -> Json:
        """Return what was loaded, with the named collections under `collections` alone. Raises InvalidInputError when a
        name is invalid."""
        names = asked_collections(loaded)
        return {name: value for name, value in loaded.items() if name != "collection"} | {"collections": names}


class Search(AskingCollections, Filtered):
    query = Text(required=True, error_messages={"required": "is required"})
    limit = Count(least=1, most=MAX_RESULTS, load_default=DEFAULT_RESULTS)
    oracles = Names(load_default=None)
    weights = Weights(load_default=dict)
    explain = Explained(load_default=False)
    gather = fields.Nested(Gather, load_default=None)
    fusion = Choice(FUSIONS, load_default=None)
    min_relevance = Share(load_default=None)
    rerank = Text(load_default=None)
    max_per_document = Count(least=1, most=MAX_RESULTS, load_default=None)

    @post_load
    def _to_request(self, loaded: Json, **_: Any) -> dict[str, SearchRequest]:
        return {"request": SearchRequest(**self.one_field(loaded))}


SEARCH_REQUEST = Search()


def search_answer(answer: SearchAnswer) -> Json:
    """Spell an answer as `{results, receipt}`, with `groups` and `explanations` when they were asked for. The receipt
    of an answer that explains has the plans."""
    receipt = search_receipt(answer.receipt, with_plans=answer.explanations is not None)
    body: Json = {"results": [_result(each) for each in answer.results], "receipt": receipt}
    if answer.groups is not None:
        body["groups"] = [_group(each) for each in answer.groups]
    if answer.explanations is not None:
        body["explanations"] = [_explanation(each) for each in answer.explanations]
    return body


def _result(result: FusedResult) -> Json:
    reranked = {} if result.rerank_score is None else {"rerank_score": result.rerank_score}
    return {
        "doc_id": result.doc_id,
        "collection": result.collection,
        "chunk_id": result.chunk_id,
        **({"chunk_ids": list(result.chunk_ids)} if result.chunk_ids else {}),
        "content": result.content,
        "score": result.score,
        "relevance": result.relevance,
        "rrf_score": result.rrf_score,
        **reranked,
        "sources": list(result.sources),
        "provenance": {name: _provenance(place) for name, place in result.provenance.items()},
        "metadata": result.metadata,
    }


def _provenance(place: Provenance) -> Json:
    return {"rank": place.rank, "score": place.score}


def search_receipt(receipt: SearchReceipt, *, with_plans: bool = False) -> Json:
    told: Json = {"fusion": receipt.fusion}
    if receipt.asked_text is not None:
        told["asked_text"] = receipt.asked_text
    if receipt.compared_by is not None:
        told["compared_by"] = receipt.compared_by
    if receipt.min_relevance is not None:
        told |= {"min_relevance": receipt.min_relevance, "below_min_relevance": receipt.below_min_relevance}
    if receipt.max_per_document is not None:
        told |= {"max_per_document": receipt.max_per_document, "held_back": receipt.held_back}
    if receipt.rerank is not None:
        told["rerank"] = _rerank(receipt.rerank)
    return {
        "oracles": {name: _oracle(each, with_plans=with_plans) for name, each in receipt.oracles.items()},
        **told,
        "rrf_k": receipt.rrf_k,
        "fetch_multiplier": receipt.fetch_multiplier,
        "fetched": receipt.fetched,
        "weights": dict(receipt.weights),
        **collections_receipt(receipt.collections),
    }


def _rerank(receipt: RerankReceipt) -> Json:
    said: Json = {
        "connection": receipt.connection,
        "status": receipt.status,
        "count": receipt.count,
        "latency_ms": receipt.latency_ms,
    }
    return said if receipt.error is None else {**said, "error": receipt.error}


def collections_receipt(receipt: CollectionsReceipt) -> Json:
    """Spell a receipt as `{collections: {name: {status, reason?}}}`, and say how many more were left out when there are
    too many to name."""
    asked: Json = {name: {"status": ASKED} for name in receipt.asked}
    left_out = {name: {"status": LEFT_OUT, "reason": reason} for name, reason in receipt.left_out.items()}
    told: Json = {"collections": asked | left_out}
    return told | {"collections_not_named": receipt.unnamed} if receipt.unnamed else told


def _oracle(receipt: OracleReceipt, *, with_plans: bool) -> Json:
    said: Json = {"status": receipt.status, "count": receipt.count, "latency_ms": receipt.latency_ms}
    if receipt.error is not None:
        said["error"] = receipt.error
    if receipt.left_out:
        said["left_out"] = dict(receipt.left_out)
    if with_plans and receipt.plans:
        said["plans"] = {name: _plan(each) for name, each in receipt.plans.items()}
    return said


def _plan(plan: SearchPlan) -> Json:
    told = {"plan": plan.name, "compared": plan.compared, "recall_at_10": plan.recall}
    return {name: value for name, value in told.items() if value is not None}


def _group(found: SearchedGroup) -> Json:
    group = found.group
    told = {"collection": found.collection, "key": group.key, "rank": group.rank, **_members(group)}
    return told if group.text is None else told | {"text": group.text}


def gathered_group(collection: str, by: str, group: Group, warnings: list[str]) -> Json:
    """Spell the answer of `rag_gather`: the section or document around a chunk, its text and where that stands."""
    members = _members(group)
    hit = next(each["metadata"] for each in members["documents"] if each["hit"])
    members["documents"] = [
        {
            **{name: each[name] for name in ("id", "hit", "place")},
            **{name: each["metadata"][name] for name in PLACES if name in each["metadata"] and name != "section"},
        }
        for each in members["documents"]
    ]
    of_all = {name: hit[name] for name in ("source", "title", "section") if name in hit}
    told = {"collection": collection, "by": by, "key": group.key, **of_all, "text": group.text, **members}
    return told | {"warnings": warnings} if warnings else told


def text_collections(collections: Iterable[CollectionInfo]) -> Json:
    """Spell the answer of `rag_collections`."""
    shown = ("name", "count", "metric", "dimension", "metadata")
    return {"collections": [{name: getattr(each, name) for name in shown} for each in collections]}


def _members(group: Group) -> Json:
    members = zip(group.documents, group.places, strict=True)
    return {
        "documents": [
            {"id": each.id, "text": each.text, "hit": each.id in group.hits, "place": place, "metadata": each.metadata}
            for each, place in members
        ],
        "total": group.total,
        "complete": len(group.documents) == group.total,
    }


def _explanation(explanation: Explanation) -> Json:
    return {
        "doc_id": explanation.doc_id,
        "collection": explanation.collection,
        "rank": explanation.rank,
        "rrf_score": explanation.rrf_score,
        "reason": explanation.reason,
        "oracles": {name: _verdict(verdict) for name, verdict in explanation.oracles.items()},
    }


def _verdict(verdict: OracleVerdict) -> Json:
    return {"reason": verdict.reason} if verdict.provenance is None else _provenance(verdict.provenance)
