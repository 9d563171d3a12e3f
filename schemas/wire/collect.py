"""The body of `/api/collect`, and its answer as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.bounds import MAX_TOP_K
from schemas.contracts.collect import MATCH, Collected, CollectReceipt, CollectRequest, SelectedCollection
from schemas.wire.fields import Count, Filtered, ModelName, Number, Text

MAX_COLLECTIONS = 100
MAX_MESSAGE_CHARACTERS = 32_768

Json = dict[str, Any]


class Distance(Number):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> float:
        number = super()._deserialize(value, attr, data, **options)
        if not math.isfinite(number):
            raise ValidationError("must be a finite number")
        return number


class Selected(Filtered):
    service = Text(required=True)
    name = Text(required=True)
    embedding_connection = Text(load_default="default")
    embedding_model = ModelName(load_default=None)

    @post_load
    def _to_record(self, loaded: dict[str, Any], **_: Any) -> SelectedCollection:
        return SelectedCollection(**loaded)


class Collect(Filtered):
    user_message = Text(data_key="userMessage", required=True, validate=validate.Length(max=MAX_MESSAGE_CHARACTERS))
    topic = Text(load_default="", validate=validate.Length(max=MAX_MESSAGE_CHARACTERS))
    current_topic = Text(data_key="currentTopic", load_default="", validate=validate.Length(max=MAX_MESSAGE_CHARACTERS))
    collections = fields.List(
        fields.Nested(Selected),
        data_key="selectedCollections",
        required=True,
        validate=validate.Length(max=MAX_COLLECTIONS),
    )
    conversation_id = Text(data_key="conversationId", load_default=None)
    top_k = Count(least=1, most=MAX_TOP_K, load_default=3)
    match_threshold = Distance(load_default=None)
    partial_threshold = Distance(load_default=None)
    query_text = Text(data_key="queryText", load_default=None, validate=validate.Length(max=MAX_MESSAGE_CHARACTERS))

    @post_load
    def _to_request(self, loaded: dict[str, Any], **_: Any) -> dict[str, CollectRequest]:
        texts = (loaded["user_message"], loaded["topic"], loaded["current_topic"], loaded["query_text"] or "")
        if not any(text.strip() for text in texts):
            raise ValidationError("is blank: there is nothing to ask with", "userMessage")
        conversation_id = loaded.pop("conversation_id")
        if conversation_id is not None and not (conversation_id.isprintable() and 1 <= len(conversation_id) <= 200):
            raise ValidationError("must have 1 to 200 printable characters", "conversationId")
        request = CollectRequest(**{**loaded, "collections": tuple(loaded["collections"])})
        return {"request": request, "conversation_id": conversation_id}


COLLECT = Collect()


def collected_answer(collected: Collected) -> Json:
    """Spell the one match, all partial ones, or null under `data`."""
    results = [asdict(result) for result in collected.results]
    data = results[0] if collected.result == MATCH else results or None
    return {"result": collected.result, "data": data, "receipt": _receipt(collected.receipt)}


def _receipt(receipt: CollectReceipt) -> Json:
    return {
        "strategy": receipt.strategy,
        "query_text": receipt.query_text,
        "embeddings": {"generated": receipt.embeddings_generated, "reused": receipt.embeddings_reused},
        "collections": [
            {name: value for name, value in asdict(each).items() if name != "error" or value is not None}
            for each in receipt.collections
        ],
    }
