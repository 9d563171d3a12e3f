"""The grammar of filters: valid filters, invalid ones, and the place of a fault."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marshmallow import ValidationError

from schemas.errors import InvalidFilterError
from schemas.where import (
    EVERYTHING,
    MAX_COMPARISONS,
    MAX_DEPTH,
    MAX_VALUES,
    OPERATORS,
    And,
    Contains,
    Equals,
    Exists,
    In,
    Not,
    Or,
    Ordered,
    all_of,
    parse_where,
    to_json,
)
from schemas.wire.dify import OPERATORS as OPERATORS_OF_DIFY
from schemas.wire.dify import Operator
from schemas.wire.openai.filters import Filters


@pytest.mark.parametrize("source", [None, {}, {"$and": [{}]}, {"$or": [{}]}])
def test_no_filter(source):
    assert parse_where(source) == EVERYTHING


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ({"a": 1}, Equals("a", 1)),
        ({"a": "x", "b": True}, And((Equals("a", "x"), Equals("b", True)))),
        ({"a": {"$ne": "x"}}, Not(Equals("a", "x"))),
        ({"a": {"$gt": 1, "$lte": 5}}, And((Ordered("a", "$gt", 1), Ordered("a", "$lte", 5)))),
        ({"a": {"$lt": 2**63}}, Ordered("a", "$lt", 2**63)),
        ({"a": {"$in": [1, "x", True]}}, In("a", (1, "x", True))),
        ({"a": {"$nin": []}}, Not(In("a", ()))),
        ({"a": {"$exists": True}}, Exists("a")),
        ({"a": {"$exists": False}}, Not(Exists("a"))),
        ({"a": {"$contains": "x"}}, Contains("a", "x")),
        ({"a": {"$not_contains": 1}}, Not(Contains("a", 1))),
        ({"a": {"$not": {"$gt": 1}}}, Not(Ordered("a", "$gt", 1))),
        ({"$not": {"a": 1}}, Not(Equals("a", 1))),
        ({"$or": [{"a": 1}]}, Equals("a", 1)),
        ({"$or": [{"a": 1}, {"b": 2}]}, Or((Equals("a", 1), Equals("b", 2)))),
        ({"$and": [{"a": 1}, {"$and": [{}, {"b": 2}]}], "c": 3}, And((Equals("a", 1), Equals("b", 2), Equals("c", 3)))),
        (
            {"$or": [{"a": {"$gt": 1, "$lt": 2}}, {"$or": [{"b": 2}]}]},
            Or((And((Ordered("a", "$gt", 1), Ordered("a", "$lt", 2))), Equals("b", 2))),
        ),
        ({"$not": {"$not": {"$not": {"a": {"$not": {"$not": {"$ne": 1}}}}}}}, Equals("a", 1)),
        ({"": 1}, Equals("", 1)),
        ({"gte": {"$gte": 1}, "a.gte": 1}, And((Ordered("gte", "$gte", 1), Equals("a.gte", 1)))),
        ({"a/b~c": {"$eq": 1}}, Equals("a/b~c", 1)),
    ],
    ids=str,
)
def test_filters(source, tree):
    assert parse_where(source) == tree
    assert repr(parse_where(to_json(tree))) == repr(tree)


@pytest.mark.parametrize(
    ("tree", "spelled"),
    [
        (EVERYTHING, {}),
        (And((Equals("a", 1), Not(Exists("b")))), {"a": 1, "b": {"$exists": False}}),
        (And((Ordered("a", "$gt", 1), Not(Equals("a", 5)))), {"$and": [{"a": {"$gt": 1}}, {"a": {"$ne": 5}}]}),
        (Not(And((Equals("a", 1), Equals("b", 1)))), {"$not": {"a": 1, "b": 1}}),
        (
            Not(Or((In("a", (1, "x")), Not(Contains("b", True))))),
            {"$not": {"$or": [{"a": {"$in": [1, "x"]}}, {"b": {"$not_contains": True}}]}},
        ),
    ],
    ids=str,
)
def test_a_tree_is_spelled_as_json(tree, spelled):
    assert to_json(tree) == spelled
    assert repr(parse_where(to_json(tree))) == repr(tree)


def test_filters_are_joined_without_those_that_say_nothing():
    one, two, three = Equals("a", 1), Exists("b"), Equals("c", 3)
    assert all_of() == all_of(EVERYTHING, EVERYTHING) == EVERYTHING
    assert all_of(EVERYTHING, one) == one
    assert all_of(And((one, two)), EVERYTHING, three) == And((one, two, three))
    assert all_of(Or((one, two)), Not(And((one, two)))) == And((Or((one, two)), Not(And((one, two)))))


@pytest.mark.parametrize(
    ("source", "pointer", "words"),
    [
        ([], "", "must be an object"),
        ({"a": None}, "/a", "$exists"),
        ({"a": [1]}, "/a", "not a list"),
        ({"a": {}}, "/a", "at least one operator"),
        ({"a": {"$gt": True}}, "/a/$gt", "not a boolean"),
        ({"a": {"$in": 1}}, "/a/$in", "needs a list"),
        ({"a": {"$in": [1, None]}}, "/a/$in/1", "not null"),
        ({"a": {"$exists": 1}}, "/a/$exists", "true or false"),
        ({"a": {"$not": 1}}, "/a/$not", "object with operators"),
        ({"a": {"$regex": "x"}}, "/a/$regex", "unknown operator '$regex': no operator looks inside strings"),
        ({"a": {"b": 1}}, "/a/b", "unknown operator 'b'; a nested field is written 'a.b'"),
        ({"$nor": [{"a": 1}]}, "/$nor", "{$not: {$or: […]}}"),
        ({"a": {"gte": 1}}, "/a/gte", "did you mean '$gte'? (a nested field is written 'a.gte')"),
        ({"a": {"$gtee": 1}}, "/a/$gtee", "did you mean '$gte'?"),
        ({"a": {"betwen": [1, 2]}}, "/a/betwen", "{$gte: …, $lte: …}"),
        ({"a": {"$and": [{"b": 1}]}}, "/a/$and", "it joins filters"),
        ({"andAll": [{"a": 1}]}, "/andAll", "did you mean '$and'?"),
        ({"a": {"must": [{"a": 1}]}}, "/a/must", "it joins filters, {$and: [{field: …}, …]}"),
        ({"Or": {"a": 1}}, "/Or/a", "did you mean '$or'?"),
        ({"$OR": [{"a": 1}]}, "/$OR", "did you mean '$or'?"),
        ({"$gte": 1}, "/$gte", "{field: {$gte: …}}"),
        ({"$text": {"Contains": "x"}}, "/$text/Contains", "of $text: did you mean '$contains'?"),
        ({"#id": {"==": "x"}}, "/#id/==", "of #id: did you mean '$eq'?"),
        ({"#documnt": {"$not_contains": "x"}}, "/#documnt", "did you mean '#document'?"),
        (
            {"$or": [{"#uri": {"$ne": 1}}]},
            "/$or/0/#uri",
            "'#uri' is no field: beside fields there are #id and #document",
        ),
        ({"metadata": {"n": 1}}, "/metadata/n", "conditions are written without 'metadata', {n: …}"),
        ({"$geo": 1}, "/$geo", "nothing asks for places"),
        ({"a": 1, "$not": {"field": "meta.n", "operator": "==", "value": 1}}, "/$not", 'of Haystack; here: {"n": 1}'),
        ({"type": "nin", "key": "n", "value": [1]}, "", 'of OpenAI; here: {"n": {"$nin": …}}'),
        ({"filters": [{}], "condition": "or"}, "", 'of LlamaIndex; here: {"$or": […]}'),
        ({"#document": {"$regex": "(?=x)"}}, "/#document/$regex", "look-behind, is not supported: '(?='"),
        ({"$and": []}, "/$and", "at least one filter"),
        ({"$and": [{"a": 1}, 2]}, "/$and/1", "must be an object"),
        ({"$or": [{"a": 1}, {"b": {"$gt": True}}]}, "/$or/1/b/$gt", "not a boolean"),
        ({"$not": [{"a": 1}]}, "/$not", "must be an object"),
        ({"a/b~c": {"$x": 1}}, "/a~1b~0c/$x", "unknown operator"),
        ({"$id": 7}, "/$id/0", "an id is a string"),
        ({"$id": {"$in": ["a", 1]}}, "/$id/$in/1", "not a number"),
    ],
    ids=str,
)
def test_faults_are_located(source, pointer, words):
    with pytest.raises(InvalidFilterError) as refused:
        parse_where(source)
    assert refused.value.details["pointer"] == pointer
    assert refused.value.details["field"] == "where"
    assert refused.value.message.startswith("Invalid 'where' filter: ")
    assert words in refused.value.message


def test_an_unknown_operator_names_the_known_ones_and_the_field():
    with pytest.raises(InvalidFilterError, match="Invalid 'replace_where' filter: unknown operator") as refused:
        parse_where({"a": {"$lt3": 1}}, "replace_where")
    assert refused.value.details == {"field": "replace_where", "pointer": "/a/$lt3", "allowed": list(OPERATORS)}


def _nested(operators, levels, leaf):
    where = leaf
    for level in range(levels):
        operator = operators[level % len(operators)]
        where = {operator: where if operator == "$not" else [where, {f"n{level}": 1}]}
    return where


@pytest.mark.parametrize("operators", [("$and", "$or"), ("$not", "$or"), ("$not", "$and")], ids=str)
def test_depth_has_a_limit(operators):
    parse_where(_nested(operators, MAX_DEPTH, {"a": 1}))
    for deeper in (MAX_DEPTH + 2, 400):
        with pytest.raises(InvalidFilterError, match=f"nested more than {MAX_DEPTH} deep"):
            parse_where(_nested(operators, deeper, {"a": 1}))


@pytest.mark.parametrize("operator", ["$and", "$or", "$not"])
def test_a_chain_of_one_operator_is_as_long_as_somebody_likes(operator):
    inner = {"$gt": 1}
    for _ in range(3_000):
        inner = {"$not": inner}
    tree = parse_where(_nested([operator], 3_000, {"a": inner}))
    leaf = Ordered("a", "$gt", 1)
    assert tree == leaf if operator == "$not" else tree.parts[0] == leaf and len(tree.parts) == 3_001


@pytest.mark.parametrize("operator", ["$in", "$nin"])
def test_the_number_of_values_has_a_limit(operator):
    parse_where({"a": {operator: list(range(MAX_VALUES))}})
    half = list(range(MAX_VALUES // 2 + 1))
    for source in ({"a": {operator: [*half, *half]}}, {"a": {operator: half}, "b": {"$in": half}}):
        with pytest.raises(InvalidFilterError, match=f"more than {MAX_VALUES} values") as refused:
            parse_where(source)
        assert refused.value.details["limit"] == MAX_VALUES
    parse_where({"$or": [{"$text": {"$contains": str(each)}} for each in range(MAX_VALUES)]})
    with pytest.raises(InvalidFilterError, match=f"more than {MAX_VALUES} filters below"):
        parse_where({"$or": [{"a": {"$exists": True}}] * (MAX_VALUES + 1)})


@pytest.mark.parametrize("operator", ["$gt", "$gte", "$lt", "$lte"])
def test_the_number_of_comparisons_has_a_limit(operator):
    parse_where({"$or": [{"a": {operator: number}} for number in range(MAX_COMPARISONS)]})
    with pytest.raises(InvalidFilterError, match=f"more than {MAX_COMPARISONS} comparisons") as refused:
        parse_where({"$or": [{"a": {operator: number}} for number in range(MAX_COMPARISONS + 1)]})
    assert refused.value.details["pointer"] == f"/$or/{MAX_COMPARISONS}/a/{operator}"
    with pytest.raises(InvalidFilterError, match="more than 64 regular expressions"):
        parse_where({"$or": [{"$text": {"$regex": f"{number}{operator}"}} for number in range(65)]})


def test_operators_of_other_products_protocols_are_hinted_at_in_their_words():
    with pytest.raises(ValidationError, match="did you mean 'gte'"):
        Filters().deserialize({"type": "and", "filters": [{"type": ">=", "key": "n", "value": 1}]})
    with pytest.raises(ValidationError, match="did you mean '≥'"):
        Operator(OPERATORS_OF_DIFY).deserialize("$gte")


def _of(kind, value, key="a", **more):
    return {"type": kind, "key": key, "value": value, **more}


@pytest.mark.parametrize(
    ("place", "sources"),
    [
        ("value", [_of(kind, value) for kind in ("ne", "gt") for value in (None, {}, [1])] + [_of("gt", True)]),
        ("value", [_of("nin", value) for value in (None, 1, "x", {}, ["x"] * (MAX_VALUES + 1))]),
        ("value[1]", [_of("in", [1, value]) for value in (None, [], {})]),
        ("key", [_of("eq", 1, key) for key in ("", None, 1)]),
        ("key", [{"type": "and", "filters": [_of("eq", 1)], "key": "a"}]),
        ("type", [_of(kind, 1) for kind in (None, [], "$eq", "EQ", "contains", "not")]),
        ("keys", [_of("eq", 1, keys=1)]),
        ("filters", [_of("eq", 1, filters=1), *({"type": "or", "filters": value} for value in (None, [], {}))]),
        (f"filters[{MAX_COMPARISONS}].value", [{"type": "or", "filters": [_of("gt", 1)] * (MAX_COMPARISONS + 1)}]),
    ],
)
def test_a_filter_of_openais_protocol_is_refused_at_its_place_and_in_its_words(place, sources):
    joined = [{"type": "and", "filters": [_of("eq", 1), source]} for source in sources]
    for source, at in [*((each, place) for each in sources), *((each, f"filters[1].{place}") for each in joined)]:
        with pytest.raises(ValidationError) as caught:
            Filters().deserialize(source)
        [(said, [sentence])] = caught.value.messages.items()
        assert (said, "$" in sentence) == (at, False)


def test_an_attribute_of_a_name_that_the_service_has_counts_its_values_once():
    assert Filters().deserialize(_of("nin", [0] * MAX_VALUES, "title"))
    for joining, kind, together in (("or", "eq", "in"), ("and", "ne", "nin")):
        source = {"type": joining, "filters": [_of(kind, 0, "title"), _of(together, [1, 2], "title")]}
        assert Filters().deserialize(source) == Filters().deserialize(_of(together, [0, 1, 2], "title"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from((*OPERATORS, "$and", "$or", "$nor", "a", "a.b", "")), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=300)
@given(JSON)
def test_anything_is_a_filter_or_refused_with_its_place(source):
    try:
        parse_where(source)
    except InvalidFilterError as refused:
        here = source
        for step in refused.details["pointer"].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            here = here[int(key)] if isinstance(here, list) else here[key]
