"""Re-embeddings on the wire: what asks for one, and how far it is."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, validates_schema

from schemas.storage.reembedding import Reembedding, Status
from schemas.wire.body import ExactBody
from schemas.wire.checked_fields import Flag, Words

Answer = dict[str, Any]


class Reembed(ExactBody):
    """The connection whose model makes the new vectors, or the wish to have the old ones back."""

    connection = Words(load_default=None)
    back = Flag(load_default=False)

    @validates_schema(skip_on_field_errors=True)
    def _check(self, loaded: dict[str, Any], **_: Any) -> None:
        if loaded["back"] and loaded["connection"] is not None:
            raise ValidationError("goes without connection: the old vectors are there", "back")
        if not loaded["back"] and loaded["connection"] is None:
            raise ValidationError("is required", "connection")


REEMBED = Reembed()


def reembedding_answer(state: Reembedding) -> Answer:
    return {
        "collection": state.collection,
        "status": state.status.value,
        "connection": state.connection,
        "model": state.model,
        "from_connection": state.from_connection,
        "from_model": state.from_model,
        "documents": state.documents,
        "documents_done": state.documents_done,
        "error": state.error,
        "old_vectors_kept": state.status == Status.COMPLETE,
        "can_go_back": state.can_go_back,
    }


def dropped_vectors(state: Reembedding) -> Answer:
    """Return the answer about vectors that were dropped, when this was the state before: the model that made them, and
    that of those that the collection is searched by."""
    models = [state.model, state.from_model]
    searched, dropped = models if state.status == Status.COMPLETE else reversed(models)
    return {"collection": state.collection, "dropped_model": dropped, "model": searched}
