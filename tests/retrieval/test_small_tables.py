"""Small tables of the catalogue's database: conditions, pages, retention, and what an erasure counts and cleans."""

import pytest

from schemas.access.owners import Asker
from schemas.errors import InvalidInputError
from schemas.shared_database import Place
from schemas.storage.erasure import Target
from schemas.storage.erasure_count import ErasedMeanwhileError, check_nothing_erased
from schemas.storage.small_tables import Part, Table, having, owned_by

STEPS = (
    ("CREATE TABLE notes (id VARCHAR(9) PRIMARY KEY, number BIGINT, owner VARCHAR(9), text {text}, tags {text})",),
)


def note(id, text, tags):
    return id, text, tags


NOTES = Table("notes", note, json=("tags",))


class Notes(Part):
    def __init__(self, database):
        super().__init__(database, "notes", STEPS, Place("notes", "removed", self.erase))

    def erase(self, target):
        return self._erase(lambda transaction: NOTES.remove(transaction, having(owner=target.owner)))


@pytest.mark.parametrize("catalogs", ["sqlite", "postgresql"], indirect=True)
def test_rows_are_paged_replaced_and_removed(catalogs):
    catalog = catalogs()
    notes = Notes(catalog)

    def work(transaction):
        for name in "abcde":
            number = NOTES.next_number(transaction)
            NOTES.put(transaction, {"id": name}, number=number, owner="ann" if name < "d" else "bob", tags=[name])
        seen, cursors = [], [None]
        while cursors[-1] is not None or not seen:
            rows, cursor = NOTES.page(transaction, owned_by(Asker("ann")), limit=2, cursor=cursors[-1])
            seen += rows
            cursors.append(cursor)
        assert seen == [("c", None, ["c"]), ("b", None, ["b"]), ("a", None, ["a"])]
        with pytest.raises(InvalidInputError, match="Invalid cursor"):
            NOTES.page(transaction, having(), limit=2, cursor="x" + cursors[1])
        NOTES.put(transaction, {"id": "a"}, number=9, owner="ann", text="new", tags="")
        assert NOTES.first(transaction, having(id=("a", "x"))) == ("a", "new", "")
        NOTES.update(transaction, having(text=None), text="old", tags={})
        NOTES.keep_first(transaction, 2, having(owner="ann"))
        assert NOTES.rows(transaction, owned_by(Asker("ann"))) == [("a", "new", ""), ("c", "old", {})]

    catalog.commit(work)
    since = notes.erasures()
    [place] = [each for each in catalog.places if each.name == "notes"]
    assert place.erase(Target(owner="bob")) == 2
    with catalog.read() as transaction, pytest.raises(ErasedMeanwhileError):
        check_nothing_erased(transaction, since)
