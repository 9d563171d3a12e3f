"""Names that nearly fit, and names that mean something else."""

import pytest
from marshmallow import fields

from schemas import field_names
from schemas.documents import parse_documents
from schemas.errors import InvalidInputError
from schemas.field_names import MOST_UNKNOWN, Names, Unknown, UnknownFieldError, check_names, names_of, placed
from schemas.wire.chat import CHAT
from schemas.wire.dify import RETRIEVAL
from schemas.wire.rule_documents import RETRIEVE
from schemas.wire.search import SEARCH_REQUEST
from schemas.wire.storage.collection import NEW_COLLECTION
from schemas.wire.storage.document import NEW_DOCUMENTS, PAGE_ARGUMENTS, WRITING_ARGUMENTS
from schemas.wire.storage.query import QUERY
from schemas.wire.text_documents import CHUNK_SEARCH, INGEST


@pytest.fixture
def unknown():
    return Unknown()


NEAR = names_of(NEW_DOCUMENTS).beside({"on_conflict": "in the query string"})
BODY = placed(names_of(RETRIEVAL))


@pytest.mark.parametrize(
    ("names", "given", "field", "meant", "place"),
    [
        (PAGE_ARGUMENTS, "wher", "wher", "where", ""),
        (PAGE_ARGUMENTS, "filter", "filter", "where", ""),
        (WRITING_ARGUMENTS, "on_conflcit", "on_conflcit", "on_conflict", ""),
        (QUERY, "k", "k", "top_k", ""),
        (QUERY, "distance", "distance", "max_distance", ""),
        (SEARCH_REQUEST, "top_k", "top_k", "limit", ""),
        (INGEST, "page_content", "page_content", "text", ""),
        (CHAT, "use_rag", "use_rag", "useRag", ""),
        (Names(dict.fromkeys(("max_chunks", "min_chunks"))), "mi_chunks", "mi_chunks", "min_chunks", ""),
        (QUERY, {"gather": {"by": "a", "ordr_by": ["b"]}}, "gather.ordr_by", "order_by", ""),
        (CHAT, {"messages": [{"role": "user", "content": "a"}, {"rol": "user"}]}, "messages.1.rol", "role", ""),
        (CHAT, {"ragFilters": {"tag": ["a"]}}, "ragFilters.tag", "tags", ""),
        (NEAR, {"documents": [], "on_conflict": "error"}, "on_conflict", "on_conflict", " in the query string"),
        (BODY, "top_k", "top_k", "top_k", " in retrieval_setting"),
        (BODY, "condition", "condition", "metadata_condition", ""),
        (
            BODY,
            {"metadata_condition": {"conditions": [{"query": 1}]}},
            "metadata_condition.conditions.0.query",
            "query",
            " at the top of the body",
        ),
    ],
)
def test_a_name_that_nearly_fits_is_refused_with_the_one_meant(names, given, field, meant, place, unknown):
    given, names = (
        {given: 1} if isinstance(given, str) else given,
        names if isinstance(names, Names) else names_of(names),
    )
    with pytest.raises(UnknownFieldError) as caught:
        check_names(given, names, unknown)
    assert caught.value.details == {"field": field, "suggestion": meant}
    assert caught.value.message == f"Unknown field '{field}': did you mean '{meant}'{place}?"


def test_a_field_that_is_asked_in_another_way_here_is_refused_with_that_way(unknown):
    for name in ("where_document", "namespace"):
        with pytest.raises(UnknownFieldError, match=name) as caught:
            check_names({name: 1}, names_of(QUERY), unknown)
        assert caught.value.details["suggestion"] == field_names.NOT_HERE[name]


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (PAGE_ARGUMENTS, {"limit": "1", "limi": "2"}),
        (QUERY, {"top_k": 3, "limit": 3}),
        (QUERY, {"topic": "backups"}),
        (CHAT, {"mode": "fast", "user": "u-1"}),
        (PAGE_ARGUMENTS, {"shards": "7", "_": "1732264110"}),
        (NEW_COLLECTION, {"description": "x", "dimension": 384}),
        (NEW_COLLECTION, {"nave2": 1}),
        (PAGE_ARGUMENTS, {"wher": None}),
        (PAGE_ARGUMENTS, {"where" + "x" * 100_000: "1"}),
    ],
)
def test_a_name_that_does_not_fit_is_accepted_and_reported(schema, given, unknown):
    """One beside the right name, a word of its own, one too different, null or too long."""
    check_names(given, names_of(schema), unknown)
    told = [name for name, value in given.items() if name not in names_of(schema).known and value is not None]
    assert unknown.take() == [f"Unknown field '{name[:64]}' is ignored" for name in told]
    assert unknown.take() == []


def test_options_of_a_model_and_metadata_are_the_callers(unknown):
    check_names({"options": {"num_ctx": 4096, "temprature": 1}}, names_of(CHAT), unknown)
    check_names({"metadata": {"metdata": 1, "distance": 2}}, names_of(NEW_COLLECTION), unknown)
    assert unknown.take() == []


GOOD = {"text": "x", "embedding": [1.0]}


def test_a_document_says_which_one_it_is():
    for field, meant in {"page_content": "text", "metdata": "metadata", "vector": "embedding"}.items():
        with pytest.raises(UnknownFieldError) as caught:
            parse_documents([GOOD, {**GOOD, field: "x"}])
        assert caught.value.details == {"field": field, "suggestion": meant, "index": 1}


def test_the_same_name_in_many_documents_is_told_once(unknown):
    parse_documents([GOOD, *({**GOOD, "title": "x"} for _ in range(500))], unknown=unknown)
    assert unknown.take() == ["Unknown field 'title' is ignored in 500 documents, first in number 1"]


@pytest.mark.slow
def test_too_many_names_are_refused(unknown):
    with pytest.raises(InvalidInputError) as caught:
        check_names({f"field {number}": 1 for number in range(MOST_UNKNOWN + 1)}, names_of(QUERY), unknown)
    assert caught.value.code == "too_many_unknown_fields"
    assert len(unknown.take()) == field_names.MOST_WARNINGS + 1


def test_every_field_of_a_body_can_be_meant():
    """A name of ours that the rule took for another one could never be given."""
    for schema in (NEW_COLLECTION, QUERY, PAGE_ARGUMENTS, CHUNK_SEARCH, RETRIEVE, SEARCH_REQUEST, CHAT, INGEST):
        for name, each in schema.load_fields.items():
            assert isinstance(each, fields.Field)
            check_names({each.data_key or name: {}}, names_of(schema), unknown := Unknown())
            assert unknown.take() == []
