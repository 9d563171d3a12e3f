"""A text has the parts that it has, letter for letter, whatever its letters are, and no others."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.where import HasId, Not, TextContains, all_of
from tests.wrapper.documents import add, create, numbered
from wrapper.catalog import reads
from wrapper.catalog.rows import find_collection

LOWEST = "\0\1\2"
"""What PostgreSQL stores in another spelling, and what that consists of."""
LETTERS = LOWEST + "\3\4a"
EVERY = ["".join(each) for length in range(1, 6) for each in product(LOWEST, repeat=length)]
NAME = "texts"


@pytest.fixture
def texts(catalog):
    """A catalogue with a collection of texts."""
    create(catalog, NAME)
    return catalog


def check(catalog, texts, parts):
    """Check which of these texts have each of the parts."""
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


def test_every_short_text_of_the_lowest_characters_has_its_own_parts(texts):
    check(texts, EVERY, [part for part in EVERY if len(part) < 4])


@given(st.lists(st.text(LETTERS, max_size=12), min_size=1, max_size=5), st.text(LETTERS, min_size=1, max_size=4))
def test_random_texts_have_their_own_parts(texts, some, part):
    check(texts, some, [part, *(text[1:4] for text in some if len(text) > 1)])
