"""Every read of a store, and how its answer is compared with that of a store that holds only what a filter matches."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from schemas.errors import RagError
from schemas.records import Collection, Document, Facet, GatherSpec, Group, Match, OrderBy, TextMatch
from schemas.where import parse_where
from tests.properties.strategies import FILTERS, ORDERS, PATHS, embedding
from wrapper.scoped_store import ScopedStore

Read = tuple[str, Callable[[ScopedStore, str], Any]]
"""What is asked, in words, and the question: it takes a store and the name of the collection."""

IDS = st.sampled_from([f"d{number}" for number in range(16)])
FIELD_NAMES = st.sampled_from(("a", "b", "document", "team", "tags", "section", "language", "nowhere", *PATHS[:5]))
SENTENCES = (
    "Der Hausschlüssel liegt beim Empfang neben der Tür.",
    "Der Verlust eines Schlüssels ist sofort im Büro zu melden.",
    "Das Büro ist ab acht Uhr offen und am Abend zu.",
    "The keys of the office are kept at the front desk.",
    "Holidays are asked for in the portal, and the portal answers.",
    "Les clés du bureau sont gardées chez le concierge de la maison.",
    "getUserName reads snake_case and std::env from HTTPServer",
    "日本語の文書 と 鍵",
    "key key key",
    "",
)
QUESTIONS = st.sampled_from(
    (
        "Büroschlüssel",
        "Wo liegt der Hausschlüssel im Büro?",
        "Schlüsselempfang",
        "the keys of the office",
        "of the",
        '"front desk" keys',
        '"im Büro"',
        "portal portal key",
        "clés du bureau",
        "get user name",
        "日",
        "tagged heading words",
        "nothing that is anywhere",
    )
)
SHARED = ("document", "b", "section")
"""The fields whose values many of the documents share."""
BROAD = st.sampled_from(
    ({}, {}, {"document": "x"}, {"document": {"$ne": "y"}}, {"a": {"$exists": True}}, {"team": "red"})
)
WHERES = st.one_of(BROAD, BROAD, FILTERS)


def _orders(names: list[str]) -> tuple[OrderBy, ...]:
    return tuple(OrderBy(name.removeprefix("-"), name.startswith("-")) for name in names)


SPECS = st.builds(
    lambda by, names, limit, window, text: GatherSpec(tuple(by), _orders(names), limit, *window, text),
    st.lists(st.sampled_from(SHARED), min_size=1, max_size=1)
    | st.lists(st.sampled_from(SHARED) | FIELD_NAMES, min_size=1, max_size=2, unique=True),
    ORDERS,
    st.integers(1, 8),
    st.just((None, None)) | st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.booleans(),
)


@st.composite
def reads(draw: st.DrawFn) -> Read:
    """Draw one read of a store."""
    kind = draw(st.sampled_from(sorted(_READS)))
    said, read = _READS[kind](draw)
    return f"{kind} {said}", read


def asked(read: Read, store: ScopedStore, name: str) -> Any:
    """Return the answer, or the error without what names the collection."""
    try:
        return _plain(read[1](store, name))
    except RagError as error:
        details = {key: value for key, value in error.details.items() if key != "collection"}
        return type(error).__name__, error.code, error.message.replace(name, "…"), details


def _page(draw: st.DrawFn) -> Any:
    where, order, limit = draw(WHERES), draw(ORDERS), draw(st.integers(1, 5))
    shows = draw(st.booleans())

    def read(store: ScopedStore, name: str) -> Any:
        pages, cursor = [], None
        while True:
            found, _ = store.page(
                name, parse_where(where), limit=limit, order_by=_orders(order), cursor=cursor, with_embeddings=shows
            )
            pages.append((found.documents, found.total, found.unknown_fields))
            cursor = found.next_cursor
            if cursor is None:
                return pages

    return (where, order, limit), read


def _skipping(draw: st.DrawFn) -> Any:
    where, order = draw(WHERES), draw(ORDERS)
    limit, offset = draw(st.integers(1, 5)), draw(st.integers(0, 6))

    def read(store: ScopedStore, name: str) -> Any:
        found, _ = store.page(name, parse_where(where), limit=limit, offset=offset, order_by=_orders(order))
        return found.documents, found.total, found.next_cursor is None, found.unknown_fields

    return (where, order, limit, offset), read


def _by_ids(draw: st.DrawFn) -> Any:
    ids, where, limit = draw(st.lists(IDS, max_size=8)), draw(WHERES), draw(st.integers(1, 5))

    def read(store: ScopedStore, name: str) -> Any:
        found, _ = store.page(name, parse_where(where), limit=limit, ids=ids)
        some, _ = store.documents(name, ids, parse_where(where), with_embeddings=True)
        return found.documents, found.total, some

    return (ids, where), read


def _one(draw: st.DrawFn) -> Any:
    wanted = draw(IDS)
    return wanted, lambda store, name: store.document(name, wanted, with_embeddings=True)[0]


def _counted(draw: st.DrawFn) -> Any:
    where = draw(WHERES)
    return where, lambda store, name: store.count(name, parse_where(where))[0]


def _facets(draw: st.DrawFn) -> Any:
    fields, where = draw(st.lists(FIELD_NAMES, min_size=1, max_size=3, unique=True)), draw(WHERES)
    limit = draw(st.integers(1, 20))

    def read(store: ScopedStore, name: str) -> Any:
        return store.facets(name, fields, parse_where(where), limit=limit)[:2]

    return (fields, where, limit), read


def _values(draw: st.DrawFn) -> Any:
    field = draw(FIELD_NAMES)
    return field, lambda store, name: store.distinct_values(name, field)[0]


def _words(draw: st.DrawFn) -> Any:
    query, where, limit = draw(QUESTIONS), draw(WHERES), draw(st.integers(1, 8))

    def read(store: ScopedStore, name: str) -> Any:
        # Asked again, until the words are held in memory.
        return [store.text_search(name, query, parse_where(where), limit=limit)[:2] for _ in range(3)]

    return (query, where, limit), read


def _nearest(draw: st.DrawFn) -> Any:
    where, top_k, seed = draw(WHERES), draw(st.integers(1, 6)), draw(st.integers(0, 99))
    dimension = draw(st.sampled_from((4, 4, 4, 3)))
    farthest, spec = draw(st.none() | st.floats(0, 2)), draw(st.none() | SPECS)

    def read(store: ScopedStore, name: str) -> Any:
        found = store.query(
            name,
            embedding(seed, dimension),
            top_k=top_k,
            where=parse_where(where),
            max_distance=farthest,
            gather_by=spec,
            with_embeddings=True,
        )
        return found.matches, found.groups, found.unknown_fields

    return (where, top_k, seed, dimension, farthest, spec), read


def _gathered(draw: st.DrawFn) -> Any:
    spec = draw(SPECS)
    ids = draw(st.none() | st.lists(IDS, min_size=1, max_size=4))
    where = draw(WHERES) if ids is None else None

    def read(store: ScopedStore, name: str) -> Any:
        found = store.gather(name, spec, ids=ids, where=None if where is None else parse_where(where))
        return found.groups, found.missing, found.unknown_fields

    return (spec, ids, where), read


def _exported(draw: st.DrawFn) -> Any:
    def read(store: ScopedStore, name: str) -> Any:
        with store.export(name) as (collection, blocks):
            return collection.count, [each for block in blocks for each in block]

    return "", read


def _described(draw: st.DrawFn) -> Any:
    def read(store: ScopedStore, name: str) -> Any:
        [listed] = [each for each in store.collections() if each.name == name]
        [named] = store.collections_named([name, "no such"])
        return store.collection(name), listed, named

    return "", read


_READS: dict[str, Callable[[st.DrawFn], Any]] = {
    "page": _page,
    "page from": _skipping,
    "by ids": _by_ids,
    "document": _one,
    "count": _counted,
    "facets": _facets,
    "values": _values,
    "words": _words,
    "nearest": _nearest,
    "gather": _gathered,
    "export": _exported,
    "collection": _described,
}


SHOWN: dict[type, tuple[str, ...]] = {
    Collection: ("count", "dimension", "metadata", "metric"),
    Document: ("id", "text", "metadata_json", "embedding"),
    Facet: ("values", "distinct", "minimum", "maximum"),
    Group: ("key", "rank", "documents", "places", "hits", "total", "best_distance", "text"),
    Match: ("document", "distance", "score"),
    TextMatch: ("document", "score"),
}
"""What two stores that hold the same documents say alike of each."""


def _plain(value: Any) -> Any:
    """Return what is compared of an answer; numbers as they are written, because 1, 1.0 and True are equal in Python."""
    if type(value) in SHOWN:
        return [_plain(getattr(value, name)) for name in SHOWN[type(value)]]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, set | frozenset) else repr(value)


def admin_export(store: ScopedStore, name: str) -> list[Document]:
    """Return all documents in the order of insertion."""
    with store.export(name) as (_, blocks):
        return [each for block in blocks for each in block]
