"""Request bodies and query strings, as marshmallow schemas: shapes in, records out.

null equals absent for the fields of a body; unknown names are judged before, by `schemas/known_names.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import orjson
from marshmallow import EXCLUDE, Schema, ValidationError, fields, post_load, pre_load, validate
from marshmallow.exceptions import SCHEMA

from schemas.documents import parse_embedding
from schemas.errors import InvalidInputError
from schemas.json_in import decode
from schemas.metadata import check_collection_metadata, check_metadata, without_reserved
from schemas.names import MAX_MODEL_CHARACTERS, NAME_BEGINNING, check_collection_name, is_model_name
from schemas.records import METRICS, DocumentPatch, GatherSpec, OrderBy, Vector
from schemas.where import EVERYTHING, Where, parse_where

MAX_PAGE = 1_000
DEFAULT_PAGE = 100
MAX_OFFSET = 2**53
MAX_TOP_K = 1_000
DEFAULT_TOP_K = 3
DEFAULT_GROUP = 100
DEFAULT_FACET_VALUES = 100
MAX_FACETS = 50
ON_CONFLICT = ("replace", "skip", "error")
MAX_QUERY_CHARACTERS = 10_000
MAX_PHRASE_WORDS = 64
MAX_IDS = 10_000
"""Of one request, whatever it does with them; a filter has room for as many values."""
TRUTH = {"true": True, "1": True, "false": False, "0": False}
INCLUDES = ("id", "text", "metadata", "embedding", "distance", "score")
_MISSING = "missing data for required field"  # as marshmallow says it
NUMERAL = re.compile(r"[+-]?[0-9]{1,20}")
"""A whole number in a query string. Longer ones are none that anything here could mean."""


def load(schema: Schema, source: Any) -> dict[str, Any]:
    """The checked fields of a decoded body. Raises InvalidInputError that names the first faulty field."""
    if not isinstance(source, Mapping):
        raise InvalidInputError("The body must be a JSON object", code="invalid_body")
    try:
        return cast(dict[str, Any], schema.load(source))
    except ValidationError as error:
        field, reason = _first(error.normalized_messages())
        raise InvalidInputError(_sentence(field, reason), code="invalid_field", field=field) from None


def _first(messages: Any, path: str = "") -> tuple[str, str]:
    if isinstance(messages, Mapping):
        key, inner = next(iter(messages.items()))
        if key == SCHEMA:  # the object as a whole
            return _first(inner, path)
        return _first(inner, f"{path}.{key}" if path else str(key))
    reason = messages[0] if isinstance(messages, list) else str(messages)
    return path, str(reason).rstrip(".")


def _sentence(field: str, reason: str) -> str:
    said = reason[:1].lower() + reason[1:]
    if said == _MISSING:
        return f"{field} is required"
    return f"{field} {said}" if said.startswith(("must ", "is ")) else f"{field}: {reason}"


class Body(Schema):
    class Meta:
        unknown = EXCLUDE

    @pre_load
    def _null_is_absent(self, source: Any, **_: Any) -> dict[str, Any]:
        if not isinstance(source, Mapping):
            raise ValidationError("must be an object")
        return {key: value for key, value in source.items() if value is not None}


class Embedding(fields.Field[Vector]):
    """A vector on NumPy, float32 (dimension,)."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Vector:
        return parse_embedding(value, field=attr or "embedding")


class Filter(fields.Field[Where]):
    """A `where` tree; its errors carry their own pointer."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Where:
        return parse_where(value)


class FilterText(fields.Field[Where | None]):
    """A `where` tree of the JSON in a query string, `empty` when that is empty."""

    def __init__(self, *, empty: Where | None = EVERYTHING, **options: Any) -> None:
        super().__init__(**options)
        self._empty = empty

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> Where | None:
        return where_from_text(value, attr or "where") if value else self._empty


class Choice(fields.Field[str]):
    """One of a few words."""

    def __init__(self, allowed: tuple[str, ...], **options: Any) -> None:
        super().__init__(**options)
        self._allowed = allowed

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str:
        if value not in self._allowed:
            sentence = f"{attr} must be one of {', '.join(self._allowed)}"
            raise InvalidInputError(sentence, code="invalid_field", field=attr, allowed=list(self._allowed))
        return str(value)


class TruthText(fields.Field[bool]):
    """A boolean of a query string."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> bool:
        if not isinstance(value, str) or value.lower() not in TRUTH:
            raise ValidationError("must be true or false")
        return TRUTH[value.lower()]


class MetadataObject(fields.Field[dict[str, Any]]):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> dict[str, Any]:
        return check_metadata(value, field=attr or "metadata")


class CollectionMetadata(fields.Field[dict[str, Any]]):
    """A `MetadataObject` that the engine bears with every write."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> dict[str, Any]:
        return check_collection_metadata(value, field=attr or "metadata")


class Text(fields.Field[str]):
    """A JSON string, nothing turned into one."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("must be a string")
        return value


class ModelName(Text):
    """The name of a model: text that is sent as it is."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **options: Any) -> str:
        text = super()._deserialize(value, attr, data, **options)
        if not is_model_name(text):
            raise ValidationError(f"must have 1 to {MAX_MODEL_CHARACTERS} printable characters")
        return text


class Number(fields.Field[float]):
    """A JSON number, no boolean and no numeral in a string."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValidationError("must be a number")
        return float(value)


class Count(fields.Field[int]):
    """A whole number from `least`, capped or refused above `most`; its numeral only where `in_text`, which is what a
    query string is."""

    def __init__(
        self, *, least: int, most: int | None = None, capped: bool = False, in_text: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self._least, self._most, self._capped, self._in_text = least, most, capped, in_text

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> int:
        number = _whole(value, in_text=self._in_text)
        if number is None:
            raise ValidationError("must be a whole number")
        if number < self._least:
            raise ValidationError(f"must be at least {self._least}")
        if self._most is not None and number > self._most:
            if self._capped:
                return self._most
            raise ValidationError(f"must be at most {self._most}")
        return number


class Names(fields.Field[tuple[str, ...]]):
    """A list of strings, or one string with commas between them."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        return _names(value)


class Ordering(fields.Field[tuple[OrderBy, ...]]):
    """`field,-field` or the same as a list; a minus sorts downwards."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[OrderBy, ...]:
        order = tuple(OrderBy(name.removeprefix("-"), name.startswith("-")) for name in _names(value))
        if any(not item.field for item in order):
            raise ValidationError("must name fields")
        if len(order) > 8:
            raise ValidationError("must name at most 8 fields")
        return order


class Include(Names):
    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        names = _names(value)
        for name in names:
            if name not in INCLUDES:
                raise ValidationError(f"must be of {', '.join(INCLUDES)}")
        return names


class Gather(Body):
    by = Text(required=True, validate=validate.Length(min=1))
    order_by = Ordering(load_default=())
    limit = Count(least=1, most=MAX_PAGE, capped=True, load_default=DEFAULT_GROUP)

    @post_load
    def _to_spec(self, loaded: dict[str, Any], **_: Any) -> GatherSpec:
        return GatherSpec(**loaded)


class NewCollection(Body):
    name = fields.Raw(load_default=None)
    embedding_provider = fields.Raw()
    embedding_model = fields.Raw()
    metadata = MetadataObject(load_default=dict)
    metric = fields.String(load_default="cosine", validate=validate.OneOf(METRICS))

    @post_load
    def _fold(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        metadata = without_reserved(loaded["metadata"])
        for key in ("embedding_provider", "embedding_model"):
            if key in loaded:
                metadata[key] = loaded[key]
        check_collection_metadata(metadata)
        return {"name": check_collection_name(loaded["name"]), "metadata": metadata, "metric": loaded["metric"]}


class Merging(Body):
    """How a query string asks for new metadata to be put in place."""

    merge = TruthText(load_default=False)


class NewMetadata(Body):
    metadata = CollectionMetadata(required=True, error_messages={"required": "is required"})


class NewDocuments(Body):
    documents = fields.Raw(load_default=None)


class Writing(Body):
    """How a query string asks for documents to be written."""

    on_conflict = Choice(ON_CONFLICT, load_default="replace")
    replace_where = FilterText(load_default=None, empty=None)


class Patch(Body):
    text = Text()
    metadata = MetadataObject()
    embedding = Embedding()

    @post_load
    def _to_patch(self, loaded: dict[str, Any], **_: Any) -> dict[str, DocumentPatch]:
        if not loaded:
            raise ValidationError("one of text, metadata, embedding is required", "text")
        return {"patch": DocumentPatch(**loaded)}


class CollectionPage(Body):
    """Which collections a query string means; all of them without a limit."""

    prefix = Text(
        load_default="",
        validate=validate.Regexp(NAME_BEGINNING, error="must be the beginning of a name, of [a-zA-Z0-9._-]"),
    )
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=None)
    cursor = Text(load_default=None)


class Paging(Body):
    order_by = Ordering(load_default=())
    cursor = Text(load_default=None)
    include = Include(load_default=())

    @post_load
    def _one_way_of_paging(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        if loaded["cursor"] is not None and loaded["offset"]:
            raise ValidationError("goes without an offset", "cursor")
        return loaded


class Page(Paging):
    """A page as a query string asks for it."""

    where = FilterText(load_default=EVERYTHING)
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=DEFAULT_PAGE)
    offset = Count(least=0, most=MAX_OFFSET, in_text=True, load_default=0)


class Search(Paging):
    """A page as a body asks for it, by filter, or by ids: then up to `MAX_PAGE` of them when no limit is given."""

    ids = fields.Raw(load_default=None)
    where = Filter(load_default=EVERYTHING)
    offset = Count(least=0, most=MAX_OFFSET, load_default=0)
    limit = Count(least=1, most=MAX_PAGE, capped=True, load_default=None)

    @post_load
    def _check_ids(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        by_ids = loaded["ids"] is not None
        if by_ids:
            check_ids(loaded["ids"])
            if loaded["cursor"] is not None:
                raise ValidationError("goes without ids", "cursor")
        if loaded["limit"] is None:
            loaded["limit"] = MAX_PAGE if by_ids else DEFAULT_PAGE
        return loaded


class Query(Body):
    collection = Text()
    query_embedding = Embedding(required=True, error_messages={"required": "is required: this service does not embed"})
    query = Text(load_default=None)
    top_k = Count(least=1, most=MAX_TOP_K, load_default=DEFAULT_TOP_K)
    where = Filter(load_default=EVERYTHING)
    max_distance = Number(load_default=None)
    include = Include(load_default=())
    gather = fields.Nested(Gather, load_default=None)


class GatherRequest(Body):
    ids = fields.Raw(load_default=None)
    where = Filter(load_default=None)
    by = Text(required=True, validate=validate.Length(min=1), error_messages={"required": "is required"})
    order_by = Ordering(load_default=())
    limit = Count(least=1, most=MAX_PAGE, capped=True, load_default=DEFAULT_GROUP)

    @post_load
    def _one_of(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        if (loaded["ids"] is None) == (loaded["where"] is None):
            raise ValidationError("either ids or where is required", "ids")
        if loaded["ids"] is not None:
            check_ids(loaded["ids"])
        return loaded


def check_words(query: str) -> None:
    """Raises ValidationError when a query is longer than an index is to be asked for."""
    if len(query) > MAX_QUERY_CHARACTERS:
        raise ValidationError(f"must have {MAX_QUERY_CHARACTERS} characters at most")
    if any(len(quoted.split()) > MAX_PHRASE_WORDS for quoted in query.split('"')[1::2]):
        raise ValidationError(f"must have {MAX_PHRASE_WORDS} words at most between quotation marks")


class TextSearch(Body):
    query = Text(
        required=True,
        validate=check_words,
        error_messages={"required": "is required"},
    )
    where = Filter(load_default=EVERYTHING)
    top_k = Count(least=1, most=MAX_TOP_K, load_default=DEFAULT_TOP_K)


class Facets(Body):
    fields_ = Names(
        required=True,
        data_key="fields",
        validate=validate.Length(min=1, max=MAX_FACETS, error="must name 1 to {max} fields"),
        error_messages={"required": "is required"},
    )
    where = FilterText(load_default=EVERYTHING)
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=DEFAULT_FACET_VALUES)


class Deletion(Body):
    ids = fields.Raw(load_default=None)
    where = Filter(load_default=None)

    @post_load
    def _one_of(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        if (loaded["ids"] is None) == (loaded["where"] is None):
            raise ValidationError("either ids or where is required", "ids")
        if loaded["where"] == EVERYTHING:
            raise ValidationError("an empty filter would delete everything: use DELETE …/documents/all", "where")
        if loaded["ids"] is not None:
            check_ids(loaded["ids"])
        return loaded


class Deleting(Body):
    """How a query string asks for documents to be deleted."""

    may_empty = TruthText(data_key="all", load_default=False)


class Matching(Body):
    """Which documents a query string means."""

    where = FilterText(load_default=EVERYTHING)


class Shown(Body):
    """What a query string wants to see of a document."""

    include = Include(load_default=())


class FieldName(Body):
    """The metadata field that a query string means."""

    name = Text(data_key="field", load_default="")

    @post_load
    def _is_given(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        if not loaded["name"]:
            raise ValidationError("is required", "field")
        return loaded


# Making a schema costs more than using it, and it keeps no state.
NEW_COLLECTION, NEW_METADATA, NEW_DOCUMENTS = NewCollection(), NewMetadata(), NewDocuments()
PATCH, DELETION, SEARCH = Patch(), Deletion(), Search()
QUERY, GATHER, TEXT_SEARCH = Query(), GatherRequest(), TextSearch()
PAGE_ARGUMENTS, FACET_ARGUMENTS, MATCHING_ARGUMENTS, SHOWN_ARGUMENTS = Page(), Facets(), Matching(), Shown()
WRITING_ARGUMENTS, MERGING_ARGUMENTS, FIELD_ARGUMENTS = Writing(), Merging(), FieldName()
DELETING_ARGUMENTS, COLLECTIONS_ARGUMENTS = Deleting(), CollectionPage()


def check_ids(ids: Any) -> list[str]:
    """`ids` itself when it is a list of non-empty strings, not more than `MAX_IDS`. Raises InvalidInputError with the
    position."""
    if not isinstance(ids, list):
        raise InvalidInputError("ids must be an array of strings", code="invalid_ids", field="ids")
    if len(ids) > MAX_IDS:
        raise InvalidInputError(
            f"ids must have at most {MAX_IDS:,} elements",
            code="too_many_ids",
            field="ids",
            limit=MAX_IDS,
            actual=len(ids),
        )
    for index, item in enumerate(ids):
        if not isinstance(item, str) or not item:
            raise InvalidInputError("ids must be non-empty strings", code="invalid_ids", field="ids", index=index)
    return ids


def where_from_text(source: str, field: str = "where") -> Where:
    """The filter of a query string. Raises InvalidInputError in the words of seed 003 ("Invalid JSON filter")."""
    try:
        decoded = decode(source, field)
    except orjson.JSONDecodeError:
        raise InvalidInputError(
            f"Invalid '{field}' filter: must be valid JSON", code="invalid_where", field=field
        ) from None
    return parse_where(decoded, field)


def _whole(value: Any, *, in_text: bool) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if in_text and isinstance(value, str) and NUMERAL.fullmatch(value):
        return int(value)
    return None


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        names = [name.strip() for name in value.split(",") if name.strip()]
    elif isinstance(value, list) and all(isinstance(name, str) and name for name in value):
        names = value
    else:
        raise ValidationError("must be a list of strings, or one with commas between them")
    return tuple(dict.fromkeys(names))
