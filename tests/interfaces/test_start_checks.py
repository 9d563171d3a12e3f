"""Faults are reported before anything is started."""

import base64
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from interfaces import compose
from interfaces.start_checks import look_before_start
from providers.embeddings import minilm_parts
from schemas.access.api_keys import Grant
from schemas.access.callers import Scope
from schemas.errors import ConfigurationError
from schemas.settings import RegistrySettings, WrapperSettings, read_registry_settings, read_wrapper_settings
from tests.interfaces.conftest import environ as clean_environ
from tests.support.live import PATIENCE_SECONDS, command, free_port
from tests.wrapper.serving.certificates import write_pair
from wrapper.access.directory_keys import has_keys, open_keys
from wrapper.secret_key import KeyFile
from wrapper.start_checks import bind_address

# Run in a process of its own, because a limit that was lowered cannot be raised again.
OPENS_FILES = """
import resource
from wrapper.start_checks import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2_000))
print(allow_open_files(100), allow_open_files(1_000), *resource.getrlimit(resource.RLIMIT_NOFILE))
print(allow_open_files(3_000), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.fixture(autouse=True)
def environ(monkeypatch, tmp_path):
    """An environment with a data directory and a port of the test's own and no other settings."""
    kept = clean_environ(data_dir=tmp_path / "data", port=free_port())
    monkeypatch.setattr(os, "environ", kept)
    return kept


def only_problem():
    (problem,) = look_before_start().problems
    return problem


def warned():
    """Return the warnings of a start that nothing prevents."""
    found = look_before_start()
    assert found.problems == []
    return found.warnings


@pytest.mark.slow
def test_the_defaults_pass_and_the_check_leaves_nothing_behind_and_imports_neither_the_server_nor_the_engine(
    tmp_path, environ
):
    found = look_before_start()
    assert (found.problems, found.warnings) == ([], [])
    assert list(tmp_path.iterdir()) == []
    code = (
        "import sys; from interfaces.start_checks import look_before_start; look_before_start();"
        "print(sorted({'gunicorn', 'chromadb', 'flask', 'onnxruntime', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_key_file_that_is_open_to_other_users_stops_the_start_unless_a_setting_has_the_key(environ, tmp_path):
    file = KeyFile(tmp_path / "data")
    file.path.parent.mkdir()
    file.make()
    assert look_before_start().problems == []
    file.path.chmod(0o644)
    assert only_problem().startswith("The file secret.key in the data directory is open to other users")
    environ["RAG_SECRET_KEY"] = "A" * 43 + "="
    assert look_before_start().problems == []


def test_all_that_is_wrong_is_said_at_once_and_nothing_is_started(environ, tmp_path, processes):
    (tmp_path / "file").touch()
    environ |= {
        "RAG_EMBEDDING_PROVIDER": "foo",
        "RAG_DATA_DIR": str(tmp_path / "file" / "data"),
        "RAG_BREAKER_THRESHOLD": "0",
        "RAG_WORKRS": "3",
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environ["RAG_PORT"] = port = str(taken.getsockname()[1])
        done = subprocess.run(
            command("serve"), env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
    assert done.returncode == 1
    lines = [orjson.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["warning"] + ["error"] * 4
    warning, retrieval, model, listening, directory = (line["event"] for line in lines)
    assert warning == "RAG_WORKRS is no setting: did you mean RAG_WORKERS?"
    assert retrieval.startswith("Wrong settings: RAG_BREAKER_THRESHOLD: ")
    assert model == "RAG_EMBEDDING_PROVIDER: there is no provider 'foo', only minilm, openai, ollama"
    assert listening == f"RAG_PORT: port {port} on 127.0.0.1 is in use by another program"
    assert directory == f"RAG_DATA_DIR: {tmp_path}/file/data cannot be written to: Not a directory"
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_certificate_that_has_expired_is_a_warning(environ, tmp_path):
    ends = datetime(2020, 5, 6, tzinfo=UTC)
    pair = write_pair(tmp_path, not_before=ends - timedelta(days=9), not_after=ends)
    environ |= {"RAG_TLS_CERT": str(pair.cert), "RAG_TLS_KEY": str(pair.key)}
    (warning,) = warned()
    assert "RAG_TLS_CERT: the certificate expired on 2020-05-06" in warning


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"RAG_HOST": "192.0.2.7"}, "RAG_HOST: 192.0.2.7 is no address of this machine"),
        ({"RAG_HOST": "no-such-host.invalid"}, "RAG_HOST: the name 'no-such-host.invalid' is not known"),
        ({"RAG_EMBEDDING_PROVIDER": ""}, "RAG_EMBEDDING_PROVIDER: there is no provider '', only "),
        ({"RAG_CHAT_PROVIDER": "bar"}, "RAG_CHAT_PROVIDER: there is no provider 'bar', only ollama, openai"),
        ({"RAG_RERANK_PROVIDER": "bar"}, "RAG_RERANK_PROVIDER: there is no provider 'bar', only cohere, tei"),
        ({"RAG_RERANK_PROVIDER": "tei"}, "RAG_RERANK_"),
        ({"RAG_EMBEDDING_MODEL": "bge-m3"}, "RAG_EMBEDDING_MODEL: "),
        ({"RAG_EMBEDDING_PROVIDER": "ollama", "RAG_EMBEDDING_URL": "nowhere"}, "RAG_EMBEDDING_URL: URL must be"),
        ({"RAG_TLS_CERT": "/no/such.pem"}, "RAG_TLS_CERT is set and RAG_TLS_KEY is not: TLS needs both"),
        ({"RAG_TLS_CERT": "/no/such", "RAG_TLS_KEY": "/no/such"}, "RAG_TLS_CERT: the file cannot be read: No such"),
        ({"RAG_CA_FILE": "/no/such.pem"}, "RAG_CA_FILE: the file cannot be used: No such file or directory"),
        ({"RAG_CA_FILE": "/proc/version"}, "RAG_CA_FILE: the file cannot be used: it holds no certificate in PEM"),
        ({"RAG_EMBEDDING_API_KEY": "a b"}, "RAG_EMBEDDING_API_KEY: The API key holds characters that no key has"),
        ({"RAG_CATALOG_URL": "sqlite:////no/such/folder/file"}, "RAG_CATALOG_URL: /no/such/folder/file cannot be the"),
        ({"RAG_CATALOG_URL": "sqlite:////proc/version"}, "RAG_CATALOG_URL: /proc/version "),
        ({"RAG_NOTES_COLLECTION": "a name"}, "RAG_NOTES_COLLECTION: Collection name must be 3-512 characters"),
        ({"RAG_CONFIG_FILE": "/no/such.yaml"}, "Cannot read the configuration file /no/such.yaml"),
        ({"RAG_OIDC_ISSUER": "http://login.example", "RAG_OIDC_AUDIENCE": "rag"}, "RAG_OIDC_ISSUER"),
        ({"RAG_TOPIC": "maybe"}, "RAG_TOPIC"),
        ({"RAG_API_KEY": "short"}, "RAG_API_KEY must be 16 or more printable ASCII characters"),
        ({"RAG_API_KEY_FILE": "/no/such"}, "RAG_API_KEY_FILE: the file cannot be read"),
        ({"RAG_API_KEY": "k" * 16, "RAG_API_KEY_FILE": "/no/such"}, "RAG_API_KEY and RAG_API_KEY_FILE are both set"),
        ({"RAG_ACCESS": "closed", "RAG_HOST": "0.0.0.0"}, "RAG_ACCESS: Must be one of: open, keys."),
        ({"RAG_BACKUP_DIR": "{tmp}/data/originals"}, "RAG_BACKUP_DIR: the folder originals"),
    ],
)
def test_each_wrong_setting_is_one_sentence(environ, tmp_path, settings, sentence):
    environ |= {name: value.replace("{tmp}", str(tmp_path)) for name, value in settings.items()}
    problem = only_problem()
    assert sentence in problem
    assert "\n" not in problem


def test_a_local_model_that_is_missing_or_damaged_stops_the_start(environ, monkeypatch, tmp_path):
    monkeypatch.setattr(minilm_parts, "WEIGHTS_PACKAGE", "no_such_weights")
    said = "RAG_EMBEDDING_PROVIDER: 'minilm' cannot be used here: The weights of the local embedding"
    assert only_problem().startswith(said)
    monkeypatch.undo()
    monkeypatch.setattr(os, "environ", environ)
    monkeypatch.setattr(minilm_parts, "WEIGHTS_SHA256", "0" * 64)
    assert "are damaged or not the original ones (sha256 differs)" in only_problem()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "RAG_API_KEY_FILE: the file is empty"),
        (b"short", "RAG_API_KEY_FILE must be 16 or more printable ASCII characters"),
        (b"an-administrators-key\nand-another-one", "RAG_API_KEY_FILE must be 16 or more printable ASCII characters"),
        (b"\xff" * 40, "RAG_API_KEY_FILE: the file cannot be read"),
    ],
)
def test_a_file_without_a_key_is_one_sentence(environ, tmp_path, content, sentence):
    (tmp_path / "key").write_bytes(content)
    environ["RAG_API_KEY_FILE"] = str(tmp_path / "key")
    assert only_problem().startswith(sentence)


def test_a_service_for_other_machines_needs_a_key_and_a_catalogue_from_before_there_were_any_has_none(
    environ, tmp_path
):
    environ["RAG_HOST"] = "0.0.0.0"
    settings = read_wrapper_settings()

    problem = only_problem()
    assert problem.startswith("RAG_HOST: at 0.0.0.0 other machines can reach this service, and there is no API key")
    assert list(tmp_path.iterdir()) == []
    with open_keys(settings, makes=True) as stored:
        assert look_before_start().problems == [problem]
        stored.create("a", Grant(frozenset({Scope.READ})))
    assert look_before_start().problems == []
    older = replace(settings, data_dir=tmp_path / "older")
    older.data_dir.mkdir()
    with closing(sqlite3.connect(older.data_dir / "catalog.sqlite")) as connection:
        connection.execute("CREATE TABLE collections (key INTEGER)")
        connection.commit()
    assert not has_keys(older)


@pytest.mark.parametrize(
    "settings", [{"RAG_ACCESS": "open"}, {"RAG_API_KEY": "k" * 16}, {"RAG_OIDC_ISSUER": "https://i.example"}]
)
def test_a_service_for_other_machines_may_do_without_a_stored_key(environ, settings):
    environ |= {"RAG_HOST": "0.0.0.0", **settings}
    assert [each for each in look_before_start().problems if each.startswith("RAG_HOST")] == []


@pytest.mark.parametrize("is_default", [True, False])
def test_a_catalogue_that_is_not_a_sqlite_file_stops_the_start_and_stays_as_it_is(environ, tmp_path, is_default):
    path = tmp_path / "data" / "catalog.sqlite" if is_default else tmp_path / "notes.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("my notes, all of them")
    if not is_default:
        environ["RAG_CATALOG_URL"] = f"sqlite:///{path}"
    assert only_problem() == f"RAG_{'DATA_DIR' if is_default else 'CATALOG_URL'}: {path} is no file of SQLite"
    settings = WrapperSettings(data_dir=tmp_path / "data", catalog_url=environ.get("RAG_CATALOG_URL", ""))
    with pytest.raises(ConfigurationError, match="is no file of SQLite"):
        compose.create_app(settings)
    assert path.read_text() == "my notes, all of them"


def test_a_catalogue_that_is_a_link_to_nowhere_stops_the_start(environ, tmp_path):
    path = tmp_path / "data" / "catalog.sqlite"
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(tmp_path / "gone" / "catalog.sqlite")
    assert only_problem() == f"RAG_DATA_DIR: {path} cannot be the catalogue: No such file or directory"


def test_a_database_that_is_damaged_or_of_another_program_stops_the_start_and_stays_as_it_is(tmp_path):
    path = tmp_path / "data" / "catalog.sqlite"
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE documents (body TEXT)")
        connection.commit()
        with pytest.raises(ConfigurationError, match="of another program: documents"):
            compose.create_app(WrapperSettings(data_dir=tmp_path / "data"))
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("documents",)]
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)
    with pytest.raises(ConfigurationError, match=r"The catalogue cannot be used: .*(malformed|not a database)"):
        compose.create_app(WrapperSettings(data_dir=tmp_path / "data"))


def test_a_database_that_does_not_answer_stops_the_start(environ, tmp_path):
    environ["RAG_CATALOG_URL"] = f"postgresql://somebody:hidden-word@127.0.0.1:{free_port()}/rag"
    problem = only_problem()
    assert problem.startswith("The catalogue's database does not answer: ")
    assert "hidden-word" not in problem
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_answers_passes_and_the_check_leaves_nothing_behind(environ, postgres, tmp_path):
    with postgres.catalogue(empty=True) as url:
        environ["RAG_CATALOG_URL"] = url
        assert look_before_start().problems == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"RAG_DISK_FLOOR_MB": str(10**9)}, "less than RAG_DISK_FLOOR_MB (1000000000): nothing will be stored"),
        (
            {
                "RAG_EMBEDDING_PROVIDER": "openai",
                "RAG_CHAT_PROVIDER": "openai",
                "RAG_CHAT_URL": "http://127.0.0.1:1/v1",
            },
            "RAG_EMBEDDING_API_KEY is not set, which api.openai.com asks for",
        ),
        ({"RAG_RERANK_PROVIDER": "cohere"}, "RAG_RERANK_API_KEY is not set, which api.cohere.com asks for"),
        ({"FORWARDED_ALLOW_IPS": "*"}, "FORWARDED_ALLOW_IPS is not read: RAG_TRUSTED_PROXIES names the proxies"),
    ],
)
def test_what_may_be_meant_and_will_not_work_is_a_warning(environ, settings, sentence):
    environ |= settings
    (warning,) = warned()
    assert sentence in warning


def test_a_key_of_backups_that_every_user_can_read_is_warned_of(environ, tmp_path):
    key = tmp_path / "key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    environ["RAG_BACKUP_KEY_FILE"] = str(key)
    environ["RAG_BACKUP_DIR"] = str(tmp_path / "data" / "backups")
    for mode in (0o600, 0o640):
        key.chmod(mode)
        assert look_before_start().warnings == []
    key.chmod(0o644)
    (warning,) = warned()
    assert warning.startswith("RAG_BACKUP_KEY_FILE: ")
    assert str(tmp_path) not in warning


def test_each_setting_that_the_chosen_models_do_not_use_is_a_warning(environ):
    environ |= {
        "RAG_EMBEDDING_URL": "http://127.0.0.1:1",
        "RAG_EMBEDDING_API_KEY": "hidden-word",
        "RAG_CHAT_MODEL": "x",
        "RAG_RERANK_URL": "http://127.0.0.1:1",
    }
    url, key, chat, rerank = warnings = warned()
    assert url.startswith("RAG_EMBEDDING_URL is not used: the embeddings are minilm, ")
    assert key.startswith("RAG_EMBEDDING_API_KEY is not used: ")
    assert chat == "RAG_CHAT_MODEL is not used: RAG_CHAT_PROVIDER is not set"
    assert rerank == "RAG_RERANK_URL is not used: RAG_RERANK_PROVIDER is not set"
    assert "hidden-word" not in "".join(warnings)


def test_a_variable_that_only_looks_like_a_setting_is_a_warning_naming_the_nearest_one(environ):
    environ |= {
        "RAG_WORKRS": "3",
        "RAG_EMBEDING_API_KEY": "a",
        "RAG_FOO_API_KEY": "for a placeholder",
        "RAG_COLOUR_OF_THE_SKY": "blue",
        "RAG_LOG_LEVEL": "DEBUG",
    }
    sky, key, workers = warned()
    assert sky.startswith("RAG_COLOUR_OF_THE_SKY is no setting; the nearest is RAG_")
    assert key == "RAG_EMBEDING_API_KEY is no setting: did you mean RAG_EMBEDDING_API_KEY?"
    assert workers == "RAG_WORKRS is no setting: did you mean RAG_WORKERS?"


@pytest.mark.parametrize("word", ["DEBUG", "Debug", "debug"])
def test_words_are_taken_in_any_case(environ, word):
    environ |= {"RAG_LOG_LEVEL": word, "RAG_LOG_FORMAT": "JSON", "RAG_TOPIC": "Rule"}
    assert (read_wrapper_settings().log_level, read_wrapper_settings().log_format) == ("debug", "json")
    assert read_registry_settings().topic == "rule"


def test_an_application_that_is_made_without_the_command_says_the_same(tmp_path):
    settings = WrapperSettings(data_dir=tmp_path / "data")
    with pytest.raises(ConfigurationError, match="RAG_EMBEDDING_PROVIDER: there is no provider 'foo', only minilm"):
        compose.create_app(settings, RegistrySettings(embedding_provider="foo"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"RAG_DATA_DIR: .* cannot be written to: Not a directory"):
        compose.create_app(WrapperSettings(data_dir=tmp_path / "file" / "data"))


def test_addresses_are_written_as_gunicorn_reads_them_and_as_many_files_opened_as_needed():
    assert bind_address(WrapperSettings(host="::1", port=5006)) == "[::1]:5006"
    said = subprocess.run([sys.executable, "-c", OPENS_FILES], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["100 1000 1000 2000", "2000 2000 2000"]


def test_the_table_of_claims_is_read_before_the_start(environ, tmp_path):
    table = tmp_path / "claims.yaml"
    environ |= {"RAG_OIDC_ISSUER": "https://login.example", "RAG_OIDC_AUDIENCE": "rag", "RAG_OIDC_CLAIMS": str(table)}
    table.write_text("scopes: {claim: roles, map: {reader: [reed]}}")
    assert only_problem().startswith(f"RAG_OIDC_CLAIMS: {table} scopes.map: 'reed' is no scope")
    table.write_text("scopes: {claim: roles, map: {reader: [read]}}")
    assert look_before_start().problems == []
