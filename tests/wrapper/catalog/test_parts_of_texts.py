"""A text has the parts that it has, letter for letter, whatever its letters are, and no others.

Signatures of texts say yes for every part that a text has, and are made for what earlier releases stored.
"""

import string
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.where import Equals, HasId, Not, Or, TextContains, TextMatches, all_of
from tests.wrapper.documents import add, as_before, create, numbered
from wrapper.catalog import filters, reads
from wrapper.catalog.catalog import Catalog
from wrapper.catalog.filters import DRIVER_COUNT_BOUND
from wrapper.catalog.rows import find_collection
from wrapper.catalog.texts import signatures
from wrapper.catalog.texts.signatures import LEAST_BYTES, can_tell, signature

LOWEST = "\0\1\2"
"""What PostgreSQL stores in another spelling, and what that consists of."""
EVERY = ["".join(each) for length in range(1, 6) for each in product(LOWEST, repeat=length)]
ODD = [f"x{each}y" for each in f"{string.punctuation} \t\né🙂"] + ["z" * 10_001]
NAME = "texts"
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@pytest.fixture
def texts(catalog):
    """A catalogue with a collection of texts."""
    create(catalog, NAME)
    return catalog


def check(catalog, texts, parts, more):
    """Check which of these texts have each of the parts, and which any of them and of more."""
    ids = numbered(len(texts))
    add(catalog, NAME, ids, texts)
    with catalog.read() as transaction:
        collection = find_collection(transaction, NAME)
        for part in parts:
            having = {each for each, text in zip(ids, texts, strict=True) if part in text}
            where = TextContains(part)
            assert set(reads.by_ids(transaction, collection, ids, where=where)) == having, part
            assert set(reads.by_ids(transaction, collection, ids, where=Not(where))) == set(ids) - having, part
            matching = reads.positions_in_order(transaction, collection, all_of(where, HasId(tuple(ids))))
            assert {each.id for each in reads.by_positions(transaction, list(matching)).values()} == having, part
        any_part = Or(tuple(map(TextContains, (*parts, *more))))
        having = {each for each, text in zip(ids, texts, strict=True) if any(part in text for part in (*parts, *more))}
        assert set(reads.by_ids(transaction, collection, ids, where=any_part)) == having


def test_every_short_text_of_the_lowest_characters_has_its_own_parts(texts):
    check(texts, ["", "xy", *EVERY, *ODD], [part for part in EVERY if len(part) < 4], ODD)


def hold(catalog, name, texts, **metadata):
    create(catalog, name)
    add(catalog, name, numbered(len(texts)), texts, [metadata] * len(texts))


def count(catalog, name, where):
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        return filters.count(transaction, collection.key, where, collection.count)


@given(TEXTS, TEXTS, TEXTS)
def test_a_text_has_every_bit_of_each_of_its_parts(before, part, after):
    has, wanted = signature(before + part + after), signature(part)
    assert [here & bits for here, bits in zip(has, wanted, strict=True)] == wanted
    assert can_tell([part]) == (len(part.encode()) >= LEAST_BYTES)


def test_a_long_text_has_the_bits_of_parts_anywhere_in_it(monkeypatch):
    whole = "".join(chr(0x100 + number % 500) for number in range(100))
    at_once = signature(whole)
    for size in (1, 2, 3, 7, 64, 197, 198, 199, 200):
        monkeypatch.setattr(signatures, "BYTES_AT_ONCE", size)
        assert signature(whole) == at_once


def test_documents_of_earlier_releases_get_theirs(open_database):
    catalog = Catalog(open_database())
    catalog.open()
    hold(catalog, "old", ["the first text", "a\0b\1c and more", "the last text"])
    as_before(open_database(), 15, "DROP TABLE text_signatures")
    again = Catalog(open_database())
    again.open()
    assert count(again, "old", TextContains("first t")) == 1
    assert count(again, "old", TextContains("a\0b\1c")) == 1
    assert count(again, "old", TextMatches("the (first|last) text")) == 2


def test_beside_a_filter_that_most_documents_meet_texts_are_told_apart(catalog):
    texts = ["hay " * (number % 5) for number in range(DRIVER_COUNT_BOUND + 10)]
    texts[7] = "a needle in the hay"
    hold(catalog, "hay", texts, dry=True)
    for where in (TextContains("needle"), *map(TextMatches, ("ne{2}dle", "nee.*dle", "n|needle"))):
        assert count(catalog, "hay", all_of(Equals("dry", True), where)) == 1, where
        assert count(catalog, "hay", all_of(Equals("dry", False), where)) == 0, where
