"""`POST /dify/retrieval` as Dify asks it, and its conditions on metadata: what each operator finds, by a plain model,
and what bounds their work."""

from datetime import UTC, datetime

import pytest

from interfaces.dify import conditions
from interfaces.dify.conditions import ConditionFilters
from schemas.contracts.dify import Condition
from schemas.errors import InvalidInputError

ABSENT = object()
VALUES = {
    "words": "release notes",
    "upper": "Release",
    "blank": "",
    "seven": 7,
    "seven-as-text": "7",
    "half": 7.5,
    "comma": "7,5",
    "true": True,
    "true-as-text": "true",
    "null": None,
    "list": ["release", "x"],
    "numbers": [7, 8],
    "nothing-listed": [],
    "object": {"release": 1},
    "nothing": ABSENT,
    "early": "2025-10-01",
    "late": "2025-10-03T08:00:00Z",
    "elsewhere": "2025-10-02T23:30:00-02:00",
    "seconds": 1_759_363_200,
    "word-with-digits": "7th release",
}
NOON = datetime(2025, 10, 2, 12, tzinfo=UTC)


def scalars(value):
    return value if isinstance(value, list) else [value] if isinstance(value, str | int | float) else []


def text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def number(value):
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def moment(value):
    if number(value) is not None:
        return datetime.fromtimestamp(value, UTC)
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def compared(how):
    return lambda value: number(value) is not None and how(value)


def any_text(how):
    return lambda value: any(how(text(each)) for each in scalars(value))


CASES = {
    ("contains", "release"): any_text(lambda each: "release" in each),
    ("contains", "7"): any_text(lambda each: "7" in each),
    ("start with", "rel"): any_text(lambda each: each.startswith("rel")),
    ("end with", "notes"): any_text(lambda each: each.endswith("notes")),
    ("is", "7"): any_text(lambda each: each == "7"),
    ("is", "true"): any_text(lambda each: each == "true"),
    ("is", "release"): any_text(lambda each: each == "release"),
    ("in", "7, x"): any_text(lambda each: each in ("7", "x")),
    ("in", ("7,5",)): any_text(lambda each: each == "7,5"),
    ("=", "7"): lambda value: any(number(each) == 7 for each in scalars(value)),
    ("=", "7.50"): lambda value: any(number(each) == 7.5 for each in scalars(value)),
    (">", 7): compared(lambda value: value > 7),
    ("<", "7.5"): compared(lambda value: value < 7.5),
    ("<", 2**63): compared(lambda value: value < 2**63),
    ("≥", 7.5): compared(lambda value: value >= 7.5),
    ("≤", 7): compared(lambda value: value <= 7),
    ("before", NOON.isoformat()): lambda value: (at := moment(value)) is not None and at < NOON,
    ("before", NOON.timestamp()): lambda value: (at := moment(value)) is not None and at < NOON,
    ("after", "20251002"): lambda value: (at := moment(value)) is not None and at > datetime(2025, 10, 2, tzinfo=UTC),
    ("after", "2025-10-03T01:00:00+00:00"): lambda value: (
        (at := moment(value)) is not None and at > datetime(2025, 10, 3, 1, tzinfo=UTC)
    ),
    ("not empty", None): any_text(lambda each: each != ""),
}
NEGATED = {"contains": "not contains", "is": "is not", "in": "not in", "=": "≠", "not empty": "empty"}
CASES |= {
    (NEGATED[operator], given): lambda value, holds=holds: not holds(None if value is ABSENT else value)
    for (operator, given), holds in CASES.items()
    if operator in NEGATED
}


@pytest.fixture(scope="module")
def shelf(text_collection):
    return text_collection(
        {
            name: (f"A text about {name}.", {} if value is ABSENT else {"field": value, "nested": {"field": value}})
            for name, value in VALUES.items()
        }
    )


@pytest.fixture
def ask(client):
    """`ask(collection, condition, …)`: (the status, the ids of the documents that are found)."""

    def ask(collection, *conditions, query="a text", top_k=100, logical_operator="and"):
        asked = {
            "knowledge_id": collection,
            "query": query,
            "retrieval_setting": {"top_k": top_k, "score_threshold": 0},
            "metadata_condition": {"logical_operator": logical_operator, "conditions": list(conditions)},
        }
        answer = client.post("/dify/retrieval", json=asked)
        return answer.status_code, [each["metadata"]["document_id"] for each in answer.json.get("records", [])]

    return ask


@pytest.fixture
def found(ask, shelf):
    def found(*conditions, logical_operator="and"):
        status, ids = ask(shelf, *conditions, logical_operator=logical_operator)
        assert status == 200
        return set(ids)

    return found


def condition(operator, value, name="field"):
    return {"name": name, "comparison_operator": operator} | ({} if value is None else {"value": value})


@pytest.mark.parametrize(("operator", "given"), CASES)
def test_each_operator_finds_what_the_model_says(found, operator, given):
    holds = CASES[operator, given]
    expected = {name for name, value in VALUES.items() if holds(None if value is ABSENT else value)}
    if operator not in (">", "<", "≥", "≤"):
        assert 0 < len(expected) < len(VALUES)
    value = list(given) if isinstance(given, tuple) else given
    assert found(condition(operator, value)) == expected
    assert found(condition(operator, value, "nested.field")) == expected


@pytest.mark.parametrize(("operator", "given"), [each for each in CASES if each[0] in ("before", "after")])
def test_times_are_found_among_more_texts_than_are_looked_at(found, monkeypatch, operator, given):
    monkeypatch.setattr(conditions, "MOST_VALUES", 3)
    no_times = {"seven-as-text", "comma", "word-with-digits"}  # though they begin with digits
    expected = {name for name, value in VALUES.items() if CASES[operator, given](None if value is ABSENT else value)}
    assert found(condition(operator, given)) - no_times == expected


def test_conditions_are_joined_by_and_or_and_of_several_names_any_is_enough(found):
    seven, words = condition("is", "7"), condition("contains", "notes")
    assert found(seven, words) == set()
    assert found(seven, words, logical_operator="or") == {"seven", "seven-as-text", "numbers", "words"}
    assert found() == set(VALUES)
    assert found(condition("contains", "notes", ["nobody", "field"])) == {"words"}
    assert found(condition("not contains", "notes", ["nobody", "field"])) == set(VALUES) - {"words"}


@pytest.mark.slow
def test_matches_fill_the_answer_however_far_down_they_are(ask, text_collection):
    name = text_collection(
        {f"near-{number}": ("The release notes.", {"path": f"a/{number}.md"}) for number in range(150)}
        | {"far": ("Something else.", {"path": "b/1.txt"})}
    )
    ends = condition("end with", ".txt", "path")
    assert ask(name, ends, query="release notes", top_k=1) == (200, ["far"])


@pytest.mark.parametrize(("operator", "in_lists"), [("contains", False), ("end with", True), ("empty", True)])
def test_too_many_values_are_refused_and_not_cut(operator, in_lists):
    def values(field, where, most):
        is_of_lists = most == conditions.MOST_ELEMENTS
        return [str(each) for each in range(most + 1)] if is_of_lists == in_lists else []

    with pytest.raises(InvalidInputError, match=r"'path' has more than 1(0,000|,000) values"):
        ConditionFilters(values).where([Condition(("path",), operator, ("x",))], any_holds=False)
    names = tuple(f"field-{each}" for each in range(5))
    many = ConditionFilters(lambda field, where, most: [f"x{each}" for each in range(900)] * (most < 5_000))
    with pytest.raises(InvalidInputError, match="too many values of lists"):
        many.where([Condition(names, "contains", ("x",))], any_holds=False)


@pytest.mark.parametrize(("given", "read"), [("+7", 7), ("07", 7), (".5", 0.5), ("7.", 7), ("1e3", 1000), (" 7 ", 7)])
def test_numbers_are_read_as_people_write_them(given, read):
    asked = (ConditionFilters(None).where([Condition(("n",), "≥", (each,))], any_holds=False) for each in (given, read))
    assert next(asked) == next(asked)


@pytest.mark.parametrize("given", [f"{2**64}", f"{-(2**63) - 1}", "1e400", "nan", "1_0", "٧", "7 x", "true"])
def test_what_is_no_number_of_64_bits_is_refused_and_not_rounded(given):
    with pytest.raises(InvalidInputError, match="compares numbers of at most 64 bits"):
        ConditionFilters(None).where([Condition(("n",), "=", (given,))], any_holds=False)


def test_times_are_compared_with_as_far_as_there_are_days_around_them():
    filters = ConditionFilters(lambda field, where, most: [])
    filters.where([Condition(("at",), "before", ("9999-12-29",))], any_holds=False)
    for given in ("9999-12-30", "0001-01-01"):
        with pytest.raises(InvalidInputError, match="takes seconds since 1970 or a time"):
            filters.where([Condition(("at",), "before", (given,))], any_holds=False)


DOCUMENTS = {
    "backups": ("Backups are kept for thirty days and encrypted at rest.", {"title": "Backups", "lang": "en"}),
    "restore": ("Call restoreArchive() to bring back what was saved last night.", {"path": "ops/restore.md"}),
    "coffee": ("The coffee machine on the second floor is cleaned every Friday.", {"n": None}),
}
QUESTION = "How long are backups kept?"
SETTING = {"top_k": 3, "score_threshold": 0.0}


@pytest.fixture(scope="module")
def handbook(text_collection):
    return text_collection(DOCUMENTS)


@pytest.fixture
def retrieved(client, handbook):
    def retrieved(status=200, **body):
        answer = client.post("/dify/retrieval", json={"knowledge_id": handbook, "query": QUESTION, **body})
        assert answer.status_code == status, answer.json
        return answer.json

    return retrieved


def test_records_are_what_dify_needs_with_the_relevance_of_the_search(retrieved, client, handbook):
    records = retrieved(retrieval_setting=SETTING)["records"]
    assert records[0]["metadata"]["document_id"] == "backups"
    assert len(records) == 3
    titles = {each["metadata"]["chunk_id"]: each["title"] for each in records}
    assert titles == {"backups": "Backups", "restore": "restore.md", "coffee": "coffee"}
    found = client.post("/api/search", json={"query": QUESTION, "collection": handbook, "min_relevance": 0}).json
    relevance = {each["doc_id"]: each["relevance"] for each in found["results"]}
    assert {each["metadata"]["document_id"]: each["score"] for each in records} == relevance
    assert records[0]["content"] == DOCUMENTS["backups"][0]
    place = {"collection": handbook, "document_id": "backups", "chunk_id": "backups"}
    assert records[0]["metadata"] == DOCUMENTS["backups"][1] | place


def test_the_threshold_and_top_k_bound_the_records(retrieved):
    def found(threshold, top_k=3):
        records = retrieved(retrieval_setting={"top_k": top_k, "score_threshold": threshold})["records"]
        return [each["metadata"]["document_id"] for each in records]

    best = retrieved(retrieval_setting=SETTING)["records"][0]["score"]
    assert found(best - 0.01) == ["backups"]
    assert [len(found(0, top_k)) for top_k in (1, None, 5_000)] == [1, 3, 3]
    assert retrieved(query="zebras in space", retrieval_setting={"top_k": 3, "score_threshold": 0.9})["records"] == []


@pytest.mark.parametrize("probe", [{}, {"data": b"", "content_type": "application/json"}, {"json": {}}])
def test_the_probe_of_a_registration_is_answered(client, probe):
    answer = client.post("/dify/retrieval", **probe)
    assert (answer.status_code, answer.json) == (200, {"records": []})


def test_several_knowledges_and_beginnings_are_asked_together_and_an_unknown_one_is_2001(retrieved, handbook):
    assert retrieved(knowledge_id=f"{handbook}, {handbook[:-2]}*")["records"]
    assert retrieved(knowledge_id=f"{handbook[:-1]}*")["records"]
    assert retrieved(knowledge_id="")["records"]
    for name in ("no-such-collection", "No such thing!", "a", ","):
        refused = retrieved(404, knowledge_id=name)
        assert (refused["error_code"], refused["code"]) == (2001, "collection_not_found"), name


def test_names_of_later_releases_are_reported_and_a_question_that_is_too_long_is_cut(retrieved):
    answer = retrieved(shards=1, retrieval_setting={**SETTING, "reranking": {"a": 1}})
    assert answer["records"]
    ignored = [f"Unknown field '{each}' is ignored" for each in ("shards", "retrieval_setting.reranking")]
    assert answer["warnings"] == ignored
    assert "first and last sentences" in str(retrieved(query=QUESTION + " really" * 1_000)["warnings"])
