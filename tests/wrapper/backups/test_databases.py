"""A backup has the collections of all databases, and a restore gives them back to theirs."""

from wrapper.backups.restoring import restore
from wrapper.catalog.names import databases
from wrapper.catalog.rows import all_collections


def make_databases(transaction):
    databases.create_tenant(transaction, "acme")
    for name in ("main", "empty"):
        databases.create_database(transaction, "acme", name)


def known(place):
    """Return the databases, and the name and number of documents of each collection."""
    with place.opened() as catalog, catalog.read() as transaction:
        collections = [(each.name, each.count) for each in all_collections(transaction)]
        return databases.all_databases(transaction), collections


def test_collections_come_back_to_their_databases(place, new_place, tmp_path):
    with place.opened() as catalog:
        catalog.commit(make_databases)
    place.fill(["a", "x"], collection="/acme/main/library")
    file = place.back_up(tmp_path / "backups")
    after = new_place("after")
    with file.open("rb") as opened:
        restore(opened, after.settings, None, replace=False)
    assert after.rows() == place.rows()
    assert known(after) == known(place)
    there, collections = known(after)
    assert [each.name for each in there if each.tenant == "acme"] == ["empty", "main"]
    assert collections == [("/acme/main/library", 2), ("library", 3)]
