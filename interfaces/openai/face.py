"""What the routes below `/v1` share: how they tell of errors, how those of models read a body, which collection a
client means by the id of a vector store, and pages of lists.

A vector store is a text collection. Its id is made of the collection's, so it stays as long as the collection, whatever
that is called. The name of a collection is taken as well, where people write requests themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from marshmallow import Schema

from interfaces.web.current_request import layers
from schemas.errors import CollectionNotFoundError, InvalidInputError
from schemas.field_names import Names, Unknown, check_names, names_of
from schemas.names import check_collection_name
from schemas.records import Collection as Stored
from schemas.wire.body import load
from schemas.wire.openai.errors import error_body, error_headers
from schemas.wire.openai.paging import DESCENDING
from wrapper.web.bodies import decode_json, read_body
from wrapper.web.error_statuses import ErrorFace
from wrapper.web.request_parts import store

T = TypeVar("T")

FACE = ErrorFace("/v1", error_body, headers=error_headers)
IN_PATH = {"vector_store_id": "in the path"}
NOWHERE: Mapping[str, str] = MappingProxyType({})
STORE_PREFIX = "vs_"
_STORE_ID = re.compile(rf"{STORE_PREFIX}[0-9a-f]{{32}}")
Place = Any
"""What orders the elements of a list: a number, or a tuple of some."""


def body_of(schema: Schema, taken: Collection[str] = (), elsewhere: Mapping[str, str] = NOWHERE) -> dict[str, Any]:
    """Return the checked fields of the body of a request to a model.

    Names that are unknown are ignored, because clients send many that mean nothing here, and `taken` whatever they are
    near to. Raises UnknownFieldError for another one that nearly fits, or that belongs `elsewhere`.
    """
    source = decode_json(read_body())
    if isinstance(source, Mapping):
        given = {name: value for name, value in source.items() if name not in taken}
        check_names(given, Names(names_of(schema).known, elsewhere), Unknown())
    return load(schema, source)


def store_id(collection: Stored) -> str:
    """Return the id of the vector store that a collection is."""
    return STORE_PREFIX + collection.id.replace("-", "")


def collections_of(store_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the caller's collections that these vector stores are.

    What is the id of none is returned as it is: the name of a collection, or of nothing.
    """
    names: dict[str, str] = {}
    if any(_STORE_ID.fullmatch(each) for each in store_ids):
        names = {store_id(each): each.name for each in store().collections()}
    return tuple(dict.fromkeys(names.get(each, each) for each in store_ids))


class StoreNotFoundError(CollectionNotFoundError):
    def __init__(self, store_id: str) -> None:
        super().__init__(store_id)
        self.message = f"Vector store '{store_id}' not found"


def collection_of(store_id: str) -> Stored:
    """Return the caller's collection that a vector store is. Raises StoreNotFoundError when there is none."""
    try:
        if _STORE_ID.fullmatch(store_id):
            found = store().records.collection(str(UUID(store_id.removeprefix(STORE_PREFIX))))
            # Of the databases of clients of Chroma's protocol, these clients know the default one.
            name = check_collection_name(found.name)
        else:
            name = check_collection_name(store_id)
        return store().collection(name)
    except (InvalidInputError, CollectionNotFoundError):
        raise StoreNotFoundError(store_id[:100]) from None


def active_collection_of(store_id: str) -> Stored:
    """Return the same and note that the store is active. Raises StoreExpiredError for one whose time has passed."""
    collection = collection_of(store_id)
    layers().store_facts.note_active(collection.id, store_id)
    return collection


def note_active(names: Sequence[str]) -> None:
    """Note that the stores are active which the caller's collections of these names are. Raises StoreExpiredError for
    the first whose time has passed."""
    for each in store().collections_named(names):
        layers().store_facts.note_active(each.id, store_id(each))


def page_of(
    asked: Mapping[str, Any],
    walk: Callable[[Place | None, bool], Iterable[T]],
    place_of: Callable[[str], Place | None],
    *,
    listing: str,
    what: str,
) -> tuple[list[T], bool]:
    """Return (the elements of a list behind or before one, whether there are more).

    `walk` yields those behind a place, the newest first or last; `place_of` returns the place of the element of an id,
    None where it has none. Raises InvalidInputError for the id of nothing that is, or was within the last hour, in the
    `listing`.
    """
    is_backwards, start = asked["before"] is not None, None
    if is_backwards and asked["after"] is not None:
        raise InvalidInputError("after and before cannot both be given", code="invalid_field", field="before")
    field = "before" if is_backwards else "after"
    if (element := asked[field]) is not None and (start := place_of(element)) is None:
        start = layers().store_facts.passed(listing, element)
        if start is None:
            raise InvalidInputError(f"{field} is the id of no {what}", code="invalid_cursor", field=field)
        start = tuple(start) if isinstance(start, list) else start
    found = list(islice(walk(start, (asked["order"] == DESCENDING) != is_backwards), asked["limit"] + 1))
    shown = found[: asked["limit"]]
    return shown[::-1] if is_backwards else shown, len(found) > len(shown)


def behind(
    elements: Iterable[T], start: Place | None, newest_first: bool, place: Callable[[T], Place] = attrgetter("place")
) -> list[T]:
    """Return those of the elements behind a place, in the order of their places or against it."""
    found = [
        each for each in elements if start is None or (place(each) < start if newest_first else place(each) > start)
    ]
    return sorted(found, key=place, reverse=newest_first)
