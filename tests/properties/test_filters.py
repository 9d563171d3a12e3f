"""For generated documents and filters, the catalogue's SQL selects what the model selects."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from providers.contract_tests.model import ModelDocument, kind
from schemas.errors import TooComplexError
from schemas.records import OrderBy
from schemas.where import MAX_COMPARISONS, MAX_DEPTH, parse_where, to_json
from tests.properties.strategies import FILTERS, documents, embedding, to_collection
from wrapper.catalog import filters, reads
from wrapper.catalog.rows import find_collection

LADDER = (1, True, 1.0, "1", 0, -0.0, False, "", None, [1], [True, "1"], [], {"a": 1}, 2**53, 2**53 + 1, float(2**53))


def _documents(metadatas):
    return [ModelDocument(f"d{n}", "", metadata, embedding(n)) for n, metadata in enumerate(metadatas)]


def _ids(catalog, name, where, **how):
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        page = reads.page(transaction, collection, parse_where(where), limit=1000, **how)
    assert page.total == len(page.documents)
    return [document.id for document in page.documents]


@given(FILTERS)
def test_a_tree_written_as_a_filter_is_parsed_into_the_same_tree(where):
    tree = parse_where(where)
    assert repr(parse_where(to_json(tree))) == repr(tree)  # compared by its text, because 1, 1.0 and True are equal


NAMED = (
    *({"n": value} for value in (1, 1.5, 2, 2**53 + 1, "1", False, None, [1, "x", True, 2.5], [])),
    {"n": "apple", "date": "2026-11-21"},
    {"n": True, "date": "2026-09-01"},
    {"n": {"a": {"b": 7}}, "list": [{"a": 1}]},
    {"n.a": "literal", "n": {"a": "path"}},
    {},
    {"": 1, "a/b": 2, "~t": 3, "a b": 4, "'": 5, "ü": 6},
)
ASKED = [
    *(
        {"n": each}
        for each in (1, 1.0, "1", True, False, 2**53 + 1, 2**53, float(2**53), "APPLE", "", {"$ne": "nobody"})
    ),
    *({"n": {"$gt": 1, **upper}} for upper in ({"$lte": 2}, {"$lt": 2}, {"$lte": 2, "$lt": 2}, {"$lt": 1}, {"$ne": 2})),
    *({"n": {"$gte": "1", "$lt": upper}} for upper in (2, "b")),
    *({"n": {"$lt": upper}} for upper in (-1e300, "apple")),
    *({"date": bound} for bound in ({"$gte": "2026-10-01"}, {"$lt": "2026-10"})),
    *({"n": {operator: []}} for operator in ("$in", "$nin")),
    *({"n": {operator: [1, "apple", True, 1, 1.0]}} for operator in ("$in", "$nin")),
    *({"n": {"$contains": value}} for value in (1, True, 2.5, "ap")),
    *({"n": {"$not": inner}} for inner in ({"$eq": 1}, {"$gt": 1, "$lt": 3})),
    *({path: {"$exists": there}} for path in ("n", "n.a", "n.a.b.c") for there in (True, False)),
    {"n.a.b": 7},
    {"n.a": "literal"},
    {"$and": [{"n": {"$gte": 1}}, {"n": {"$lt": 2}}, {"date": {"$exists": False}}]},
    {"$not": {"n": {"$gte": 1, "$lt": 2}}},
    {"$or": [{"n": 1}, {"n": "1"}, {"n": 1.0}]},
    {"$or": [{"n": 1}, {}]},
    {"$and": [{}, {"n": 1}]},
    {"$or": [{"n": {"$in": []}}, {"n": {"$in": []}}]},
    {"$not": {}},
    {"$not": {"$not": {"n": 1}}},
    {"$not": {"$or": [{"n": {"$exists": True}}, {"": 1}]}},
    {"n": {"$gte": 1}, "$or": [{"n": 1}, {"n": 2}]},
    {"a/b": 2, "~t": 3, "a b": 4, "'": 5, "ü": 6},
    {"'; DROP TABLE documents; --": 1},
]
"""Filters of every kind, for documents that they tell apart."""


@pytest.mark.slow
@example(_documents(NAMED), ASKED)
@given(documents(most=10), st.lists(FILTERS, min_size=1, max_size=6))
def test_every_statement_selects_what_the_model_selects(catalog, stored, found, wheres):
    model, name = to_collection(found), stored(found)
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        for where in wheres:
            expected, tree = [each.id for each in model.matching(where)], parse_where(where)
            page = reads.page(transaction, collection, tree, limit=1000)
            assert [each.id for each in page.documents] == expected
            assert page.total == filters.count(transaction, collection.key, tree, collection.count) == len(expected)
            ids = [each.id for each in model.documents]
            assert set(reads.by_ids(transaction, collection, ids, where=tree)) == set(expected)
            for listing in (
                filters.positions(transaction, collection.key, tree),
                filters.in_order(transaction, collection.key, tree),
            ):
                positions = [row[0] for row in transaction.rows(listing.text, listing.parameters)]
                assert len(positions) == len(set(positions))
                by_position = reads.by_positions(transaction, positions)
                assert {each.id for each in by_position.values()} == set(expected)
            assert sorted(reads.all_positions(transaction, collection, tree).tolist()) == sorted(positions)
            vectors = [place for block, _ in reads.vectors(transaction, collection, tree, block=3) for place in block]
            assert sorted(vectors) == sorted(positions)


OPERATIONS = [
    (operator, operand)
    for operator in ("$eq", "$ne", "$contains", "$not_contains", "$gt", "$gte", "$lt", "$lte")
    for operand in LADDER
    if kind(operand) is not None and (operator in ("$eq", "$ne", "$contains") or not isinstance(operand, bool))
]


def test_each_operator_meets_each_kind_of_value(catalog, stored):
    found = _documents([{"a": value} for value in LADDER] + [{}])
    name, model = stored(found), to_collection(found)
    wheres = [{"a": {operator: operand}} for operator, operand in OPERATIONS]
    wrong = [each for each in wheres if _ids(catalog, name, each) != [one.id for one in model.matching(each)]]
    assert not wrong


@pytest.mark.parametrize(
    "metadata",
    [
        {"a.b": {"c": 1}, "a": {"b.c": 2}},
        {"a": {"b": {"c": 2}, "b.c": 1}},
        {"a.b": {}, "a": {"b": {"c": 1}}},
        {"a.b.c": None, "a": {"b": {"c": 1}}},
    ],
    ids=str,
)
def test_a_literal_key_wins_over_a_path_whatever_the_order_of_keys(catalog, stored, metadata):
    found = _documents([metadata])
    name, model = stored(found), to_collection(found)
    for value in (1, 2, 5):
        for path in ("a.b", "a.b.c"):
            assert _ids(catalog, name, {path: value}) == [each.id for each in model.matching({path: value})]


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        {"$or": [{"n": number} for number in range(5_000)]},
        {"$or": [{"n": number, "m": {"$exists": False}} for number in range(1_100)]},
        {"$and": [{"n": {"$ne": number}} for number in range(10, 1_500)]},
        {"$or": [{"n": {"$ne": number}} for number in range(1_100)]},
        {"$not": {"$or": [{"n": {"$gt": number}} for number in range(3, 3 + MAX_COMPARISONS)]}},
        {"$and": [{"n": {"$gte": 0}}, *({"n": {"$lt": number}} for number in range(5, 4 + MAX_COMPARISONS))]},
        {f"n{number}": {"$exists": False} for number in range(1_100)},
        {"n": {"$in": list(range(9_999))}},
        {"n": {"$nin": list(range(2, 9_999))}},
        {"$or": [{"$text": {"$contains": f"x{number}"}} for number in range(5_000)]},
        {"$and": [{"tags": {"$not_contains": f"a{number}"}} for number in range(5_000)]},
        {"$and": [{"$id": {"$ne": f"i{number}"}} for number in range(5_000)]},
    ],
    ids=[*("or", "or of and", "and of not", "or of not", "not or", "and", "fields", "in", "nin"), "text", "tags", "id"],
)
def test_the_widest_filters_are_answered(catalog, stored, where):
    found = _documents([{"n": number} for number in range(8)] + [{}])
    name, model = stored(found), to_collection(found)
    assert _ids(catalog, name, where) == [each.id for each in model.matching(where)]
    assert _ids(catalog, name, where, order_by=(OrderBy("n", True),)) == [
        each.id for each in model.ordered(where, ["-n"])
    ]


def test_more_conditions_than_a_database_bears_are_refused(catalog, stored):
    name = stored(_documents([{"n": 1}]))
    fields = [f"n{number}" for number in range(2_501)]
    for where in ({each: {"$exists": False} for each in fields}, {"$or": [{each: 1} for each in fields]}):
        with pytest.raises(TooComplexError, match="at most 2,500 conditions"):
            _ids(catalog, name, where)
    assert _ids(catalog, name, {"$or": [{each: 1} for each in ("n", *fields[2:])]}) == ["d0"]


@pytest.mark.parametrize(("levels", "wide"), [(MAX_DEPTH, 1), (MAX_DEPTH, 12), (MAX_DEPTH, 30), (2_000, 1)])
def test_the_deepest_filters_are_answered(catalog, stored, levels, wide):
    found = _documents([{"a": 1}, {"a": 2}, {}])
    name, model = stored(found), to_collection(found)
    where = {"$not": {"a": {"$gt": 1}}}
    for level in range(levels - 2):
        parts = [where, *({"a": {"$ne": 10 + number}} for number in range(wide))][:: 1 if level % 4 < 2 else -1]
        chained = {"$or": parts}
        where = chained if levels > MAX_DEPTH or level % 3 == 0 else ({"$and": parts}, {"$not": where})[level % 3 - 1]
    expected = ["d0", "d1", "d2"] if levels > MAX_DEPTH else [each.id for each in model.matching(where)]
    assert _ids(catalog, name, where) == expected


@settings(max_examples=30)
@example({"a\x00b": 1})
@given(st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=5), st.integers(0, 3), max_size=4))
def test_any_key_is_found_under_its_own_name(catalog, stored, metadata):
    name = stored(_documents([metadata, {}]))
    for key, value in metadata.items():
        if not key.startswith(("$", "#")):
            assert _ids(catalog, name, {key: value}) == ["d0"]
            assert _ids(catalog, name, {key: {"$exists": False}}) == ["d1"]
