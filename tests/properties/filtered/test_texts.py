"""What filters ask of texts, by parts and by regular expressions, selects what reading each text would."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.contract_tests.model import ModelDocument
from schemas.records import DocumentBatch
from schemas.where import EVERYTHING, TEXT, HasId, Not, parse_where
from schemas.words.regular_expressions import matches
from tests.properties.strategies import embedding
from wrapper.catalog import document_changes, filters, reads, writes
from wrapper.catalog.rows import find_collection

LETTERS = "abcdéß🙂 \0\1\n%_"
TEXTS = st.one_of(st.text(LETTERS, max_size=30), st.sampled_from(["", "abcd" * 700, "eins zwei drei"]))
SHORT = st.text(LETTERS, max_size=6)


@st.composite
def _asked(draw, texts):
    """Return a filter by text and what says, without an index, whether a text is so."""
    whole = draw(st.sampled_from(texts)) if texts else ""
    start = draw(st.integers(0, len(whole)))
    part = draw(st.one_of(SHORT, st.just(whole[start : start + draw(st.integers(0, 12))])))
    operator = draw(st.sampled_from(["$contains", "$not_contains", "$regex", "$not_regex"]))
    if operator.endswith("contains"):
        return {TEXT: {operator: part}}, lambda given: (part in given) == (operator == "$contains")
    pattern = re.escape(part).replace("\\\n", "\n").replace("\0", "\\x00") + draw(
        st.sampled_from(["", ".*", "?", "+", "|zzz"])
    )
    if part == "":
        pattern = "a"
    return {TEXT: {operator: pattern}}, lambda given: matches(pattern, given) == (operator == "$regex")


def _selected(catalog, name, where):
    with catalog.read() as transaction:
        collection = find_collection(transaction, name)
        tree = where if isinstance(where, HasId | Not) else parse_where(where)
        page = reads.page(transaction, collection, tree, limit=1000)
        listed = reads.positions_in_order(transaction, collection, tree)
        listing = filters.in_order(transaction, collection.key, tree)
        walked = {row[0] for row in transaction.rows(listing.text, listing.parameters)}
        ids = [each.id for each in reads.page(transaction, collection, EVERYTHING, limit=1000).documents]
        by_id = reads.by_ids(transaction, collection, ids, where=tree)
        exported = [each for block in reads.everything(transaction, collection, tree) for each in block]
        compared, _ = reads.vectors_of(transaction, collection, ids, where=tree)
    assert page.total == len(page.documents)
    assert [each.position for each in page.documents] == list(listed) == sorted(walked)
    assert sorted(compared) == sorted(walked)
    found = [each.id for each in page.documents]
    assert [each.id for each in exported] == found
    assert sorted(by_id) == sorted(found)
    return found


@pytest.mark.slow
@given(st.data(), st.lists(TEXTS, min_size=1, max_size=8))
def test_every_filter_by_text_selects_what_reading_does(catalog, stored, data, texts):
    found = [ModelDocument(f"d{n}", given, {"even": n % 2 == 0}, embedding(n)) for n, given in enumerate(texts)]
    name = stored(found)
    for _ in range(3):
        where, is_so = data.draw(_asked(texts))
        assert _selected(catalog, name, where) == [each.id for each in found if is_so(each.text)]
        both = {"$and": [where, {"even": True}]}
        assert _selected(catalog, name, both) == [
            each.id for each in found if is_so(each.text) and each.metadata["even"]
        ]
        either = {"$or": [where, {"even": True}]}
        assert _selected(catalog, name, either) == [
            each.id for each in found if is_so(each.text) or each.metadata["even"]
        ]
    some = data.draw(st.sets(st.sampled_from([*(each.id for each in found), "d100"])))
    assert _selected(catalog, name, HasId(tuple(some))) == [each.id for each in found if each.id in some]
    assert _selected(catalog, name, Not(HasId(tuple(some)))) == [each.id for each in found if each.id not in some]


def test_a_pattern_meets_what_earlier_writes_of_the_same_transaction_have_left(catalog, stored):
    """The catalogue commits the writes of several callers together."""
    name = stored([ModelDocument(each, "alpha", {}, embedding(n)) for n, each in enumerate(["p", "q"])])
    where = parse_where({TEXT: {"$regex": "^al?p"}})

    def several(transaction):
        document_changes.patching_metadata(name, {"seen": 1}, where=where).store(transaction)
        for document, text in (("p", "omega"), ("r", "alpha")):
            batch = DocumentBatch([document], [text], [{}], embedding(5)[np.newaxis])
            writes.add_documents(transaction, name, batch)
        writes.delete_documents(transaction, name, where=where)

    catalog.commit(several)
    assert _selected(catalog, name, {TEXT: {"$contains": ""}}) == ["p"]
