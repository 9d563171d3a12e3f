"""Judges the names of fields and parameters in query strings, bodies, documents and arguments of tools.

A name that nearly fits one of ours, or is another product's name for one, is refused before anything is done: ignored,
it would let the caller believe in a filter, a metric or a precaution that was never there. Any other unknown name is
accepted and reported in `warnings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any

from marshmallow import Schema, fields

from schemas.access.credentials_in_text import without_credentials
from schemas.configuration import JsonSchema
from schemas.errors import InvalidInputError
from schemas.plurals import counted

ALIKE = 0.75
"""The similarity from which a name counts as mistyped, if its length is right."""
SHORT_CHARACTERS = 4
"""The length up to which a name has one letter more or less where it is mistyped; a longer one may have two."""
LONGEST_NAME = 64
"""The length up to which a name is taken for a misspelling."""
MOST_WARNINGS = 20
MOST_UNKNOWN = 1_000
"""The most unknown names of one request: each is compared with all of ours, which takes time."""


def _plain(name: str) -> str:
    """Return what all spellings of a name have in common: those of `top_k` are `topK` and `Top-K`."""
    return name.lower().replace("-", "").replace("_", "")


FILTERS = ("where", "filters", "metadata_condition")
MOST = ("top_k", "topK", "limit", "max_chunks", "max_num_results")

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "distance": ("metric", "max_distance"),
    "distance_function": ("metric",),
    "distance_metric": ("metric",),
    "space": ("metric",),
    "hnsw:space": ("metric",),
    "hnsw_space": ("metric",),
    "metric_type": ("metric",),
    **dict.fromkeys(
        ("similarity", "configuration", "hnsw", "hnsw_config", "index_params", "vectors_config"), ("metric",)
    ),
    **dict.fromkeys(("dim", "size", "vector_size"), ("dimension",)),
    **dict.fromkeys(("where", "filter", "filters", "query_filter", "where_filter", "metadata_filter"), FILTERS),
    "condition": ("conditions", "metadata_condition"),
    **dict.fromkeys(("k", "n", "n_results", "num_results", "max_results", "max_num_results", "top_n"), MOST),
    "page_content": ("text", "content"),
    "metadatas": ("metadata",),
    "payload": ("metadata",),
    "vector": ("query_embedding", "embedding"),
    "vectors": ("query_embedding", "embedding", "metric"),
    "values": ("embedding",),
    "query_embeddings": ("query_embedding",),
    "query_vector": ("query_embedding",),
    "query_texts": ("query",),
    "collection_name": ("collection", "name"),
    **dict.fromkeys(("collection", "collections"), ("vector_store_ids", "vector_store_id", "knowledge_id")),
    "vector_store_ids": ("vector_store_id",),
    "sort": ("order_by",),
    "sort_by": ("order_by",),
    "skip": ("offset",),
    "page_size": ("limit",),
    "per_page": ("limit",),
    "upsert": ("on_conflict",),
    "overwrite": ("on_conflict",),
    "score_threshold": ("max_distance", "minScore", "min_relevance"),
    **dict.fromkeys(("min_relevance", "min_score"), ("min_relevance", "score_threshold")),
    "group_by": ("gather", "by"),
    "with_vectors": ("include",),
    "include_values": ("include",),
}
"""Other products' name → our names; the first of ours that is known in that place is meant."""

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "limit": ("top_k", "topK", "max_chunks", "max_num_results"),
    "top_k": ("limit", "max_chunks", "max_num_results"),
    "max_chunks": ("top_k", "topK", "limit"),
    "content": ("text",),
    "text": ("content",),
    "document": ("text", "content"),
    "_id": ("id",),
    "doc_id": ("id",),
    "document_id": ("id",),
    "chunk_id": ("id",),
    "question": ("query",),
    "q": ("query",),
}
"""Names → those of ours that they may mean. Beside one of these they mean something of their own."""

NOT_HERE: Mapping[str, str] = {
    "where_document": "POST /collections/{name}/text-search, which finds documents by their words",
    "namespace": "a collection of its own",
}
"""Names of other products for features that are requested in another way here."""

_OTHER_NAMES, _SYNONYMS = ({_plain(each): ours for each, ours in t.items()} for t in (OTHER_NAMES, SYNONYMS))
_OF_FILTERS = {"ragfilters", *map(_plain, FILTERS), *(each for each, ours in _OTHER_NAMES.items() if ours is FILTERS)}
_NOT_HERE = {_plain(name): place for name, place in NOT_HERE.items()}

OWN_MEANING = frozenset(
    (
        *("date", "exclude", "file", "files", "height", "index", "mode", "modes", "node", "notes", "pages", "scope"),
        *("score", "status", "stop", "time", "tool", "topp", "topic", "type", "uid", "user", "userid", "users"),
    )
)
"""Words, without underscores, that are near names of ours but no misspellings of them."""


class UnknownFieldError(InvalidInputError):
    """A name nearly fits; nothing was done. `details.suggestion` is the name that was probably meant."""

    code = "unknown_field"


@dataclass(frozen=True, slots=True)
class Names:
    """The names that an object may have, each with those of the objects below it (None: any).

    `elsewhere` are names that belong to another part of the request or to another route, with the words that say where.
    """

    known: Mapping[str, Names | None]
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def beside(self, elsewhere: Mapping[str, str]) -> Names:
        """Return these names with others that belong elsewhere."""
        return Names(self.known, {name: place for name, place in elsewhere.items() if name not in self.known})


NO_NAMES = Names({})


class Unknown:
    """Collects names that were accepted without being known, and other sentences for `warnings`."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[int | None, int]] = {}
        self._sentences: list[str] = []

    def note(self, name: str, index: int | None = None) -> None:
        """Note a name that nothing reads, with the `index` of its document.

        Raises InvalidInputError beyond `MOST_UNKNOWN` of them.
        """
        seen = self._names.get(name)
        if seen is not None:
            self._names[name] = (seen[0], seen[1] + 1)
        elif len(self._names) == MOST_UNKNOWN:
            raise InvalidInputError(
                f"More than {MOST_UNKNOWN} unknown fields", code="too_many_unknown_fields", index=index
            )
        else:
            self._names[name] = (index, 1)

    def say(self, *sentences: str) -> None:
        self._sentences += sentences

    def take(self) -> list[str]:
        """Return everything that was noted as sentences, and forget it."""
        said = [_ignored(name, *seen) for name, seen in self._names.items()] + self._sentences
        self._names, self._sentences = {}, []
        if len(said) > MOST_WARNINGS:
            said = [*said[:MOST_WARNINGS], f"… and {len(said) - MOST_WARNINGS} more"]
        return [without_credentials(each) for each in said]


def check_names(
    given: Mapping[str, Any],
    names: Names,
    unknown: Unknown,
    *,
    noun: str = "field",
    path: str = "",
    index: int | None = None,
) -> None:
    """Note the names that are unknown; a field whose value is None counts as absent.

    Raises UnknownFieldError for the first that nearly fits.
    """
    for name, value in given.items():
        if value is None:
            continue
        place = f"{path}{name}"
        if name not in names.known:
            _refuse_what_nearly_fits(name, place, given, names, noun, index)
            unknown.note(place, index)
        elif (below := names.known[name]) is not None:
            for step, item in _objects(value):
                check_names(item, below, unknown, noun=noun, path=f"{place}.{step}", index=index)


@cache
def names_of(schema: Schema) -> Names:
    """Return the names that a marshmallow schema loads."""
    return Names({each.data_key or name: _below(each) for name, each in schema.load_fields.items()})


def placed(names: Names) -> Names:
    """Return the names of a body whose objects, each, know where the names of the others belong."""
    places: dict[str, str] = {}

    def collect(known: Mapping[str, Names | None], path: str) -> None:
        for name in known:
            places.setdefault(name, f"in {path}" if path else "at the top of the body")
        for name, below in known.items():
            if below is not None:
                collect(below.known, f"{path}.{name}" if path else name)

    def spread(known: Mapping[str, Names | None]) -> Names:
        below = {name: None if each is None else spread(each.known) for name, each in known.items()}
        return Names(below).beside(places)

    collect(names.known, "")
    return spread(names.known)


def names_of_json_schema(schema: JsonSchema) -> Names:
    """Return the names of a JSON Schema's `properties`; an object with `additionalProperties: true` takes any."""
    return Names({name: _below_json(each) for name, each in schema.get("properties", {}).items()})


def _refuse_what_nearly_fits(
    name: str, place: str, given: Mapping[str, Any], names: Names, noun: str, index: int | None
) -> None:
    found = _meant(name, given, names)
    if found is None:
        if index is None and _plain(name) in _OF_FILTERS:  # what documents say of themselves filters nothing
            raise UnknownFieldError(f"Unknown {noun} '{place}': nothing is filtered by it here", field=place)
        return
    suggestion, said = found
    raise UnknownFieldError(
        f"Unknown {noun} '{place}': did you mean {said}?", field=place, suggestion=suggestion, index=index
    )


def _meant(name: str, given: Mapping[str, Any], names: Names) -> tuple[str, str] | None:
    """Return the name or the place that was probably meant, with how to say it, None when nothing was."""
    if len(name) > LONGEST_NAME:
        return None
    word = _plain(name)
    others = _OTHER_NAMES.get(word, ())
    for ours in (name, *(each for each in others if each in names.known), *others):
        if ours in names.elsewhere or ours in names.known:
            return _told(ours, names)
    if place := _NOT_HERE.get(word):
        return place, place
    absent = tuple(
        ours for ours in (*names.known, *names.elsewhere) if given.get(ours) is None or ours in FILTERS
    )  # a second filter would be missed as well
    for ours in _SYNONYMS.get(word, ()):
        if ours in absent:
            return _told(ours, names)
    nearest = None if word in OWN_MEANING else _nearest(word, absent)
    return None if nearest is None else _told(nearest, names)


@lru_cache(maxsize=4_096)
def _nearest(word: str, absent: tuple[str, ...]) -> str | None:
    names = {plain: ours for ours in absent if _is_as_long(word, plain := _plain(ours))}
    near = get_close_matches(word, names, n=1, cutoff=ALIKE)
    return names[near[0]] if near else None


def _is_as_long(word: str, ours: str) -> bool:
    return abs(len(word) - len(ours)) <= (1 if len(ours) <= SHORT_CHARACTERS else 2)


def _told(ours: str, names: Names) -> tuple[str, str]:
    return (ours, f"'{ours}'") if ours in names.known else (ours, f"'{ours}' {names.elsewhere[ours]}")


def _objects(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        yield "", value
    elif isinstance(value, list):
        yield from ((f"{index}.", item) for index, item in enumerate(value) if isinstance(item, Mapping))


def _below(each: Any) -> Names | None:
    inner = each.inner if isinstance(each, fields.List) else each
    if not isinstance(inner, fields.Nested) or getattr(inner.schema, "is_open", False):
        return None
    return names_of(inner.schema)


def _below_json(schema: JsonSchema) -> Names | None:
    inner = schema.get("items", schema)
    is_open = "properties" not in inner or inner.get("additionalProperties") is True
    return None if is_open else names_of_json_schema(inner)


def _ignored(name: str, first: int | None, times: int) -> str:
    said = f"Unknown field '{name[:LONGEST_NAME]}' is ignored"
    return said if first is None else f"{said} in {counted(times, 'document')}, first in number {first}"
