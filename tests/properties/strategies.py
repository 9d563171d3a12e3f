"""Generate documents, filters and orders from few keys and values, so that they meet, with awkward ones among them."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from providers.contract_tests.model import ModelDocument
from schemas.records import DocumentBatch
from tests.properties.writable_model import WritableModel

PATHS = ("a", "b", "a.b", "a.b.c", "b.a", "", "a.", ".a", "größe", "\x00", "a\x00", "𝔸", "x.a", "list", "list.a")
KEYS = ("a", "b", "c", "a.b", "b.c", "", "größe", "\x00", "a\x00", "𝔸", "$a", "list", "title", "section")

SAFE, FAR = 2**53, 2**63
INTEGERS = st.sampled_from(
    (0, 1, -1, 2, 10, SAFE - 1, SAFE, SAFE + 1, -SAFE - 1, FAR - 1, FAR - 1024, -FAR, -FAR + 1, FAR, 2 * FAR - 1)
) | st.integers(-FAR, FAR - 1)
FLOATS = st.sampled_from(
    (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, float(SAFE), float(SAFE + 2), float(FAR), -float(FAR), 1e308, -1e308, 5e-324, 1e-7)
) | st.floats(allow_nan=False, allow_infinity=False)
# JSON cannot carry half a surrogate pair.
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
AWKWARD = ("é", "e\u0301", "\uffff", "\U00010000", "a\x00", "a\x00b")
STRINGS = st.sampled_from(("", "a", "b", "A", "1", "true", "2024-01-05", "2024-01-10", *AWKWARD)) | TEXTS
SCALARS = st.booleans() | INTEGERS | FLOATS | STRINGS
# A few closely related values, so that filters hit.
COMMON = st.sampled_from((True, False, 0, 1, 1.0, -0.0, 2, "1", "a", "b", "", SAFE, SAFE + 1, float(SAFE)))
VALUES = COMMON | SCALARS

LISTS = st.lists(VALUES | st.none() | st.just({"a": 1}) | st.just([1]), max_size=4)
METADATA = st.recursive(
    st.dictionaries(st.sampled_from(KEYS) | TEXTS, VALUES | LISTS | st.none(), max_size=4),
    lambda inner: st.dictionaries(st.sampled_from(KEYS), VALUES | LISTS | st.none() | inner, max_size=4),
    max_leaves=4,
)

# Two fields and a few values, which documents share.
SHARED_METADATA = st.fixed_dictionaries({}, optional={key: COMMON | st.lists(COMMON, max_size=3) for key in ("a", "b")})

FIELDS = st.sampled_from(PATHS) | TEXTS.filter(lambda text: not text.startswith(("$", "#")))
ORDERED = ("$gt", "$gte", "$lt", "$lte")
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(("$eq", "$ne", "$contains", "$not_contains")), VALUES),
    st.tuples(st.sampled_from(ORDERED), VALUES.filter(lambda value: not isinstance(value, bool))),
    st.tuples(st.sampled_from(("$in", "$nin")), st.lists(VALUES, max_size=4)),
    st.tuples(st.just("$exists"), st.booleans()),
)
OPERATORS = st.recursive(
    st.lists(OPERATIONS, min_size=1, max_size=3).map(dict),
    lambda inner: st.fixed_dictionaries({"$not": inner}, optional={"$exists": st.booleans()}),
    max_leaves=2,
)
CLAUSES = st.dictionaries(FIELDS, VALUES | OPERATORS, min_size=1, max_size=3)
FILTERS = st.recursive(
    CLAUSES | st.just({}),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$not": inner}),
        st.tuples(CLAUSES, st.lists(inner, min_size=1, max_size=2)).map(lambda pair: {**pair[0], "$or": pair[1]}),
    ),
    max_leaves=5,
)

ORDER_FIELDS = ("a", "b", "a.b", "größe", "list", "𝔸")
ORDERS = st.lists(
    st.tuples(st.sampled_from(ORDER_FIELDS), st.booleans()).map(lambda pair: ("-" if pair[1] else "") + pair[0]),
    max_size=3,
    unique_by=lambda name: name.removeprefix("-"),
)

WORDS = st.sampled_from(
    ("alpha", "getUserName", "snake_case", "std::env", "HTTPServer", "the", "日本語", "Ünï", "x\x00y")
)
BODIES = st.lists(WORDS, max_size=4).map(" ".join) | TEXTS


def embedding(seed: int, dimension: int = 4) -> np.ndarray:
    """Return a vector that is different for every seed, so that no two distances are equal by accident."""
    return np.random.default_rng(seed).normal(size=dimension).astype("<f4")


@st.composite
def documents(
    draw: st.DrawFn,
    *,
    least: int = 0,
    most: int = 12,
    dimension: int = 4,
    metadata: st.SearchStrategy[dict[str, Any]] = METADATA | SHARED_METADATA,
) -> list[ModelDocument]:
    metadatas = draw(st.lists(metadata, min_size=least, max_size=most))
    seed = draw(st.integers(0, 2**16))
    return [
        ModelDocument(f"d{number}", f"text {number}", metadata, embedding(seed + number, dimension))
        for number, metadata in enumerate(metadatas)
    ]


def to_batch(found: list[ModelDocument]) -> DocumentBatch:
    return DocumentBatch(
        [each.id for each in found],
        [each.text for each in found],
        [each.metadata for each in found],
        np.stack([each.embedding for each in found]),
    )


def to_collection(found: list[ModelDocument], metric: str = "cosine") -> WritableModel:
    return WritableModel(metric=metric, dimension=len(found[0].embedding) if found else None, documents=found)
