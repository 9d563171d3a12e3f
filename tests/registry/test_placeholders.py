"""What placeholders stand for, and what they must not."""

import os

import pytest

from registry.placeholders import MAX_FILE_BYTES, Placeholders, secret_faults
from schemas.connections import Fault, InvalidConfigurationError
from schemas.settings import RegistrySettings

PATTERNS = RegistrySettings().env_patterns
ENVIRON = {
    "OPENAI_API_KEY": "sk-planted",
    "CHROMA_HOST": "chroma.internal",
    "RAG_LIMIT": "7",
    "RAG_CATALOG_URL": "postgresql://rag:password@db/rag",
    "HOME": "/root",
    "QDRANT_API_KEY": "q",
    "EMPTY_API_KEY": "",
}
SCHEMA = {
    "properties": {
        "url": {"type": "string"},
        "api_key": {"type": "string", "writeOnly": True, "title": "API key"},
        "limit": {"type": "integer"},
        "ratio": {"type": "number"},
        "fast": {"type": "boolean"},
        "nested": {"type": "object"},
    }
}


@pytest.fixture
def secret_dir(tmp_path):
    directory = tmp_path / "secrets"
    directory.mkdir()
    (directory / "key").write_text("from a file\n")
    (tmp_path / "outside").write_text("planted")
    return directory


@pytest.fixture
def placeholders(secret_dir):
    return Placeholders(ENVIRON, PATTERNS, (str(secret_dir),))


def refused(placeholders, value):
    with pytest.raises(InvalidConfigurationError) as caught:
        placeholders.resolve({"url": value}, SCHEMA)
    [error] = caught.value.details["errors"]
    assert error["pointer"] == "/url"
    return error["message"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${CHROMA_HOST}", "chroma.internal"),
        ("http://${CHROMA_HOST}:8000/v1", "http://chroma.internal:8000/v1"),
        ("${OPENAI_API_KEY}${CHROMA_HOST}", "sk-plantedchroma.internal"),
        ("${NO_SUCH_URL:-http://127.0.0.1}", "http://127.0.0.1"),
        ("${EMPTY_API_KEY:-fallback}", "fallback"),
        ("${NO_SUCH_URL:-}", ""),
        ("${CHROMA_HOST:-unused}", "chroma.internal"),
        ("$$", "$"),
        ("$${CHROMA_HOST}", "${CHROMA_HOST}"),
        ("$$${CHROMA_HOST}", "$chroma.internal"),
        ("costs $5", "costs $5"),
        ("${NO_SUCH_URL:-a:-b}", "a:-b"),
        ("$CHROMA_HOST", "$CHROMA_HOST"),
        ("plain", "plain"),
    ],
)
def test_what_stands_in_a_string_is_filled_in(placeholders, text, expected):
    assert placeholders.resolve({"url": text}, SCHEMA) == {"url": expected}


def test_what_a_value_holds_is_not_a_placeholder_again():
    environ = {"A_URL": "${B_URL}", "B_URL": "planted"}
    resolved = Placeholders(environ, PATTERNS, ()).resolve({"url": "${A_URL}"}, SCHEMA)
    assert resolved == {"url": "${B_URL}"}


def test_strings_at_any_depth_are_filled_in_and_faults_name_their_place(placeholders):
    config = {"nested": {"a/b": ["x", "${CHROMA_HOST}"]}, "url": "u"}
    assert placeholders.resolve(config, SCHEMA)["nested"] == {"a/b": ["x", "chroma.internal"]}
    with pytest.raises(InvalidConfigurationError) as caught:
        placeholders.resolve({"nested": {"a/b": ["x", "${NO_SUCH_URL}"]}}, SCHEMA)
    assert caught.value.details["errors"][0]["pointer"] == "/nested/a~1b/1"


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("limit", "${RAG_LIMIT}", 7),
        ("ratio", "${NO_SUCH_URL:-0.5}", 0.5),
        ("fast", "${NO_SUCH_URL:-true}", True),
        ("fast", "${NO_SUCH_URL:-off}", False),
        ("limit", "${OPENAI_API_KEY}", "sk-planted"),
        ("limit", "7", "7"),
    ],
)
def test_a_placeholder_becomes_the_number_or_boolean_that_its_field_asks_for(placeholders, field, text, expected):
    assert placeholders.resolve({field: text}, SCHEMA) == {field: expected}


def test_an_unset_variable_is_named(placeholders):
    assert refused(placeholders, "${NO_SUCH_URL}") == "The variable NO_SUCH_URL is not set"


@pytest.mark.parametrize("name", ["HOME", "PATH", "RAG_CATALOG_URL", "openai_api_key"])
def test_a_forbidden_variable_is_refused_by_name_set_or_not(placeholders, name):
    message = refused(placeholders, f"${{{name}}}")
    assert message == f"The variable {name} is not one that RAG_ENV_PATTERNS allows"
    assert "password" not in message


@pytest.mark.parametrize("text", ["${}", "${A B}", "${1X}", "${A_URL-default}", "${env:A_URL}", "${A_URL\n}"])
def test_what_is_no_placeholder_is_refused(placeholders, text):
    assert "must be ${VARIABLE}" in refused(placeholders, text)


def test_a_file_is_read_without_its_last_line_break(placeholders, secret_dir):
    assert placeholders.resolve({"url": f"${{file:{secret_dir}/key}}"}, SCHEMA) == {"url": "from a file"}


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/proc/self/environ", "{dir}/../outside", "{dir}", "key", "../key", "{dir}/link", ""]
)
def test_a_file_elsewhere_is_refused_and_not_shown(placeholders, secret_dir, path):
    (secret_dir / "link").symlink_to(secret_dir.parent / "outside")
    message = refused(placeholders, "${file:" + path.replace("{dir}", str(secret_dir)) + "}")
    assert message == "A file of a placeholder must lie in a directory that RAG_SECRET_DIRS allows"


def test_a_file_that_is_none_or_too_long_is_refused_at_once(placeholders, secret_dir):
    os.mkfifo(secret_dir / "pipe")
    (secret_dir / "folder").mkdir()
    (secret_dir / "long").write_text("x" * (MAX_FILE_BYTES + 1))
    (secret_dir / "binary").write_bytes(b"\xff\xfe")
    for name in ("pipe", "folder", "long", "binary", "missing"):
        message = refused(placeholders, f"${{file:{secret_dir}/{name}}}")
        assert message == "The file of a placeholder cannot be read"


def test_a_missing_file_has_a_default(placeholders, secret_dir):
    assert placeholders.resolve({"url": f"${{file:{secret_dir}/no:-d}}"}, SCHEMA) == {"url": "d"}


def test_to_keep_a_configuration_its_variables_need_not_be_set_yet(placeholders):
    config = {"url": "${NO_SUCH_URL}", "api_key": "${HOME}", "nested": {"x": "${file:/etc/passwd}"}}
    assert [fault.pointer for fault in placeholders.faults(config)] == ["/api_key", "/nested/x"]
    assert placeholders.missing(config) == [Fault("/url", "The variable NO_SUCH_URL is not set")]


def test_names_are_told_without_defaults(placeholders):
    config = {"url": "http://${CHROMA_HOST:-planted}/${CHROMA_HOST}", "api_key": "${file:/run/secrets/key}"}
    assert placeholders.names(config) == ["CHROMA_HOST", "file:/run/secrets/key"]


@pytest.mark.parametrize(
    ("secret", "kept"),
    [
        ("${OPENAI_API_KEY}", True),
        ("${OPENAI_API_KEY:-x}", True),
        ("${file:/run/secrets/key}", True),
        ("${A_API_KEY}${B_API_KEY}", True),
        ("sk-planted", False),
        ("Bearer ${OPENAI_API_KEY}", False),
        ("${OPENAI_API_KEY} ", False),
        ("$$", False),
        ("", False),
        (7, False),
    ],
)
def test_a_secret_is_kept_as_placeholders_only(secret, kept):
    found = secret_faults({"api_key": secret, "url": "in clear"}, SCHEMA)
    assert [fault.pointer for fault in found] == ([] if kept else ["/api_key"])
    assert "sk-planted" not in str(found)


def test_variables_are_listed_by_name_and_never_with_their_values(placeholders):
    listed = placeholders.variables()
    assert [each["name"] for each in listed] == [
        "CHROMA_HOST",
        "EMPTY_API_KEY",
        "OPENAI_API_KEY",
        "QDRANT_API_KEY",
        "RAG_LIMIT",
    ]
    assert [each["set"] for each in listed] == [True, False, True, True, True]
    assert not any(value in str(listed) for value in ENVIRON.values() if value not in ("", "q", "7"))


def test_names_and_texts_are_judged(placeholders):
    judged = placeholders.judge(["HOME", "QDRANT_API_KEY"], "http://${CHROMA_HOST}:${NO_SUCH_URL}")
    assert judged == {
        "valid": False,
        "variables": [
            {"name": "HOME", "allowed": False, "set": False},
            {"name": "QDRANT_API_KEY", "allowed": True, "set": True},
            {"name": "CHROMA_HOST", "allowed": True, "set": True},
            {"name": "NO_SUCH_URL", "allowed": True, "set": False},
        ],
    }


def test_suggestions_fit_provider_and_field_best_first(placeholders):
    names = [each["name"] for each in placeholders.suggestions("qdrant", "api_key")]
    assert names[0] == "QDRANT_API_KEY"
    assert "OPENAI_API_KEY" in names
    assert "CHROMA_HOST" not in names
