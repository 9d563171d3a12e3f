"""The next documents behind a position, in both directions, on both databases."""

import numpy as np
import pytest

from schemas.records import DocumentBatch
from schemas.where import EVERYTHING, Equals
from wrapper.catalog import writes
from wrapper.catalog.names import collection_writes
from wrapper.stores.file_listing import FileListing


@pytest.fixture
def listing(catalog):
    """Twenty documents in the order in which they came, every other one of them `even`."""
    catalog.commit(lambda transaction: collection_writes.create_collection(transaction, "docs", {}, "cosine"))
    batch = DocumentBatch(
        ids=[str(number) for number in range(20)],
        texts=[str(number) for number in range(20)],
        metadatas=[{"even": number % 2 == 0, "rare": number == 7} for number in range(20)],
        embeddings=np.ones((20, 3), dtype="<f4"),
    )
    catalog.commit(lambda transaction: writes.add_documents(transaction, "docs", batch))
    return FileListing(catalog)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (EVERYTHING, list(range(20))),
        (Equals("even", True), list(range(0, 20, 2))),
        (Equals("rare", True), [7]),
        (Equals("rare", 3), []),
    ],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_pages_give_each_document_once_and_in_order(listing, where, expected, newest_first):
    found, position = [], None
    while page := listing.neighbours("docs", where, position=position, newest_first=newest_first, limit=3):
        found += [int(each.id) for each in page]
        position = page[-1].position
    assert found == (expected[::-1] if newest_first else expected)


def test_bytes_are_told_of_each_collection(listing):
    sizes = listing.held_bytes(["docs", "nobody"])
    assert sizes["docs"] > 20 * 3 * 4
    assert sizes["nobody"] == 0
