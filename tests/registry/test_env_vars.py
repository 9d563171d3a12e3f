import pytest

from registry.placeholders.env_vars import judged, suggested
from registry.placeholders.resolving import Placeholders
from schemas.configuration import read_schema
from schemas.connections import EnvVar
from schemas.wire.connecting.env_vars import MASK, available_env_vars, judged_env_vars, suggested_env_vars

ENVIRON = {
    "OLLAMA_API_KEY": "planted",
    "OPENAI_API_KEY": "planted",
    "OPENAI_TOKEN": "planted",
    "GEMINI_API_KEY": "planted",
    "OPENAI_BASE_URL": "http://planted",
    "CHROMA_HOST": "planted",
    "OPENAI_MODEL": "planted",
    "RAG_CATALOG_URL": "planted",
    "SOME_DATABASE_URL": "postgresql://me:planted@db/",
    "HOME": "/planted",
}


@pytest.fixture
def placeholders():
    return Placeholders(ENVIRON)


def test_names_are_listed_and_values_are_not(placeholders):
    found = available_env_vars(placeholders.available())["variables"]
    assert [each["name"] for each in found] == [
        "CHROMA_HOST",
        "GEMINI_API_KEY",
        "OLLAMA_API_KEY",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "OPENAI_MODEL",
        "OPENAI_TOKEN",
    ]
    assert {(each["value"], each["exists"]) for each in found} == {(MASK, True)}


def test_a_variable_that_is_not_allowed_is_not_reported_as_set(placeholders):
    asked = ["OPENAI_API_KEY", "HOME", "NOWHERE", "RAG_MISSING", "HOME", "SOME_DATABASE_URL"]
    assert judged_env_vars(judged(placeholders, asked), ())["variables"] == [
        {"name": "OPENAI_API_KEY", "allowed": True, "set": True},
        {"name": "HOME", "allowed": False, "set": False},
        {"name": "NOWHERE", "allowed": False, "set": False},
        {"name": "RAG_MISSING", "allowed": True, "set": False},
        {"name": "SOME_DATABASE_URL", "allowed": True, "set": False},
    ]
    named = placeholders.names("Authorization: ${OPENAI_API_KEY} for ${HOME:-x}")
    assert [each.is_allowed for each in judged(placeholders, named)] == [True, False]


OPENAI = "embedding-openai"


@pytest.mark.parametrize(
    ("provider", "field", "schema", "names"),
    [
        ("openai", "api_key", OPENAI, ["OPENAI_API_KEY", "OPENAI_TOKEN", "GEMINI_API_KEY", "OLLAMA_API_KEY"]),
        ("chromadb", "url", "rag-chromadb", ["CHROMA_HOST", "OPENAI_BASE_URL"]),
        ("openai", "model", OPENAI, ["OPENAI_MODEL"]),
        ("openai", "no_such_field", OPENAI, []),
    ],
)
def test_variables_are_suggested_by_the_kind_of_a_field_the_providers_first(
    placeholders, provider, field, schema, names
):
    found = suggested(placeholders, provider, field, read_schema(schema))
    assert found == [EnvVar(name, is_allowed=True, is_set=True) for name in names]


def test_a_suggestion_is_told_in_both_spellings_and_the_schemas_own_example_comes_first_set_or_not(placeholders):
    found = suggested(placeholders, "openai", "model", read_schema(OPENAI))
    assert suggested_env_vars("openai", "model", found)["suggestions"] == [
        {"name": "OPENAI_MODEL", "set": True, "exists": True, "placeholder": "${OPENAI_MODEL}"}
    ]
    [first, *_] = suggested(placeholders, "qdrant", "api_key", read_schema("rag-qdrant"))
    assert first == EnvVar("QDRANT_API_KEY", is_allowed=True, is_set=False)
