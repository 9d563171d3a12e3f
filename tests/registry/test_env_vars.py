import pytest

from registry.env_vars import MASK, listed, suggested, validated
from registry.placeholders import Placeholders
from schemas.configuration import read_schema

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


def suggestion(name, exists):
    """In both spellings."""
    return {"name": name, "set": exists, "exists": exists, "placeholder": f"${{{name}}}"}


@pytest.fixture
def placeholders():
    return Placeholders(ENVIRON)


def test_names_are_listed_and_values_are_not(placeholders):
    found = listed(placeholders)
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


def test_what_is_not_allowed_is_not_said_to_be_set(placeholders):
    asked = ["OPENAI_API_KEY", "HOME", "NOWHERE", "RAG_MISSING", "HOME", "SOME_DATABASE_URL"]
    assert validated(placeholders, asked) == [
        {"name": "OPENAI_API_KEY", "allowed": True, "set": True},
        {"name": "HOME", "allowed": False, "set": False},
        {"name": "NOWHERE", "allowed": False, "set": False},
        {"name": "RAG_MISSING", "allowed": True, "set": False},
        {"name": "SOME_DATABASE_URL", "allowed": True, "set": False},
    ]


def test_names_are_found_in_a_text(placeholders):
    text = "Authorization: ${OPENAI_API_KEY} for ${HOME:-x}"
    assert [each["allowed"] for each in validated(placeholders, placeholders.names(text))] == [True, False]


def test_keys_are_suggested_for_a_secret_the_providers_first(placeholders):
    found = suggested(placeholders, "openai", "api_key", read_schema("embedding-openai"))
    assert found == [
        suggestion("OPENAI_API_KEY", True),
        suggestion("OPENAI_TOKEN", True),
        suggestion("GEMINI_API_KEY", True),
        suggestion("OLLAMA_API_KEY", True),
    ]


def test_the_schemas_own_example_comes_first_set_or_not(placeholders):
    [first, *_] = suggested(placeholders, "qdrant", "api_key", read_schema("rag-qdrant"))
    assert first == suggestion("QDRANT_API_KEY", False)


def test_addresses_are_suggested_for_a_url(placeholders):
    found = suggested(placeholders, "chromadb", "url", read_schema("rag-chromadb"))
    assert [each["name"] for each in found] == ["CHROMA_HOST", "OPENAI_BASE_URL"]


def test_other_fields_are_suggested_what_is_called_like_them(placeholders):
    assert suggested(placeholders, "openai", "model", read_schema("embedding-openai")) == [
        suggestion("OPENAI_MODEL", True)
    ]
    assert suggested(placeholders, "openai", "no_such_field", read_schema("embedding-openai")) == []
