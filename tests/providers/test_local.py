"""What the storage of this service says of itself to whom, and the parts in which documents are sent to others."""

import numpy as np
import pytest

from providers.arguments import parts_of
from providers.base import ProviderContext
from providers.local import LocalProvider
from schemas.access.callers import ANYBODY, Caller, Kind, Scope, acting_as
from schemas.records import DocumentBatch
from schemas.where import parse_where

ALONE = frozenset({Scope.CONNECT})
NARROW = Caller("narrow", "narrow", Kind.KEY, ALONE, collections=("mine*",))
FILTERED = Caller("filtered", "filtered", Kind.KEY, ALONE, where=parse_where({"public": True}))


class Empty:
    def collections(self):
        return []


@pytest.mark.parametrize(
    ("caller", "tells"),
    [(ANYBODY, True), (Caller("all", "all", Kind.KEY, ALONE), True), (NARROW, False), (FILTERED, False)],
)
def test_the_size_of_the_data_directory_is_for_those_who_see_everything(tmp_path, caller, tells):
    (tmp_path / "theirs").write_bytes(b"x" * 100)
    provider = LocalProvider({}, ProviderContext(storage=Empty(), data_dir=tmp_path))
    with acting_as(caller):
        assert provider.check() == {"collections_count": 0, **({"storage_bytes": 100} if tells else {})}


def batch(count, text="x"):
    ids = [f"d{number}" for number in range(count)]
    return DocumentBatch(ids, [text] * count, [{"n": number} for number in range(count)], np.ones((count, 2), "f4"))


def test_parts_hold_all_documents_in_order_and_are_bounded_in_size_except_for_single_documents():
    for count in (1, 5, 10, 11):
        parts = list(parts_of(batch(count), max_documents=5, max_bytes=1 << 20))
        assert [each for part in parts for each in part.ids] == [f"d{number}" for number in range(count)]
        assert [metadata["n"] for part in parts for metadata in part.metadatas] == list(range(count))
        assert all(1 <= len(part) <= 5 and part.embeddings.shape == (len(part), 2) for part in parts)
    parts = list(parts_of(batch(6, "y" * 1000), max_documents=100, max_bytes=5000))
    assert [len(part) for part in parts] == [2, 2, 2]
    assert [len(part) for part in parts_of(batch(3, "y" * 9000), max_documents=100, max_bytes=5000)] == [1, 1, 1]
