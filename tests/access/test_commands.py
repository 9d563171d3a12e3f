"""Commands against a service that wants keys: they send the one of their environment, and say what is missing. Users of
an identity provider at a real service of two workers: what their tokens let them do."""

import json

import pytest

from tests.access.conftest import ADMIN_KEY
from tests.access.keyed import CANARY, KeyedService
from tests.support.commands import run_command
from tests.support.identity.issuer import running_issuer
from tests.support.live import live_service

TEXT = "The library lends books for three weeks. Late books cost ten cents a day."


@pytest.fixture
def run(keyed, tmp_path):
    """`run(kind, *arguments)` runs a command with the key of that kind against the service."""

    def run(kind, *arguments):
        key = {} if kind is None else {"api_key": keyed.keys.get(kind, keyed.admin_key)}
        return run_command(*arguments, "--url", keyed.url, data_dir=tmp_path / "nothing", **key)

    return run


@pytest.fixture
def folder(tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    (library / "rules.md").write_text(f"# Lending\n\n{TEXT}\n")
    return library


def test_files_are_loaded_searched_and_exported_with_a_key(keyed, run, folder, tmp_path):
    loaded = run("mine", "load", folder, "--collection", "mine-library")
    assert loaded.returncode == 0, loaded.stderr
    found = run("mine", "search", "How long may I keep a book?", "--json")
    assert found.returncode == 0, found.stderr
    assert "three weeks" in found.stdout
    assert CANARY not in found.stdout
    exported = run("mine", "export", tmp_path / "export")
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "export" / "mine-library.ndjson").exists()
    assert not list((tmp_path / "export").glob(f"*{CANARY}*"))
    audited = run("admin", "audit", "--json", "--limit", "1000")
    assert audited.returncode == 0, audited.stderr
    assert "mine-library" in audited.stdout
    assert keyed.keys["mine"] not in audited.stdout
    assert keyed.ask("DELETE", "/collections/mine-library", keyed.keys["mine"]).status_code == 200


@pytest.mark.parametrize("command", [("collections",), ("check", "mine-docs")])
def test_without_a_key_the_sentence_says_where_it_is_taken_from(run, command):
    done = run(None, *command)
    assert done.returncode == 2
    assert "RAG_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_status_for_a_key_that_is_no_administrators_says_what_it_may_know(run):
    for kind in ("read", "chat"):
        done = run(kind, "status")
        assert done.returncode == 0, done.stderr
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["service", "more"]
        assert "for keys with the scope admin" in done.stdout
    assert json.loads(run("chat", "status", "--json").stdout)["watchers"] is None
    assert "catalogue" in run("admin", "status").stdout


@pytest.mark.parametrize(("kind", "sentence"), [(None, "RAG_API_KEY"), ("read", "needs the scope 'write'")])
def test_a_watcher_that_is_refused_at_first_ends(run, folder, kind, sentence):
    done = run(kind, "watch", folder)
    assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_relay_whose_key_is_refused_ends(run):
    done = run("wrong", "mcp")
    assert (done.returncode, "is unknown" in done.stderr, done.stdout) == (2, True, "")


@pytest.mark.parametrize(
    ("content", "more", "sentence"),
    [("", {}, "RAG_API_KEY_FILE: the file is empty"), ("k", {"api_key": "k"}, "are both set: one is enough")],
)
def test_commands_refuse_keys_of_the_settings_as_the_service_does(keyed, tmp_path, content, more, sentence):
    (tmp_path / "key").write_text(content)
    done = run_command("collections", "--url", keyed.url, api_key_file=tmp_path / "key", **more)
    assert (done.returncode, sentence in done.stderr, done.stderr.count("\n")) == (2, True, 1)


def test_a_foreign_collection_is_not_found_by_commands_and_a_key_is_no_argument(keyed, run):
    done = run("mine", "search", "door", "--collection", f"theirs-{CANARY}")
    assert done.returncode == 2
    assert "not found" in done.stderr
    done = run_command("keys", "revoke", keyed.keys["mine"], data_dir=keyed.service.data_dir)
    assert done.returncode == 2
    assert keyed.keys["mine"] not in done.stderr + done.stdout


def test_keys_are_managed_beside_the_running_service(on_either):
    keyed = on_either
    settings = {"data_dir": keyed.service.data_dir, "catalog_url": keyed.catalog_url}
    made = run_command("keys", "create", "by hand", "--scope", "read", "--collection", "mine*", "--json", **settings)
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    assert keyed.ask("GET", "/api/me", key["key"]).json()["name"] == "by hand"
    ended = run_command("keys", "revoke", key["id"], **settings)
    assert ended.returncode == 0, ended.stderr
    keyed.wait_until_revoked(key["key"])
    audited = run_command("audit", "--key", key["id"], "--json", data_dir=keyed.service.data_dir)
    assert audited.returncode == 0, audited.stderr
    entries = json.loads(audited.stdout)["entries"]
    told = [(each["method"], each["route"], each["key_id"]) for each in entries if each.get("subject") == key["id"]]
    assert told == [("COMMAND", "keys revoke", None), ("COMMAND", "keys create", None)]
    assert key["key"] not in audited.stdout


CLAIMS = """
scopes:
  claim: groups
  map:
    readers: [read]
    authors: [read, write, chat]
    operators: [admin]
collections:
  claim: teams
  map:
    mine: [mine*]
    all: ["*"]
"""


@pytest.fixture(scope="module")
def issuer():
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def users(issuer, tmp_path_factory, processes):
    """A service that takes keys and the issuer's tokens."""
    directory = tmp_path_factory.mktemp("users")
    table = directory / "claims.yaml"
    table.write_text(CLAIMS)
    settings = {
        "workers": 2,
        "api_key": ADMIN_KEY,
        "mcp_write": "on",
        "oidc_issuer": issuer.url,
        "oidc_audience": "http://127.0.0.1:{port}/mcp",
        "oidc_claims": table,
    }
    with live_service(directory, **settings) as service:
        yield KeyedService(service, ADMIN_KEY)


@pytest.fixture
def token(issuer, users):
    """`token(groups=[…])`: an access token for the service, whose bearer is ada of the team `mine` unless told."""

    def make(**claims):
        return issuer.token(**{"aud": f"{users.url}/mcp", "groups": ["readers"], "teams": ["mine"], **claims})

    return make


def test_a_token_is_worth_what_the_table_makes_of_its_claims(users, token):
    """What a caller of these rights may is tested with keys, and that the caller owns what they make."""
    me = users.ask("GET", "/api/me", token(groups=["authors"])).json()
    assert (me["id"], me["name"], me["kind"]) == ("user:ada", "Ada", "user")
    assert (me["scopes"], me["collections"], me["where"]) == (["read", "write", "chat"], ["mine*"], None)
    for claims, status in (
        ({"groups": ["operators"]}, 403),  # administrators have all collections
        ({"groups": ["operators"], "teams": ["all"]}, 200),
        ({"groups": ["authors"]}, 403),
    ):
        assert users.ask("GET", "/api/keys", token(**claims)).status_code == status, claims
