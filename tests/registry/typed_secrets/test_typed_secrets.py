"""A typed secret is kept sealed for its connection, field and host, and opens for nothing else."""

import orjson
import pytest
from cryptography.fernet import Fernet

from registry.placeholders.secret_hosts import SecretHosts
from registry.stored_connections import STEPS, StoredConnections
from registry.typed_secrets.sealing import Destination
from schemas.connections import Connection, InvalidConfigurationError
from schemas.errors import ConfigurationError, InvalidInputError
from tests.registry.typed_secrets.conftest import AT_FIRST, ENVIRON, TYPED, key_of, there


def edit(database, statement, *values):
    """Change a row as somebody with the database's password does."""
    database.commit(lambda transaction: transaction.run(statement, values))


def rows(database):
    with database.read() as transaction:
        return transaction.rows("SELECT * FROM connections ORDER BY id")


def test_a_typed_secret_is_stored_encrypted_used_by_all_workers_and_in_nothing_that_is_said(
    connections, database, worker, key_file
):
    made = connections.create(there())
    assert (made.config, list(made.sealed)) == ({"url": AT_FIRST}, ["/api_key"])
    assert key_of(connections) == TYPED
    assert TYPED not in str(rows(database)) + str(connections.find("there"))
    shown = connections.shown(connections.find("there"))
    assert (shown.config, shown.secrets, shown.stored_secrets) == ({"url": AT_FIRST}, {"api_key": []}, ("api_key",))
    assert key_of(worker(key_file)) == TYPED
    live = connections.live("there", "llm")
    assert live.provider.context.redactor(f"Bearer {TYPED}") == "Bearer ***"
    assert connections.redacted(f"a line with {TYPED} in it") == "a line with *** in it"
    assert TYPED not in repr(there())
    # RAG_SECRET_HOSTS is about variables and files: what is typed is bound to its own connection.
    connections.placeholders._secret_hosts = SecretHosts.parse(["WORDS_API_KEY=api.example"])
    connections.create(there("other"))
    assert key_of(connections, "other") == TYPED


@pytest.mark.parametrize("secret", ["a$$b", "$5", "päss wörd", "x", "{}", "$NAME", "}$"])
def test_a_typed_secret_stays_as_it_was_typed(connections, secret):
    connections.create(there(api_key=secret))
    destination = Destination("there", "llm", "openai", ("http://first:8000",))
    assert connections._seal.open_all(connections.find("there").sealed, destination) == {"/api_key": secret}


def test_an_edit_that_leaves_it_out_keeps_it_and_one_that_gives_another_or_nothing_replaces_it(connections):
    connections.create(there())
    connections.change("there", config={"url": "http://FIRST:8000/v2", "model": "m"})
    assert key_of(connections) == TYPED
    connections.change("there", config={"url": AT_FIRST, "api_key": "sk-another"})
    assert key_of(connections) == "sk-another"
    changed = connections.change("there", config={"url": AT_FIRST, "api_key": "${WORDS_API_KEY}"})
    assert (changed.sealed, key_of(connections)) == ({}, "sk-planted")
    changed = connections.change("there", config={"url": AT_FIRST, "api_key": TYPED})
    assert ("api_key" in changed.config, key_of(connections)) == (False, TYPED)
    changed = connections.change("there", config={"url": AT_FIRST, "api_key": ""})
    assert (changed.sealed, changed.config) == ({}, {"url": AT_FIRST})
    connections.change("there", config={"url": AT_FIRST, "api_key": TYPED})
    assert connections.change("there", config={}, provider="ollama").sealed == {}


@pytest.mark.parametrize("url", ["http://second:8000", "http://first:8001", "https://first:8000", "${FIRST_URL}", None])
def test_a_change_of_its_host_asks_for_it_again(connections, database, url):
    connections.create(there())
    before = rows(database)
    with pytest.raises(InvalidConfigurationError, match="api_key must be given again") as caught:
        connections.change("there", config={"url": url})
    assert [fault["pointer"] for fault in caught.value.details["errors"]] == ["/api_key"]
    assert rows(database) == before
    connections.change("there", config={"url": url, "api_key": TYPED})
    assert key_of(connections) == TYPED


REFUSED = "'{}' cannot be used: api_key must be given again"


@pytest.mark.parametrize(
    "url",
    [
        *("http://evil:8000/v1", "http://first:8001/v1", "https://first:8000/v1", "http://first.evil:8000"),
        *("${EVIL_URL}", None),
    ],
)
def test_an_address_changed_in_the_database_also_to_the_default_one_does_not_get_it(
    connections, worker, key_file, database, url
):
    connections.create(there())
    edit(database, "UPDATE connections SET config = ?", orjson.dumps({"url": url} if url else {}).decode())
    for each in (connections, worker(key_file)):
        each.placeholders._environ = {**ENVIRON, "EVIL_URL": "http://evil:8000"}
        with pytest.raises(ConfigurationError, match=REFUSED.format("there")) as caught:
            key_of(each)
        assert caught.value.details["errors"][0]["pointer"] == "/api_key"
        assert TYPED not in f"{caught.value.message} {caught.value.details}"


def test_a_sealed_secret_put_into_another_row_or_field_does_not_open(connections, database):
    connections.create(there())
    connections.create(there("other", api_key="sk-other"))
    token = connections.find("there").sealed["/api_key"]
    edit(database, "UPDATE connections SET sealed = ? WHERE id = 'other'", orjson.dumps({"/api_key": token}).decode())
    edit(database, "UPDATE connections SET sealed = ? WHERE id = 'there'", orjson.dumps({"/model": token}).decode())
    with pytest.raises(ConfigurationError, match=REFUSED.format("other")):
        key_of(connections, "other")
    with pytest.raises(ConfigurationError, match="'there' cannot be used: model must be given again"):
        key_of(connections)
    edit(database, "UPDATE connections SET sealed = ? WHERE id = 'there'", orjson.dumps({"/api_key": token}).decode())
    assert key_of(connections) == TYPED


def test_a_renamed_row_or_one_with_another_type_or_provider_does_not_open(connections, database):
    connections.create(there())
    edit(database, "UPDATE connections SET id = 'renamed'")
    with pytest.raises(ConfigurationError, match=REFUSED.format("renamed")):
        key_of(connections, "renamed")
    edit(database, "UPDATE connections SET id = 'there', type = 'embedding'")
    with pytest.raises(ConfigurationError, match=REFUSED.format("there")):
        connections.open("there", "embedding")
    edit(database, "UPDATE connections SET type = 'llm', provider = 'ollama'")
    with pytest.raises(ConfigurationError, match=REFUSED.format("there")):
        connections.open("there", "llm")
    edit(database, "UPDATE connections SET provider = 'openai'")
    assert key_of(connections) == TYPED


@pytest.mark.parametrize("token", ["", "x", "gAAAAA", "ä", TYPED])
def test_what_is_no_sealed_secret_is_refused_in_a_sentence(connections, database, token):
    connections.create(there())
    edit(database, "UPDATE connections SET sealed = ?", orjson.dumps({"/api_key": token}).decode())
    with pytest.raises(ConfigurationError, match=r"api_key was stored under another key .* or was altered") as caught:
        key_of(connections)
    assert not token or token not in f"{caught.value.message} {caught.value.details}" or token == "x"


def test_a_service_with_another_key_says_so(connections, worker):
    connections.create(there())
    key = Fernet.generate_key().decode()
    other = worker(lambda: (key,))
    with pytest.raises(ConfigurationError, match=r"'there' cannot be used: api_key was stored under another key"):
        key_of(other)
    renamed = other.change("there", config={"url": AT_FIRST}, display_name="Renamed")
    assert renamed.display_name == "Renamed"
    assert key_of(connections) == TYPED
    other.change("there", config={"url": AT_FIRST, "api_key": "sk-of-the-other"})
    assert key_of(other) == "sk-of-the-other"


def test_an_address_that_a_variable_holds_is_that_of_its_value_and_one_that_nobody_knows_keeps_no_secret(
    connections, database, worker, key_file
):
    with pytest.raises(InvalidInputError, match="NO_SUCH_URL is not set") as caught:
        connections.create(there(url="${NO_SUCH_URL}"))
    assert [fault["pointer"] for fault in caught.value.details["errors"]] == ["/url"]
    assert rows(database) == []
    connections.create(there(url="${FIRST_URL}"))
    assert key_of(connections) == TYPED
    same, moved = ({**ENVIRON, "FIRST_URL": url} for url in ("http://FIRST.:8000/other", "http://second:8000"))
    assert key_of(worker(key_file, same)) == TYPED
    with pytest.raises(ConfigurationError, match=REFUSED.format("there")):
        key_of(worker(key_file, moved))


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_connections_of_an_earlier_release_go_on_as_they_are(database, worker, key_file):
    """The table as the release before made it, with its version, gets the new column when it is opened."""

    def earlier(transaction):
        for table in ("connections", "connection_looks", "chosen_connections"):
            transaction.run(f"DROP TABLE IF EXISTS {table}")
        transaction.run("DELETE FROM part_versions WHERE part = 'connections'")

    StoredConnections(database)
    database.commit(earlier)
    database.open_part("connections", STEPS[:2])
    values = ("there", "llm", "openai", None, '{"url": "http://first:8000/v1", "api_key": "${WORDS_API_KEY}"}', "g")
    edit(
        database,
        "INSERT INTO connections (id, type, provider, display_name, config, generation) VALUES (?, ?, ?, ?, ?, ?)",
        *values,
    )
    connections = worker(key_file)
    found = connections.find("there")
    assert found == Connection(
        "there", "llm", "openai", {"url": AT_FIRST, "api_key": "${WORDS_API_KEY}"}, generation="g"
    )
    assert key_of(connections) == "sk-planted"
    assert connections.shown(found).stored_secrets == ()
