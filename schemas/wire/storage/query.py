"""Finding documents on the wire: queries by vector and by words, groups and facets, and the answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from marshmallow import ValidationError, fields, post_load, validate

from schemas.bounds import DEFAULT_GROUP, DEFAULT_TOP_K, MAX_PAGE, MAX_TOP_K
from schemas.errors import InvalidInputError
from schemas.records import Collection, Facet, Gathered, GatherSpec, Group, Match, TextMatch
from schemas.where import EVERYTHING
from schemas.wire.body import Body, load
from schemas.wire.checked_fields import Flag
from schemas.wire.fields import (
    Count,
    Embedding,
    Filter,
    Filtered,
    FilterText,
    Include,
    Names,
    Number,
    Ordering,
    Text,
    check_either,
    check_ids,
)
from schemas.wire.storage.document import document_answer

DEFAULT_FACET_VALUES = 100
MAX_FACETS = 50
MAX_GROUP_FIELDS = 4
MAX_NEIGHBOURS = 100
"""The most documents before, and after, each hit of a group."""
MAX_NEAR = 100
"""The most documents to whose middle a query asks for what is near."""
MAX_QUERIES = 100
MAX_ANSWERED = 10_000
"""The most documents that the queries of one request ask for altogether."""
MAX_QUERY_CHARACTERS = 10_000
MAX_PHRASE_WORDS = 64
NO_VECTOR = "is required: this route does not embed; POST /api/search and /api/rag/search take a question as text"

Answer = dict[str, Any]


class GroupFields(fields.Field[tuple[str, ...]]):
    """The name of a field, or a list of several; a name may hold any character."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        names = value if isinstance(value, list) else [value]
        if not all(isinstance(name, str) and name for name in names):
            raise ValidationError("must be the name of a field or a list of names")
        if not 1 <= len(names) <= MAX_GROUP_FIELDS:
            raise ValidationError(f"must name 1 to {MAX_GROUP_FIELDS} fields")
        return tuple(dict.fromkeys(names))


class _Rule(Body):
    """What every way of gathering takes."""

    by = GroupFields(required=True, error_messages={"required": "is required"})
    order_by = Ordering(load_default=())
    limit = Count(least=1, most=MAX_PAGE, capped=True, load_default=DEFAULT_GROUP)
    before = Count(least=0, most=MAX_NEIGHBOURS, load_default=None)
    after = Count(least=0, most=MAX_NEIGHBOURS, load_default=None)
    text = Flag(load_default=False)


class Gather(_Rule):
    @post_load
    def _to_spec(self, loaded: dict[str, Any], **_: Any) -> GatherSpec:
        return GatherSpec(**loaded)


class OneQuery(Filtered):
    """One question: what is nearest to a vector, or to documents that it names."""

    query_embedding = Embedding(load_default=None)
    ids = fields.Raw(load_default=None)
    query = Text(load_default=None)
    top_k = Count(least=1, most=MAX_TOP_K, capped=True, load_default=DEFAULT_TOP_K)
    max_distance = Number(load_default=None)
    include = Include(load_default=())
    gather = fields.Nested(Gather, load_default=None)

    @post_load
    def _check(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        return _with_one_thing_to_be_near(loaded)


class Queries(fields.Nested):
    """A list of questions. An error of one names its place in the list."""

    def _deserialize(
        self, value: Any, attr: str | None, data: Any, partial: Any = None, **_: Any
    ) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not 1 <= len(value) <= MAX_QUERIES:
            raise ValidationError(f"must be a list of 1 to {MAX_QUERIES} queries")
        loaded = []
        for index, each in enumerate(value):
            try:
                loaded.append(load(self.schema, each))
            except InvalidInputError as error:
                below = error.details.get("field")
                error.message = f"{attr}.{index}: {error.message}"
                error.details |= {"field": f"{attr}.{index}{f'.{below}' if below else ''}", "index": index}
                raise
        if sum(each["top_k"] for each in loaded) > MAX_ANSWERED:
            raise ValidationError(f"must ask for at most {MAX_ANSWERED:,} documents altogether")
        return loaded


class Query(OneQuery):
    """The body of a query: one question, or `queries` with several of them."""

    collection = Text()
    queries = Queries(OneQuery, load_default=None)

    @post_load(pass_original=True)
    def _check(self, loaded: dict[str, Any], original: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        if loaded["queries"] is None:
            return _with_one_thing_to_be_near(loaded)
        for name in OneQuery().fields:
            if original.get(name) is not None:
                raise ValidationError("goes without queries, each of which says it for itself", name)
        return loaded


class GatherRequest(_Rule):
    ids = fields.Raw(load_default=None)
    where = Filter(load_default=None)

    @post_load
    def _one_of(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        check_either(loaded["ids"], loaded["where"])
        return {"ids": loaded.pop("ids"), "where": loaded.pop("where"), "spec": GatherSpec(**loaded)}


def _with_one_thing_to_be_near(loaded: dict[str, Any]) -> dict[str, Any]:
    if loaded["ids"] is None and loaded["query_embedding"] is None:
        raise ValidationError(NO_VECTOR, "query_embedding")
    if loaded["ids"] is not None:
        if loaded["query_embedding"] is not None:
            raise ValidationError("goes without query_embedding", "ids")
        if not 1 <= len(check_ids(loaded["ids"])) <= MAX_NEAR:
            raise ValidationError(f"must name 1 to {MAX_NEAR} documents", "ids")
    return loaded


def check_words(query: str) -> None:
    """Raise ValidationError for a query that is longer than one that the word index answers soon."""
    if len(query) > MAX_QUERY_CHARACTERS:
        raise ValidationError(f"must have {MAX_QUERY_CHARACTERS} characters at most")
    if any(len(quoted.split()) > MAX_PHRASE_WORDS for quoted in query.split('"')[1::2]):
        raise ValidationError(f"must have {MAX_PHRASE_WORDS} words at most between quotation marks")


class TextSearch(Filtered):
    query = Text(
        required=True,
        validate=check_words,
        error_messages={"required": "is required"},
    )
    top_k = Count(least=1, most=MAX_TOP_K, capped=True, load_default=DEFAULT_TOP_K)


class Facets(Body):
    """The query string of facets."""

    fields_ = Names(
        required=True,
        data_key="fields",
        validate=validate.Length(min=1, max=MAX_FACETS, error="must name 1 to {max} fields"),
        error_messages={"required": "is required"},
    )
    where = FilterText(load_default=EVERYTHING)
    limit = Count(least=1, most=MAX_PAGE, capped=True, in_text=True, load_default=DEFAULT_FACET_VALUES)


class FieldName(Body):
    """The query string that names a metadata field."""

    name = Text(data_key="field", load_default="")

    @post_load
    def _is_given(self, loaded: dict[str, Any], **_: Any) -> dict[str, Any]:
        if not loaded["name"]:
            raise ValidationError("is required", "field")
        return loaded


# Making a schema costs more than using it, and it keeps no state.
QUERY, GATHER, TEXT_SEARCH = Query(), GatherRequest(), TextSearch()
FACET_ARGUMENTS, FIELD_ARGUMENTS = Facets(), FieldName()


def query_answer(
    collection: Collection,
    matches: Sequence[Match],
    groups: Sequence[Group] | None,
    *,
    query: str | None,
    plan: str,
    recall: float | None,
) -> Answer:
    """Spell the answer of a query. `recall` is the recall@10 of the index that was asked, None where there is none."""
    answer: Answer = {
        "results": [_match(each) for each in matches],
        "collection": collection.name,
        "collection_metadata": collection.metadata,
        "query": query,
        "plan": plan,
        "revision": collection.revision,
    }
    if recall is not None:
        answer["recall_at_10"] = recall
    if groups is not None:
        distances = {each.document.id: each.distance for each in matches}
        answer["groups"] = [_group(each, distances) for each in groups]
    return answer


def queries_answer(answers: Sequence[Answer]) -> Answer:
    return {"answers": list(answers)}


def probe_answer(collections: int) -> Answer:
    return {"status": "ready", "collections": collections}


def gather_answer(found: Gathered, *, given_ids: bool) -> Answer:
    """Spell the groups, and with `given_ids` which of the ids do not exist."""
    answer: Answer = {"groups": [_group(each, {}) for each in found.groups], "revision": found.collection.revision}
    return answer | {"missing": list(found.missing)} if given_ids else answer


def text_search_answer(found: Sequence[TextMatch], total: int, revision: int) -> Answer:
    return {"results": [_text_match(each) for each in found], "total": total, "revision": revision}


def facets_answer(found: Mapping[str, Facet], total: int, revision: int) -> Answer:
    return {"facets": {field: _facet(each) for field, each in found.items()}, "total": total, "revision": revision}


def values_answer(field: str, values: Sequence[Any]) -> Answer:
    """Return the values as strings, each once: numbers and booleans are spelt as JSON."""
    spelt = sorted({value if isinstance(value, str) else orjson.dumps(value).decode() for value in values})
    return {"field": field, "values": spelt, "count": len(spelt)}


def _match(found: Match) -> Answer:
    answer = document_answer(found.document)
    return {
        "id": answer.pop("id"),
        "text": answer.pop("text"),
        "distance": found.distance,
        "score": found.score,
        **answer,
    }


def _group(found: Group, distances: Mapping[str, float]) -> Answer:
    answer: Answer = {"key": found.key, "rank": found.rank}
    if found.best_distance is not None:
        answer["best_distance"] = found.best_distance
    answer["documents"] = [
        {
            **document_answer(each),
            "hit": each.id in found.hits,
            "place": place,
            **({"distance": distances[each.id]} if each.id in distances else {}),
        }
        for each, place in zip(found.documents, found.places, strict=True)
    ]
    if found.text is not None:
        answer["text"] = found.text
    answer["total"] = found.total
    answer["complete"] = len(found.documents) == found.total
    return answer


def _text_match(found: TextMatch) -> Answer:
    answer = document_answer(found.document)
    return {"id": answer.pop("id"), "text": answer.pop("text"), "score": found.score, **answer}


def _facet(found: Facet) -> Answer:
    answer: Answer = {
        "values": [{"value": value, "count": count} for value, count in found.values],
        "distinct": found.distinct,
    }
    if found.minimum is not None:
        answer |= {"min": found.minimum, "max": found.maximum}
    return answer
