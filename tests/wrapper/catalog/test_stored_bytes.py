"""The bytes of a collection are those of its documents, whatever was done to them, on both databases."""

import pytest

from schemas.errors import QuotaError
from schemas.records import DocumentPatch
from schemas.where import Equals
from tests.wrapper import documents
from wrapper.catalog import document_changes, stored_bytes, writes
from wrapper.catalog.names import collection_writes
from wrapper.catalog.stored_bytes import Held, Quota


def batch(**texts):
    return documents.batch(texts, texts.values(), [{"of": each[:1]} for each in texts.values()])


def size(*texts):
    return sum(len(each.encode()) + len(b'{"of":"a"}') + 2 * 4 for each in texts)


def held(catalog, *names):
    with catalog.read() as transaction:
        return stored_bytes.held(transaction, names or None)


def add(catalog, name, **texts):
    return catalog.commit(lambda transaction: writes.add_documents(transaction, name, batch(**texts)))


@pytest.fixture
def two(catalog):
    documents.create(catalog, "one", "two")
    return catalog


def test_every_kind_of_write_changes_them(two):
    add(two, "one", a="abc", b="axyz")
    assert held(two, "one") == Held(2, size("abc", "axyz"))
    add(two, "one", a="abcdef", c="c")
    assert held(two, "one") == Held(3, size("abcdef", "axyz", "c"))
    add(two, "one", a="abcdef")  # as it is stored
    assert held(two, "one") == Held(3, size("abcdef", "axyz", "c"))
    two.commit(lambda transaction: document_changes.patching("one", "c", DocumentPatch(text="cc")).store(transaction))
    assert held(two, "one") == Held(3, size("abcdef", "axyz", "cc"))
    two.commit(
        lambda transaction: writes.add_documents(transaction, "one", batch(d="d"), replace_where=Equals("of", "a"))
    )
    assert held(two, "one") == Held(2, size("cc", "d"))
    add(two, "two", e="e")
    assert held(two) == Held(3, size("cc", "d", "e"))
    assert held(two, "o*") == Held(2, size("cc", "d"))
    documents.delete(two, "one", "c", "missing")
    two.commit(lambda transaction: writes.delete_documents(transaction, "one", where=Equals("of", "nobody")))
    assert held(two, "one") == Held(1, size("d"))
    two.commit(lambda transaction: collection_writes.empty_collection(transaction, "one"))
    assert held(two) == Held(1, size("e"))
    two.commit(lambda transaction: collection_writes.delete_collection(transaction, "two"))
    assert held(two) == Held(0, 0)


def test_a_text_that_is_removed_leaves_nothing(two):
    for awkward in ("\0", "a\0b\1c", "Grüße", "🙂" * 100, "x" * 100_000):
        add(two, "one", a=awkward)
        assert held(two, "one").bytes >= size(awkward)
        documents.delete(two, "one", "a")
        assert held(two, "one") == Held(0, 0), awkward[:9]


def test_a_write_that_is_refused_changes_nothing(two):
    def operation(transaction):
        return stored_bytes.within_quota(
            transaction,
            "one",
            Quota(("*",), documents=1),
            lambda _: writes.add_documents(_, "one", batch(a="a", b="b")),
        )

    with pytest.raises(QuotaError):
        two.commit(operation)
    assert held(two) == Held(0, 0)
    add(two, "one", a="a")
    with pytest.raises(QuotaError):
        two.commit(operation)
    assert held(two) == Held(1, size("a"))


def test_catalogues_of_earlier_releases_are_counted_once(open_database, two):
    add(two, "one", a="abc", b="Grüße")
    documents.as_before(open_database(), 11, "ALTER TABLE collections DROP COLUMN bytes")
    two.open()
    assert held(two, "one") == Held(2, size("abc", "Grüße"))
    assert held(two, "two") == Held(0, 0)
