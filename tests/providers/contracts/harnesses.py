"""A real backend for each provider, and the filters that it can express."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st

from providers.base import CAPABILITIES, ProviderContext
from providers.contract_tests.samples import nobody_there
from schemas.access.callers import ANYBODY, acting_as
from tests.properties import strategies
from tests.providers.contracts.qdrant_server import KEY, QdrantServer
from tests.support.http_stub import running

SMALL_NUMBERS = st.sampled_from((0, 1, 1.0, -1, -1.0, 2, 1.5, -1.5, 0.5, -0.5))
EXACT_NUMBERS = SMALL_NUMBERS | st.integers(-1000, 1000) | st.integers(-4000, 4000).map(lambda eighths: eighths / 8)
TEXTS = st.sampled_from(("", "a", "b", "A", "1", "true", "é", "日本語", "a\nb"))
FIELDS = ("a", "b", "größe", "a-b", "x y")
LEAVES = st.booleans() | EXACT_NUMBERS | TEXTS


def filters(leaves: st.SearchStrategy, fields: st.SearchStrategy, *, with_not: bool, exists: bool = True):
    """Generate filters over these values: `with_not` adds the opposite of orderings, `exists` adds `$exists`. No
    generated filter is one that must be refused."""
    equal = st.tuples(st.sampled_from(("$eq", "$ne", "$contains", "$not_contains")), leaves)
    among = st.tuples(st.sampled_from(("$in", "$nin")), st.lists(leaves, max_size=4))
    ordered = st.tuples(st.sampled_from(strategies.ORDERED), EXACT_NUMBERS)
    kinds = [equal, among, *([st.tuples(st.just("$exists"), st.booleans())] if exists else [])]
    plain = st.lists(st.one_of(kinds), min_size=1, max_size=2).map(dict)
    any_operators = st.lists(st.one_of([*kinds, ordered]), min_size=1, max_size=2).map(dict)
    clauses = st.dictionaries(fields, leaves | any_operators, min_size=1, max_size=2)
    negatable = clauses if with_not else st.dictionaries(fields, leaves | plain, min_size=1, max_size=2)
    return st.recursive(
        clauses | st.just({}) | st.fixed_dictionaries({"$not": negatable}),
        lambda inner: st.one_of(
            st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=3)}),
            st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)}),
        ),
        max_leaves=4,
    )


HELD_BY_CHROMA = st.dictionaries(
    st.sampled_from(FIELDS),
    LEAVES
    | st.lists(st.booleans(), min_size=1, max_size=3)
    | st.lists(TEXTS, min_size=1, max_size=3)
    | st.lists(EXACT_NUMBERS.filter(lambda number: isinstance(number, int)), min_size=1, max_size=3)
    | st.lists(EXACT_NUMBERS.map(float), min_size=1, max_size=3),
    max_size=3,
)
HELD_BY_QDRANT = st.recursive(
    st.dictionaries(
        st.sampled_from((*FIELDS, "a.b")),
        LEAVES | st.none() | st.lists(LEAVES | st.none(), min_size=1, max_size=3),
        max_size=3,
    ),
    lambda inner: st.dictionaries(st.sampled_from(("a", "b")), LEAVES | inner, max_size=3),
    max_leaves=3,
)


SIMPLE = ("collections", "search", "embeddings", "metadata_filtering", "dynamic_collections")


@dataclass(frozen=True)
class Backend:
    """The backend of a provider: `config` and `context` connect to it, `gone` to one that no longer exists. With
    `finds_at_once`, a document is its own nearest as soon as it is stored, even while others are being stored;
    elsewhere the index may miss it."""

    config: dict[str, Any]
    context: ProviderContext
    gone: tuple[dict[str, Any], ProviderContext]
    capabilities: tuple[str, ...] = SIMPLE
    metadata: st.SearchStrategy = strategies.METADATA
    filters: st.SearchStrategy = strategies.FILTERS
    refused: tuple[dict[str, Any], ...] = ()
    details: frozenset[str] = field(default_factory=frozenset)
    finds_at_once: bool = True


@contextlib.contextmanager
def local(request, directory):
    service = request.getfixturevalue("app").extensions["rag.service"]
    lost = request.getfixturevalue("lost_storage")
    context = ProviderContext(storage=service.store, data_dir=service.settings.data_dir)
    gone = ({}, ProviderContext(storage=lost))
    with acting_as(ANYBODY):
        yield Backend({}, context, gone, tuple(CAPABILITIES), details=frozenset({"storage_bytes"}))


@contextlib.contextmanager
def wrapper_service(request, directory):
    live = request.getfixturevalue("live")
    gone = ({"url": nobody_there()}, ProviderContext())
    details = frozenset({"version", "index_lag"})
    yield Backend({"url": live.url}, ProviderContext(), gone, tuple(CAPABILITIES), details=details)


@contextlib.contextmanager
def chroma_server(request, directory):
    yield Backend(
        {"url": request.getfixturevalue("stock_chroma").url},
        ProviderContext(),
        ({"url": nobody_there()}, ProviderContext()),
        SIMPLE,
        HELD_BY_CHROMA,
        filters(LEAVES, st.sampled_from(FIELDS), with_not=False, exists=False),
        (
            *({"a": {"$gt": "b"}}, {"a": {"$exists": True}}, {"a": {"$not": {"$gt": 1}}}, {"a": 2**53}),
            {"$or": [{"n": number} for number in range(300)]},
        ),
        frozenset({"version"}),
        finds_at_once=False,
    )


QDRANT_FILTERS = filters(LEAVES, st.sampled_from((*FIELDS, "a.b", "a.b.a")), with_not=True)
REFUSED_BY_QDRANT = ({"a": {"$gt": "b"}}, {"a": 2**53}, {'"': 1}, {"a.": {"$exists": True}}, {"a.b.c.d.e": 1})


@contextlib.contextmanager
def qdrant_folder(request, directory):
    blocked = directory / "blocked"
    (blocked / "qdrant").mkdir(parents=True)
    (blocked / "qdrant" / "folder").write_text("no folder")
    yield Backend(
        {"path": "folder"},
        ProviderContext(data_dir=directory),
        ({"path": "folder"}, ProviderContext(data_dir=blocked)),
        SIMPLE,
        HELD_BY_QDRANT,
        QDRANT_FILTERS,
        REFUSED_BY_QDRANT,
        frozenset({"storage_bytes"}),
    )


@contextlib.contextmanager
def qdrant_server(request, directory):
    with running(QdrantServer()) as server:
        yield Backend(
            {"url": server.url, "api_key": KEY},
            ProviderContext(),
            ({"url": nobody_there()}, ProviderContext()),
            SIMPLE,
            HELD_BY_QDRANT,
            QDRANT_FILTERS,
            REFUSED_BY_QDRANT,
            frozenset({"version"}),
        )


HARNESSES: dict[str, tuple[Callable, ...]] = {
    "local": (local,),
    "chromadb-wrapper": (wrapper_service,),
    "chromadb": (chroma_server,),
    "qdrant": (qdrant_folder, qdrant_server),
}


def missing(request, _folder):
    """Let the tests of a provider fail that has no harness."""
    pytest.fail(f"provider '{request.param[0]}' needs a line in HARNESSES")


def harnesses_of(entries):
    """Return a test parameter for each backend of each provider."""
    return [
        pytest.param((entry.id, harness), id=f"{entry.id}-{harness.__name__}")
        for entry in entries
        for harness in HARNESSES.get(entry.id, (missing,))
    ]
