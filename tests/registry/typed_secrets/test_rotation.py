"""A new key for the stored secrets: at every moment each secret opens, and afterwards the old key opens none."""

import pytest
from cryptography.fernet import Fernet

from interfaces.layers import warn_of_other_keys
from registry.stored_connections import StoredConnections
from registry.typed_secrets.rotation import Resealed, seal_again, typed_secrets_of
from registry.typed_secrets.sealing import Seal
from schemas.errors import ConfigurationError
from tests.registry.typed_secrets.conftest import AT_FIRST, TYPED, key_of, there
from tests.support.logs import logs_of
from wrapper.secret_key import KeyFile


class KilledError(Exception):
    pass


def steps(file, database):
    """Return the three steps of the command, each of which is done as a whole or not at all."""
    return [file.add, lambda: seal_again(StoredConnections(database), Seal(file)), file.drop_old]


def under_only(worker, *keys):
    return worker(lambda: keys)


def test_a_rotation_gives_all_secrets_a_new_key(connections, database, key_file, worker):
    connections.create(there())
    connections.create(there("other", api_key="sk-other"))
    connections.create(there("free", api_key="${WORDS_API_KEY}"))
    live, [old] = connections.live("there", "llm"), key_file()
    add, again, drop = steps(key_file, database)
    assert add() is True
    assert again() == Resealed(2, ())
    drop()
    [new] = key_file()
    assert new != old
    assert (key_of(under_only(worker, new)), key_of(under_only(worker, new), "other")) == (TYPED, "sk-other")
    with pytest.raises(ConfigurationError, match="another key"):
        key_of(under_only(worker, old))
    assert connections.live("there", "llm") is live
    assert key_of(connections, "free") == "sk-planted"


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_a_rotation_that_is_killed_between_its_steps_loses_nothing(
    connections, database, key_file, worker, tmp_path, done
):
    """Workers that were there before, and those that start afterwards, open every secret and seal new ones."""
    connections.create(there())
    [old] = key_file()
    for step in steps(key_file, database)[:done]:
        step()
    file = KeyFile(tmp_path)
    for number, each in enumerate((connections, worker(KeyFile(tmp_path)))):
        assert key_of(each) == TYPED
        each.create(there(f"new-{number}", api_key=f"sk-new-{number}"))
    for step in steps(file, database):
        step()
    assert len(file()) == 1
    assert file() != (old,)
    for each in (connections, worker(KeyFile(tmp_path))):
        assert [key_of(each, name) for name in ("there", "new-0", "new-1")] == [TYPED, "sk-new-0", "sk-new-1"]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_rotation_that_fails_in_its_transaction_changes_no_row(connections, database, key_file, monkeypatch):
    connections.create(there())
    connections.create(there("other", api_key="sk-other"))
    before = [each.sealed for each in StoredConnections(database).all()]
    key_file.add()
    seal, asked = Seal(key_file), []

    def renewed(token):
        asked.append(token)
        if len(asked) == 2:
            raise KilledError
        return Seal.renewed(seal, token)

    monkeypatch.setattr(seal, "renewed", renewed)
    with pytest.raises(KilledError):
        seal_again(StoredConnections(database), seal)
    assert [each.sealed for each in StoredConnections(database).all()] == before
    assert (key_of(connections), key_of(connections, "other")) == (TYPED, "sk-other")


def test_a_rotation_goes_on_with_the_key_of_the_one_that_was_killed_and_two_do_not_run_at_the_same_time(
    connections, key_file, tmp_path
):
    connections.create(there())
    key_file.add()
    new, old = key_file()
    assert key_file.add() is False
    assert key_file() == (new, old)
    with (
        key_file.rotating(),
        pytest.raises(ConfigurationError, match="by another command now"),
        KeyFile(tmp_path).rotating(),
    ):
        raise AssertionError("the second one began")
    with KeyFile(tmp_path).rotating():
        pass


def test_a_secret_that_is_stored_or_was_read_while_the_key_changes_opens_with_the_new_key(
    connections, database, key_file, monkeypatch
):
    """The key is read inside of the write transaction: one that waits for the rotation's does not use the old key."""
    key_of_before = key_file()
    commit, find = database.commit, connections._stored.find

    def rotate():
        monkeypatch.setattr(database, "commit", commit)
        monkeypatch.setattr(connections._stored, "find", find)
        for step in steps(key_file, database):
            step()

    monkeypatch.setattr(database, "commit", lambda operation: (rotate(), commit(operation))[1])
    connections.create(there())
    key_of_then = key_file()
    assert key_of_then != key_of_before
    assert key_of(connections) == TYPED
    monkeypatch.setattr(connections._stored, "find", lambda connection_id: (find(connection_id), rotate())[0])
    assert key_of(connections) == TYPED
    assert key_file() != key_of_then


def test_what_another_service_has_stored_is_left_as_it_is_and_named(connections, database, key_file, worker):
    foreign = Fernet.generate_key().decode()
    under_only(worker, foreign).create(there("foreign", api_key="sk-foreign"))
    connections.create(there())
    stored = StoredConnections(database)
    listed = list(typed_secrets_of(stored, Seal(key_file)))
    assert listed == [("foreign", "api_key", False), ("there", "api_key", True)]
    add, again, drop = steps(key_file, database)
    add()
    assert again() == Resealed(1, (("foreign", "api_key"),))
    drop()
    assert (key_of(connections), key_of(under_only(worker, foreign), "foreign")) == (TYPED, "sk-foreign")


def test_the_start_names_connections_whose_secrets_no_key_opens_and_goes_on(database, key_file, worker, monkeypatch):
    logs = logs_of(monkeypatch, "interfaces.layers")
    stored = StoredConnections(database)
    under_only(worker, Fernet.generate_key().decode()).create(there("foreign"))
    worker(key_file).create(there())
    warn_of_other_keys(stored, Seal(key_file))
    key_file.path.unlink()
    warn_of_other_keys(stored, Seal(key_file))
    stored.delete("foreign", lambda connection: None)
    stored.delete("there", lambda connection: None)
    warn_of_other_keys(stored, Seal(key_file))
    assert [line.get("connections", line.get("reason", "")[:37]) for line in logs] == [
        ["foreign"],
        "The file secret.key in the data direc",
    ]


def test_keys_of_the_settings_are_changed_by_putting_a_new_one_in_front(database, worker):
    """The order in which an operator does it with services that share a database."""
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    under_only(worker, old).create(there())
    both = under_only(worker, new, old)
    assert key_of(both) == TYPED
    both.change("there", config={"url": AT_FIRST, "model": "m"})
    assert seal_again(StoredConnections(database), Seal(lambda: (new, old))) == Resealed(1, ())
    assert key_of(under_only(worker, new)) == TYPED
