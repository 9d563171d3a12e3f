"""Dify's external knowledge API as JSON: its questions, its records and its errors."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.bounds import DEFAULT_RESULTS, MAX_RESULTS
from schemas.contracts.dify import Condition, Retrieval
from schemas.contracts.search import FusedResult, SearchAnswer
from schemas.errors import (
    CollectionNotFoundError,
    InvalidInputError,
    MalformedAuthorizationError,
    NotFoundError,
    RagError,
)
from schemas.names import asked_collections
from schemas.where import CHROMA_NAMES, ID, TEXT, is_reserved
from schemas.wire.body import Body, Refusal
from schemas.wire.checked_fields import Share, Words
from schemas.wire.error_bodies import own_fields
from schemas.wire.fields import Choice, Count, Filtered, Text
from schemas.words.operators import meant

Json = dict[str, Any]

MAX_CONDITIONS = 20
MAX_VALUES = 100
"""The most values that one condition names."""
OPERATORS = (
    *("contains", "not contains", "start with", "end with", "is", "is not", "in", "not in", "empty", "not empty"),
    *("=", "≠", ">", "<", "≥", "≤", "before", "after"),
)
SPELLINGS = {"!=": "≠", ">=": "≥", "<=": "≤", "==": "="}
"""What people who write requests by hand type for the operators that keyboards lack."""
OF_FILTERS = {
    **{"$eq": "is", "$ne": "is not", "$gt": ">", "$gte": "≥", "$lt": "<", "$lte": "≤", "$in": "in", "$nin": "not in"},
    **{"$contains": "contains", "$not_contains": "not contains", "$exists": "not empty"},
}
"""What our own filters call some of the operators."""
WITHOUT_VALUE = ("empty", "not empty")
LISTING = ("in", "not in")
"""The operators for which a text may be several values, with commas between them."""
BAD_HEADER, NOT_ALLOWED, NO_SUCH_KNOWLEDGE = 1001, 1002, 2001
"""The codes that Dify documents; other errors have their status as the code."""


class ConditionNames(fields.Field[tuple[str, ...]]):
    """The name of a field or, as earlier releases of Dify send it, a list of names."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not names or not all(isinstance(each, str) and each for each in names):
            raise ValidationError("must be the name of a field")
        for each in filter(is_reserved, names):
            likely = "" if each in (ID, TEXT, *CHROMA_NAMES) else each.lstrip("#$")
            also = f": did you mean '{likely[:100]}'?" if likely not in ("", each) else ""
            raise ValidationError(f"must be the name of a field, which '{each[:100]}' is not{also}")
        if len(names) > MAX_CONDITIONS:
            raise ValidationError(f"must name at most {MAX_CONDITIONS} fields")
        return tuple(dict.fromkeys(names))


class Operator(Choice):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        known = SPELLINGS.get(value, value) if isinstance(value, str) else value
        try:
            return super()._deserialize(known, attr, data, **options)
        except ValidationError as error:
            likely = meant(value, OF_FILTERS) if isinstance(value, str) else None
            also = "" if likely is None else f": did you mean '{OF_FILTERS[likely]}'?"
            raise ValidationError([Refusal(f"{error.messages[0]}{also}", allowed=list(OPERATORS))]) from None


class OneCondition(Body):
    names = ConditionNames(required=True, data_key="name")
    operator = Operator(OPERATORS, required=True, data_key="comparison_operator")
    value = fields.Raw(load_default=None)

    @post_load
    def _to_condition(self, loaded: Json, **_: Any) -> Condition:
        operator = loaded["operator"]
        if operator in WITHOUT_VALUE:
            return Condition(loaded["names"], operator)
        given = loaded["value"]
        values = given if isinstance(given, list) else _separate(given) if operator in LISTING else [given]
        if not all(isinstance(each, str | int | float) for each in values) or given == []:
            raise ValidationError("must be a string, a number or a list of them", "value")
        if len(values) > MAX_VALUES:
            raise ValidationError(f"must have at most {MAX_VALUES} elements", "value")
        return Condition(loaded["names"], operator, tuple(values))


class Conditions(Body):
    logical_operator = Choice(("and", "or"), load_default="and")
    conditions = fields.List(
        fields.Nested(OneCondition), load_default=list, validate=validate.Length(max=MAX_CONDITIONS)
    )


class RetrievalSetting(Body):
    top_k = Count(least=1, most=MAX_RESULTS, capped=True, load_default=DEFAULT_RESULTS)
    score_threshold = Share(load_default=None)


class RetrievalBody(Filtered):
    knowledge_id = Text(load_default="")
    query = Words(load_default=None)
    retrieval_setting = fields.Nested(RetrievalSetting, load_default=lambda: RetrievalSetting().load({}))
    metadata_condition = fields.Nested(Conditions, load_default=lambda: Conditions().load({}))

    @post_load(pass_original=True)
    def _to_retrieval(self, loaded: Json, given: Json, **_: Any) -> Json:
        if not given:  # Dify looks whether anybody answers
            return {"retrieval": None}
        if loaded["query"] is None:
            raise ValidationError("is required", "query")
        if given.get("knowledge_id", "") is None:  # a variable without a value, which would ask all collections
            raise ValidationError("must be a string", "knowledge_id")
        setting, condition = loaded["retrieval_setting"], loaded["metadata_condition"]
        return {
            "retrieval": Retrieval(
                loaded["query"],
                _collections(loaded["knowledge_id"]),
                top_k=setting["top_k"],
                score_threshold=setting["score_threshold"],
                conditions=tuple(condition["conditions"]),
                any_holds=condition["logical_operator"] == "or",
                where=loaded["where"],
            )
        }


RETRIEVAL = RetrievalBody()


def records(answer: SearchAnswer | None) -> Json:
    """Spell the results of a search, None for one that was not made."""
    return {"records": [] if answer is None else [_record(each) for each in answer.results]}


def error_body(error: RagError, status: int) -> Json:
    """Spell an error as Dify's `error_code` and `error_msg`, beside our own `code` and `details`."""
    return {"error_code": _error_code(error, status), "error_msg": error.message, **own_fields(error)}


def _separate(value: Any) -> list[Any]:
    return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else [value]


def _collections(knowledge_id: str) -> tuple[str, ...] | None:
    if not knowledge_id.strip():
        return None
    names = [name.strip() for name in knowledge_id.split(",")]
    try:
        return asked_collections({"collections": [name for name in names if name] or names})
    except InvalidInputError:  # what no collection can be called does not exist
        raise NotFoundError(
            f"There is no knowledge '{knowledge_id[:100]}'", code=CollectionNotFoundError.code
        ) from None


def _record(result: FusedResult) -> Json:
    told = result.metadata
    about = {"collection": result.collection, "document_id": result.doc_id, "chunk_id": result.chunk_id}
    return {
        "content": result.content,
        # Where nobody can tell the relevance, because nothing embeds now, the fused score is in 0 to 1 as well.
        "score": result.score if result.relevance is None else result.relevance,
        "title": _title(told) or result.doc_id,
        "metadata": {**told, **about},
    }


def _title(metadata: Json) -> str:
    for name in ("title", "path", "source"):
        value = metadata.get(name)
        if isinstance(value, str) and value.strip():
            return value if name == "title" else PurePosixPath(value).name or value
    return ""


def _error_code(error: RagError, status: int) -> int:
    if isinstance(error, MalformedAuthorizationError) or error.code in ("key_missing", "key_ambiguous"):
        return BAD_HEADER
    if status == 403:
        return NOT_ALLOWED
    return NO_SUCH_KNOWLEDGE if error.code == CollectionNotFoundError.code else status
