"""Collections on the wire: the bodies that make and change them, and the answers about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marshmallow import fields, post_load, validate

from schemas.bounds import MAX_PAGE
from schemas.metadata import METRIC_KEY, check_collection_metadata
from schemas.names import NAME_BEGINNING, check_collection_name
from schemas.records import METRICS, Collection
from schemas.storage.index_reports import IndexStatus
from schemas.storage.outcomes import CollectionOutcome, WriteOutcome
from schemas.wire.body import Body, ExactBody
from schemas.wire.checked_fields import CollectionName
from schemas.wire.fields import Choice, CollectionMetadata, Count, MetadataObject, Text, TruthText
from schemas.wire.storage.index import index_answer

INDEX = "index"
"""What a list of collections may include: what is known of the index of each."""
Answer = dict[str, Any]


class NewCollection(Body):
    name = fields.Raw(load_default=None)
    embedding_provider = fields.Raw()
    embedding_model = fields.Raw()
    metadata = MetadataObject(load_default=dict)
    metric = fields.String(load_default="cosine", validate=validate.OneOf(METRICS))

    @post_load(pass_original=True)
    def _fold(self, loaded: dict[str, Any], original: dict[str, Any], **_: Any) -> dict[str, Any]:
        metadata = dict(loaded["metadata"])
        if METRIC_KEY in metadata and metadata[METRIC_KEY] == original.get("metric"):
            del metadata[METRIC_KEY]  # services and clients that speak to older services, too, say the metric twice
        for key in ("embedding_provider", "embedding_model"):
            if key in loaded:
                metadata[key] = loaded[key]
        check_collection_metadata(metadata)
        return {"name": check_collection_name(loaded["name"]), "metadata": metadata, "metric": loaded["metric"]}


class Creating(Body):
    """The query string of a new collection."""

    get_or_create = TruthText(load_default=False)


class NewName(ExactBody):
    """The body that gives a collection, or its copy, another name."""

    name = CollectionName(required=True, error_messages={"required": "is required"})


class Merging(Body):
    """The query string of a change of metadata."""

    merge = TruthText(load_default=False)


class NewMetadata(Body):
    metadata = CollectionMetadata(required=True, error_messages={"required": "is required"})


class CollectionPage(Body):
    """The query string of a list of collections, which is whole unless there is a limit."""

    prefix = Text(
        load_default="",
        validate=validate.Regexp(NAME_BEGINNING, error="must be the beginning of a name, of [a-zA-Z0-9._-]"),
    )
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=None)
    cursor = Text(load_default=None)
    include = Choice((INDEX,), load_default=None)


# Making a schema costs more than using it, and it keeps no state.
NEW_COLLECTION, NEW_METADATA, NEW_NAME = NewCollection(), NewMetadata(), NewName()
CREATING_ARGUMENTS, MERGING_ARGUMENTS, COLLECTIONS_ARGUMENTS = Creating(), Merging(), CollectionPage()


def collection_answer(found: Collection) -> Answer:
    answer: Answer = {
        "id": found.id,
        "name": found.name,
        "count": found.count,
        "metadata": found.metadata,
        "dimension": found.dimension,
        "metric": found.metric,
        "revision": found.revision,
    }
    if found.index_state == "adopting":
        answer["adopting"] = True
    return answer


def collections_answer(
    found: Sequence[Collection], next_cursor: str | None, indexes: Sequence[IndexStatus], *, is_page: bool
) -> Answer:
    known = {each.collection.name: {"index": index_answer(each)} for each in indexes}
    answer: Answer = {"collections": [{**collection_answer(each), **known.get(each.name, {})} for each in found]}
    return {**answer, "next_cursor": next_cursor} if is_page else answer


def created_answer(made: CollectionOutcome) -> Answer:
    return {
        "status": "exists" if made.existed else "created",
        "id": made.id,
        "name": made.name,
        "metadata": made.metadata,
        "dimension": made.dimension,
        "metric": made.metric,
        "revision": made.revision,
    }


def changed_answer(changed: CollectionOutcome, *, merge: bool) -> Answer:
    return {
        "status": "updated",
        "name": changed.name,
        "metadata": changed.metadata,
        "merge": merge,
        "revision": changed.revision,
    }


def renamed_answer(name: str, renamed: CollectionOutcome) -> Answer:
    return {
        "status": "renamed",
        "id": renamed.id,
        "name": renamed.name,
        "previous_name": name,
        "revision": renamed.revision,
    }


def copied_answer(name: str, copied: CollectionOutcome) -> Answer:
    return {
        "status": "copied",
        "id": copied.id,
        "name": copied.name,
        "copy_of": name,
        "count": copied.created,
        "metadata": copied.metadata,
        "dimension": copied.dimension,
        "metric": copied.metric,
        "revision": copied.revision,
    }


def collection_deleted_answer(name: str) -> Answer:
    return {"status": "deleted", "name": name}


def emptied_answer(name: str, outcome: WriteOutcome) -> Answer:
    return {
        "status": "emptied",
        "collection": name,
        "count_deleted": outcome.deleted,
        "revision": outcome.revision,
    }
