"""The token by which a restore into a database is known to have happened."""

import pytest

from wrapper.catalog_choice import catalog_access


def test_whether_a_restore_was_committed_is_not_told_before_that_is_decided(new_place):
    """The server goes on with the commit of a process that was killed meanwhile."""
    settings = new_place("data").settings
    access = catalog_access(settings, makes=False)
    if access.database_copies is None:
        pytest.skip("the catalogue is a file")

    def connect():
        connection = access.database.connect()
        connection.execute("SET lock_timeout = 50")
        return connection

    copies = type(access.database_copies)(connect)
    with copies.restoring(None, "mine"):
        with pytest.raises(copies.errors, match="lock timeout"):
            copies.was_restored("mine")
        assert not copies.was_restored("another")
    assert copies.was_restored("mine")
