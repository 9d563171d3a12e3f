"""`/v1/vector_stores/{vector_store_id}/search` as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from marshmallow import ValidationError, fields, post_load, validate

from schemas.bounds import DEFAULT_RESULTS
from schemas.contracts.search import MAX_WEIGHT, FusedResult
from schemas.where import EVERYTHING
from schemas.wire.body import Body
from schemas.wire.checked_fields import Flag, Share
from schemas.wire.fields import Choice, Count, Filtered, Number
from schemas.wire.openai.attributes import attributes_of
from schemas.wire.openai.filters import Filters

Json = dict[str, Any]

MAX_QUERIES = 10
MOST_RESULTS = 50
RANKERS = ("auto", "none", "default-2024-11-15", "default_2024_08_21")
"""Those that OpenAI documents."""


class Queries(fields.Field[tuple[str, ...]]):
    """A question or a list of questions."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **_: Any) -> tuple[str, ...]:
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list) or not 1 <= len(given) <= MAX_QUERIES:
            raise ValidationError(f"must be a text, or a list of 1 to {MAX_QUERIES} texts")
        if not all(isinstance(each, str) and each.strip() for each in given):
            raise ValidationError("must have no text that is blank")
        return tuple(dict.fromkeys(given))


class HybridSearch(Body):
    embedding_weight = Number(load_default=1.0, validate=validate.Range(min=0, max=MAX_WEIGHT))
    text_weight = Number(load_default=1.0, validate=validate.Range(min=0, max=MAX_WEIGHT))

    @post_load
    def _check_that_one_counts(self, loaded: Json, **_: Any) -> Json:
        if not any(loaded.values()):
            raise ValidationError("must have a weight above 0")
        return loaded


class Ranking(Body):
    """`ranker` changes nothing: there is one way to rank."""

    ranker = Choice(RANKERS, load_default=None)
    score_threshold = Share(load_default=None)


class RankingOptions(Ranking):
    hybrid_search = fields.Nested(HybridSearch, load_default=None)


class StoreSearch(Filtered):
    queries = Queries(required=True, data_key="query")
    max_num_results = Count(least=1, most=MOST_RESULTS, load_default=DEFAULT_RESULTS)
    filters = Filters(load_default=EVERYTHING)
    ranking_options = fields.Nested(RankingOptions, load_default=dict)
    rewrite_query = Flag(load_default=False)


STORE_SEARCH = StoreSearch()


def store_results(
    queries: Sequence[str], results: Sequence[FusedResult], file_of: Callable[[FusedResult], str | None]
) -> Json:
    """Spell the results of a search, and the questions as they were asked: none is rewritten.

    `file_of` returns the id of the file that was attached, None for a document that came otherwise.
    """
    return {
        "object": "vector_store.search_results.page",
        "search_query": list(queries),
        "data": [_result(each, file_of(each)) for each in results],
        "has_more": False,
        "next_page": None,
    }


def _result(result: FusedResult, file_id: str | None) -> Json:
    told = result.metadata
    place = next(
        (value for name in ("path", "source", "title") if isinstance(value := told.get(name), str) and value), ""
    )
    return {
        "file_id": file_id or result.doc_id,
        "filename": PurePosixPath(place).name or result.doc_id,
        "score": score_of(result),
        "attributes": attributes_of(told, is_attached=file_id is not None),
        "content": [{"type": "text", "text": result.content}],
    }


def score_of(result: FusedResult) -> float:
    """Return the relevance; where nobody can tell it, because nothing embeds now, the score of the search, which is in
    0 to 1 as well."""
    return result.score if result.relevance is None else result.relevance
