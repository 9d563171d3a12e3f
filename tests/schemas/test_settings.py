"""Settings: defaults, the environment, the file, and sentences that name what is wrong."""

import os
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from schemas.errors import ConfigurationError
from schemas.settings import (
    AccessSettings,
    OidcSettings,
    WrapperSettings,
    apply_config_file,
    read_access_settings,
    read_oidc_settings,
    read_registry_settings,
    read_retrieval_settings,
    read_wrapper_settings,
)
from schemas.settings.backup_times import BackupTimes
from schemas.settings.oidc import may_be_asked


@pytest.fixture(autouse=True)
def environ(monkeypatch):
    """The environment without settings; a test's changes are undone afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAG_")}
    monkeypatch.setattr(os, "environ", kept)
    return kept


def test_each_setting_is_read_from_its_own_variable_or_is_that_of_the_record(environ):
    default = WrapperSettings()
    read = replace(read_wrapper_settings(), data_dir=default.data_dir)
    assert read == default
    numbers = {each.name: getattr(default, each.name) + 1 for each in fields(default) if each.type in ("int", "float")}
    numbers["recall"] -= 1.5
    for name, number in numbers.items():
        environ[f"RAG_{name.upper()}"] = f"{number}"
        assert replace(read_wrapper_settings(), data_dir=default.data_dir) == replace(default, **{name: number}), name
        del environ[f"RAG_{name.upper()}"]


WRONG_STORAGE = [
    ("RAG_PORT", "0"),
    ("RAG_PORT", "many"),
    ("RAG_HOST", ""),
    ("RAG_WORKERS", "0"),
    ("RAG_RECALL", "1.01"),
    ("RAG_RECALL", "99 %"),
    ("RAG_THREADS", "1"),
    ("RAG_MAX_BODY_MB", "0"),
    ("RAG_DISK_FLOOR_MB", "-1"),
    ("RAG_LOG_LEVEL", "loud"),
    ("RAG_LOG_FORMAT", "xml"),
    ("RAG_CHROMA_URL", "chroma:8000"),
    ("RAG_CHROMA_URL", "http://chroma:99999"),
    ("RAG_CHROMA_URL", "https://user:s3cret@chroma:8000"),
    ("RAG_CHROMA_URL", "https://chroma:8000/?token=s3cret"),
    ("RAG_CHROMA_TOKEN", "s3cret"),
    ("RAG_CHROMA_TENANT", "ab"),
    ("RAG_CHROMA_DATABASE", "of-no-server"),
    ("RAG_ADOPT", "perhaps"),
    ("RAG_CATALOG_URL", "mysql://somewhere"),
    ("RAG_CATALOG_SCHEMA", "of_no_postgresql"),
    *(("RAG_CATALOG_SCHEMA", name) for name in ("pg_own", "information_schema", "Own", 'a"b', "1st", "s" * 64)),
]
WRONG_SERVER = [
    ("RAG_CHROMA_TOKEN", "s3cret\nX-Other: 1"),
    ("RAG_CHROMA_TOKEN", "s3crét"),
    ("RAG_CHROMA_TOKEN_HEADER", "X Token"),
    ("RAG_CHROMA_CA_FILE", "/nowhere/ca.pem"),
    ("RAG_CHROMA_CA_FILE", __file__),
]
"""What would be right without a Chroma server, which could not be asked with it."""
WRONG_HOSTS = [
    ("RAG_CORS_ORIGINS", "*"),
    ("RAG_CORS_ORIGINS", "https://a.example,https://.*\\.corp\\.example"),
    ("RAG_CORS_ORIGINS", "https://a.example/"),
    ("RAG_ALLOWED_HOSTS", "http://rag.example"),
    ("RAG_ALLOWED_HOSTS", "rag.example,*"),
]
WRONG_RETRIEVAL = [
    ("RAG_CONTEXT_CATEGORIES", ""),
    ("RAG_CONTEXT_CONTENT_TYPES", ","),
    ("RAG_CONTEXT_COLLECTION", "x"),
    ("RAG_TEXT_FALLBACK", "perhaps"),
    ("RAG_BREAKER_THRESHOLD", "0"),
    ("RAG_CONTEXT_VECTOR_SECONDS", "0"),
    ("RAG_READ_MEMORY_MB", "16"),
    ("RAG_MIN_RELEVANCE", "1.5"),
]


@pytest.mark.parametrize(("variable", "value"), [*WRONG_STORAGE, *WRONG_SERVER, *WRONG_HOSTS, *WRONG_RETRIEVAL])
def test_a_wrong_value_names_its_variable_and_is_not_repeated_where_it_is_secret(environ, variable, value):
    if (variable, value) in WRONG_SERVER:
        environ["RAG_CHROMA_URL"] = "https://chroma:8000"
    environ[variable] = value
    said = ": '.*' is not an? (host|origin): " if (variable, value) in WRONG_HOSTS else ""
    read = read_retrieval_settings if (variable, value) in WRONG_RETRIEVAL else read_wrapper_settings
    with pytest.raises(ConfigurationError, match=f"{variable}{said}") as refused:
        read()
    assert "s3cr" not in str(refused.value)


def test_no_token_is_in_the_representation_of_settings(environ):
    environ |= {"RAG_CHROMA_URL": "https://chroma:8000", "RAG_CHROMA_TOKEN": "s3cret"}
    settings = read_wrapper_settings()
    assert settings.chroma_token == "s3cret"
    assert "s3cret" not in repr(settings)


def test_keys_for_stored_secrets_are_read_and_never_repeated(environ):
    newest, oldest = "A" * 43 + "=", "b+/-_" + "c" * 38 + "="
    environ["RAG_SECRET_KEY"] = f" {newest} ,{oldest},"
    settings = read_access_settings()
    assert settings.secret_key == (newest, oldest)
    assert newest not in repr(settings)
    assert AccessSettings().secret_key == ()


@pytest.mark.parametrize("wrong", ["s3cret", "s3cret" + "A" * 37, "s3cret" + "A" * 38 + "=", "A" * 43 + "= s3cret"])
def test_a_key_for_stored_secrets_of_another_form_is_refused_unseen(environ, wrong):
    environ["RAG_SECRET_KEY"] = f"{'A' * 43}=,{wrong}"
    with pytest.raises(ConfigurationError, match="RAG_SECRET_KEY: must be 32 bytes in base64") as caught:
        read_access_settings()
    assert "s3cret" not in f"{caught.value} {caught.value.details}"


def test_all_wrong_values_are_named_at_once(environ):
    environ |= {"RAG_PORT": "x", "RAG_WORKERS": "y"}
    with pytest.raises(ConfigurationError, match=r"(?s)RAG_PORT.*RAG_WORKERS|RAG_WORKERS.*RAG_PORT"):
        read_wrapper_settings()


def test_a_file_holds_the_same_and_the_environment_wins(environ, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("port: 6001\nRAG_WORKERS: 3\ncors_origins: [https://a.example, https://b.example]\n")
    environ["RAG_PORT"] = "6000"
    apply_config_file(file)
    read = read_wrapper_settings()
    assert (read.port, read.workers, len(read.cors_origins)) == (6000, 3, 2)


CONTRACT_FILE = """
embedding: {model: text-embedding-3-small, dimensions: 1536, max_tokens: 8192}
chunking: {split_only_when_needed: true, max_chunk_tokens: 4096, header_level: 1, fallback_header_level: 4, overlap_tokens: 0}
retrieval: {max_chunks: 7, min_relevance: 0.3, cache_ttl_seconds: 60}
port: 6001
"""


def test_a_file_may_have_the_sections_of_the_contract(environ, tmp_path):
    file = tmp_path / "rag.yaml"
    file.write_text(CONTRACT_FILE)
    environ["RAG_RETRIEVE_MAX_CHUNKS"] = "9"
    apply_config_file(file)
    read, registry = read_retrieval_settings(), read_registry_settings()
    assert (registry.embedding_provider, registry.embedding_model) == ("openai", "text-embedding-3-small")
    assert (read.whole_max_tokens, read.whole_levels) == (4096, (1, 4))
    assert (read.retrieve_max_chunks, read.retrieve_min_relevance, read.cache_ttl_seconds) == (9, 0.3, 60.0)
    assert read_wrapper_settings().port == 6001


def test_the_models_limit_is_the_longest_chunk_unless_a_shorter_one_is_said(environ, tmp_path):
    file = tmp_path / "rag.yaml"
    file.write_text("embedding: {max_tokens: 512}")
    apply_config_file(file)
    assert read_retrieval_settings().whole_max_tokens == 512
    assert read_registry_settings().embedding_provider == "minilm"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("chunking: {overlap_tokens: 50}", r"chunking\.overlap_tokens"),
        ("chunking: {split_only_when_needed: false}", r"chunking\.split_only_when_needed"),
        ("chunking: {split_only_when_needed: 1}", r"chunking\.split_only_when_needed"),
        ("retrieval: {min_relevanc: 0.5}", r"retrieval\.min_relevanc"),
        ("embedding: text-embedding-3-small", "embedding must map"),
        ("embedding: {max_tokens: 512}\nchunking: {max_chunk_tokens: 1024}", r"chunking\.max_chunk_tokens"),
        *((no, r"rag\.yaml") for no in ("- a list", "port: {a: 1}", "port: null", "{", "\x00", "just text")),
    ],
)
def test_a_fault_in_a_section_is_named_and_so_is_a_file_that_does_not_hold_settings(environ, tmp_path, content, named):
    file = tmp_path / "rag.yaml"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=named):
        apply_config_file(file)


def test_the_levels_of_headings_must_rise(environ):
    environ |= {"RAG_WHOLE_HEADER_LEVEL": "3"}
    with pytest.raises(ConfigurationError, match="RAG_WHOLE_FALLBACK_HEADER_LEVEL"):
        read_retrieval_settings()


def test_the_settings_of_retrieval_are_read_and_typed_and_the_least_relevance_is_the_models_unless_it_is_set(environ):
    read = read_retrieval_settings()
    assert (read.min_relevance, read.retrieve_min_relevance) == (None, None)
    environ |= {
        "RAG_CONTEXT_CATEGORIES": "law, tax",
        "RAG_TEXT_FALLBACK": "off",
        "RAG_BREAKER_THRESHOLD": "3",
        "RAG_BREAKER_TIMEOUT_SECONDS": "1.5",
        "RAG_MIN_RELEVANCE": "0",
    }
    read = read_retrieval_settings()
    assert (read.context_categories, read.text_fallback) == (("law", "tax"), False)
    assert (read.breaker_threshold, read.breaker_timeout_seconds, read.min_relevance) == (3, 1.5, 0.0)
    assert read.own_collections == ("rag-documents", "rag-rules", "rag-context")


def test_there_is_no_issuer_unless_one_is_named():
    assert read_oidc_settings() == OidcSettings()
    assert not read_oidc_settings().has_users


@pytest.mark.parametrize(
    "issuer",
    [
        "https://login.example",
        "https://login.example:8443/realms/company",
        "http://127.0.0.1:8080/realms/a",
        "http://[::1]:8080",
    ],
)
def test_an_issuer_stays_as_it_is_written(environ, issuer):
    environ |= {"RAG_OIDC_ISSUER": issuer, "RAG_OIDC_AUDIENCE": " https://rag.example/mcp , rag,"}
    read = read_oidc_settings()
    assert (read.oidc_issuer, read.oidc_audience) == (issuer, ("https://rag.example/mcp", "rag"))
    assert read.has_users


@pytest.mark.parametrize(
    "issuer",
    [
        "http://login.example",
        "http://10.0.0.7:8080",
        "http://localhost.evil.example",
        "https://",
        "https://me:secret@login.example",
        "https://login.example?p=x",
        "https://login.example/a b",
        "https://login.example\\@127.0.0.1",
        "https://log\u0456n.example",
        "https://[login",
        f"https://login.example/{'x' * 1_000}",
    ],
)
def test_an_issuer_that_cannot_be_trusted_stops_the_start(environ, issuer):
    environ |= {"RAG_OIDC_ISSUER": issuer, "RAG_OIDC_AUDIENCE": "rag"}
    with pytest.raises(ConfigurationError, match="RAG_OIDC_ISSUER: Must be an https URL") as raised:
        read_oidc_settings()
    assert "secret" not in raised.value.message


ISSUER, AUDIENCE = {"RAG_OIDC_ISSUER": "https://login.example"}, "RAG_OIDC_AUDIENCE"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ISSUER, "RAG_OIDC_AUDIENCE must name"),
        *(({**ISSUER, AUDIENCE: nobody}, "RAG_OIDC_AUDIENCE must name") for nobody in ("", " , ")),
        *(({name: "x"}, "mean nothing without RAG_OIDC_ISSUER") for name in (AUDIENCE, "RAG_OIDC_CLAIMS")),
    ],
)
def test_an_issuer_needs_an_audience_and_without_one_the_others_mean_nothing(environ, given, said):
    environ |= given
    with pytest.raises(ConfigurationError, match=said):
        read_oidc_settings()


def test_keys_may_be_anywhere_that_is_safe():
    assert may_be_asked("https://www.keys.example/certs?a=b")
    assert not may_be_asked("http://www.keys.example/certs")
    assert not may_be_asked("https://")


NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
HALF_PAST_THREE, A_DAY = datetime(2026, 11, 25, 3, 30, tzinfo=UTC), timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "last", "due"),
    [
        *((text, NOON, NOON + timedelta(hours=24)) for text in ("24h", "24")),
        *((text, NOON, NOON + timedelta(hours=168)) for text in ("7d", "1w")),
        *((text, NOON, NOON + timedelta(minutes=each)) for text, each in (("30m", 30), ("3600s", 60))),
        ("03:30", NOON, HALF_PAST_THREE + A_DAY),
        ("03:30", NOON - timedelta(hours=10), HALF_PAST_THREE),
        ("03:30", HALF_PAST_THREE, HALF_PAST_THREE + A_DAY),
        ("03:30", datetime(2026, 11, 25, 5, 0, tzinfo=timezone(timedelta(hours=2))), HALF_PAST_THREE),
        *((text, None, NOON) for text in ("24h", "03:30")),
    ],
)
def test_a_span_counts_from_the_last_one_a_time_of_the_day_is_the_next_after_it_and_the_first_due_at_once(
    text, last, due
):
    assert BackupTimes.parse(text).due_at(last, NOON) == due


@pytest.mark.parametrize("text", ["", "0h", "soon", "24:00", "3:30", "-1h", "1.5h", "03:60", "9999999h"])
def test_other_texts_say_no_time(text):
    with pytest.raises(ValueError, match="must be a span"):
        BackupTimes.parse(text)
