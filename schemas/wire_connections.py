"""Bodies of the registry's routes."""

from __future__ import annotations

import math
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.collected import CollectRequest, SelectedCollection
from schemas.connections import KINDS
from schemas.wire import MAX_TOP_K, Body, Count, ModelName, Number, Text

MAX_COLLECTIONS = 100
MAX_CONNECTIONS_PAGE = 1000
MAX_MESSAGE_CHARACTERS = 32_768


class ConfigObject(fields.Field[dict[str, Any]]):
    """A configuration as it is; the provider's schema judges what is in it."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("must be an object")
        return value


class Distance(Number):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> float:
        number = super()._deserialize(value, attr, data, **options)
        if not math.isfinite(number):
            raise ValidationError("must be a finite number")
        return number


def _kind(**options: Any) -> Text:
    return Text(data_key="type", validate=validate.OneOf(KINDS), **options)


class NewConnection(Body):
    id = Text(required=True)
    kind = _kind(required=True)
    provider = Text(required=True)
    display_name = Text(load_default=None)
    config = ConfigObject(load_default=dict)


class ChangedConnection(Body):
    """What is left out stays, except in `config`, where only secrets do."""

    kind = _kind(load_default=None)
    provider = Text(load_default=None)
    display_name = Text(load_default=None)
    config = ConfigObject(required=True)


class Candidate(Body):
    """A connection that need not exist: a form, half filled or whole."""

    kind = _kind(required=True)
    provider = Text(required=True)
    config = ConfigObject(load_default=dict)


class TypedCandidate(Body):
    """The same where the path says the type."""

    provider = Text(required=True)
    config = ConfigObject(load_default=dict)


class EnvVarNames(Body):
    names = fields.List(Text(), load_default=list, validate=validate.Length(max=1000))
    text = Text(load_default="")


class Selected(Body):
    service = Text(required=True)
    name = Text(required=True)
    embedding_connection = Text(load_default="default")
    embedding_model = ModelName(load_default=None)

    @post_load
    def _to_record(self, loaded: dict[str, Any], **_: Any) -> SelectedCollection:
        return SelectedCollection(**loaded)


class Collect(Body):
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


class ConnectionsPage(Body):
    """Which part of all connections a query string means."""

    limit = Count(least=1, most=MAX_CONNECTIONS_PAGE, in_text=True, load_default=None)
    cursor = Text(load_default=None)


class Kind(Body):
    """Which of several connections or providers of one name a query string means."""

    kind = Text(data_key="type", load_default=None)


class EnvVarsShown(Body):
    """Taken for compatibility; nothing is shown in clear."""

    mask = Text(load_default=None)


class EnvVarsWanted(Body):
    """The field of a provider's form that a query string wants suggestions for."""

    provider = Text(load_default="")
    field = Text(load_default="")


KIND_ARGUMENTS, ENV_VARS_ARGUMENTS, SUGGESTION_ARGUMENTS = Kind(), EnvVarsShown(), EnvVarsWanted()
NEW_CONNECTION = NewConnection()
CHANGED_CONNECTION = ChangedConnection()
CANDIDATE = Candidate()
TYPED_CANDIDATE = TypedCandidate()
ENV_VAR_NAMES = EnvVarNames()
COLLECT = Collect()
CONNECTIONS_ARGUMENTS = ConnectionsPage()
